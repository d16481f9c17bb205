"""Who asks, and how much of it is too much."""
