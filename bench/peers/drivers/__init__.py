"""What drives each contestant, in a process of its own: python -m bench.peers.drivers.NAME TASK; one JSON line answers.

A driver of a peer runs in that peer's environment: it may import the peer, the standard library and `measuring`.
"""
