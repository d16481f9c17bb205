"""Faults that are no faults: somebody else uses the same server, badly. Nobody's alarm is excused by it."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack, suppress
from typing import Final

from .ground import Ground
from .kinds import Hit, kind

SILENT: Final = 600  # connections; half of them stop in the middle of a request
SECONDS: Final = 4.0
HALF: Final = (
    b"POST /v1/alarms HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n\r\n{"
)
PHRASE: Final = {"wake_message": "x", "when": "every blue moon but the second, " + "or the day after " * 8}
# Nothing of wakeful's was hit: like a hostile receiver, it is no reason to be late or to send twice.
NOBODY: Final = ("receiver:none",)


@kind("flood by a neighbour")
def flood(ground: Ground) -> Hit:
    """Connections that say nothing or half of it, and batches that are hard to refuse, all at once."""
    end = time.monotonic() + SECONDS

    def refuse_me() -> None:
        while time.monotonic() < end:
            ground._post("/v1/alarms/batch", {"alarms": [PHRASE] * 500})

    asking = [threading.Thread(target=refuse_me, name="neighbour") for _ in range(2)]
    ground.mark()
    with ExitStack() as lines:
        for thread in asking:
            thread.start()
        for n in range(SILENT):
            with suppress(OSError):
                line = lines.enter_context(socket.create_connection(("127.0.0.1", ground.port), timeout=5))
                line.send(HALF if n % 2 else HALF[:40])
        ground.pause(max(0.0, end - time.monotonic()))
    for thread in asking:
        thread.join()
    return Hit(hits=NOBODY)
