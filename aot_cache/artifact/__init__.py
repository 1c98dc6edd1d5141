"""A compiled forward and backward as bytes."""
