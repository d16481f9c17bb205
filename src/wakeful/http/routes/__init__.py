"""The operations of the HTTP interface."""
