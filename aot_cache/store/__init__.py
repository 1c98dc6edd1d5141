"""Where bytes live. Nothing in this room knows what the bytes mean."""
