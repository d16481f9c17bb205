"""The HTTP door: operations, who may call them, what they answer, and what is followed live."""
