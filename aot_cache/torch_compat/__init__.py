"""The only room that names torch's private parts. Everything above it speaks of graphs, tensors and states."""
