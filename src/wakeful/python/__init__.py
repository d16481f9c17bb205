"""The library: alarms in a program, with async and without."""
