"""The worlds of the fault harness: databases, networks, disks and clocks that really fail, and really heal.

Each is a class or a function with a synchronous door (call it from a thread where a loop runs), stands on loopback and
in a folder of its own, and leaves no process and no mount behind, also when whoever made it is killed
(tests/leftovers.py).
"""
