"""Coming from other systems."""
