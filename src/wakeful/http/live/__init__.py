"""Live events: server-sent events and the WebSocket."""
