"""Where the cache joins torch."""
