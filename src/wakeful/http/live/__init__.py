"""Followed live: server-sent events and the WebSocket."""
