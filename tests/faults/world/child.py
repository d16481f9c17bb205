"""A helper process that is spoken to by lines, and ends when its owner does: its standard input is its life line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Child:
    def __init__(self, module: Path, *args: str, environ: Mapping[str, str] | None = None) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(module), *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environ or {})},
            start_new_session=True,  # a Ctrl-C at the terminal is not for it
        )
        self.pid = self._process.pid

    def hear(self) -> Any:
        """What it says next; an error of its own is ours."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args!r} ended with {self._process.wait()}")
        answer = json.loads(line)
        if isinstance(answer, dict) and "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def ask(self, *order: Any) -> Any:
        """One order, one answer."""
        with self._lock:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            return self.hear()

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


def say(answer: Any) -> None:
    """The child's side."""
    print(json.dumps(answer), flush=True)
