"""Tell systemd how this process is, where systemd started it: ready, alive, stopping (`Type=notify`, `WatchdogSec=`).

Elsewhere nothing is sent: the variables that systemd sets are missing.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
ALIVE: Final = "WATCHDOG=1"


def notify(*lines: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Send a state to systemd; False where nobody listens. A message that cannot be sent never stops the service."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.setblocking(False)
        sender.sendto("\n".join(lines).encode(), "\0" + address[1:] if address[0] == "@" else address)
        return True
    return False


def watchdog_interval(environ: Mapping[str, str] = os.environ) -> float | None:
    """How often systemd wants to hear that this process is alive, in seconds: half of its limit. None: never."""
    limit = environ.get("WATCHDOG_USEC", "")
    if not limit.isdigit() or int(limit) == 0 or environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(limit) / 2_000_000
