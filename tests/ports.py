"""Ports for servers that a test starts later, or starts again."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, suppress


def free_port(count: int = 1) -> int:
    """The first of so many in a row, below those that the kernel gives to connections: nobody gets one meanwhile."""
    while True:
        first = random.SystemRandom().randint(15_000, 32_000)
        with ExitStack() as probes, suppress(OSError):
            for port in range(first, first + count):
                probes.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
