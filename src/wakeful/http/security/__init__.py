"""Access control and limits of the HTTP API."""
