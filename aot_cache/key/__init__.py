"""What must be equal for a stored artifact to be valid."""
