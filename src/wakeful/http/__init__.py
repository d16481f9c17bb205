"""The HTTP API: operations, access, answers and live events."""
