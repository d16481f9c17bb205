"""The ways in. A door translates, through wire.py, and calls the service; it decides nothing about alarms."""
