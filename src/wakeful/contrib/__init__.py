"""Import from other systems."""
