"""The operations of the HTTP door."""
