"""Where one platform is tried: a folder of its own, and the interpreter of its environment."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from tests.remote.world import environment

ROOT: Final = Path(__file__).parents[2]
WITHIN: Final = 120.0  # seconds for a program; only bounds a wait


class Trial(Struct, frozen=True):
    name: str
    folder: Path
    place: Path | None  # the environment; None: ours

    def command(self, *args: str) -> list[str]:
        python = sys.executable if self.place is None else str(self.place / "bin" / "python")
        return [python, "-W", "ignore::DeprecationWarning", *args]

    @property
    def environ(self) -> dict[str, str]:
        """wakeful itself is not installed there: only what it needs."""
        path = {} if self.place is None else {"PYTHONPATH": str(ROOT / "src")}
        return environment(**path, HOME=str(self.folder), NO_PROXY="*")

    def run(self, *args: str) -> str:
        """A program to its end, and what it wrote; AssertionError where it failed."""
        done = subprocess.run(
            self.command(*args), cwd=self.folder, env=self.environ, capture_output=True, text=True, timeout=WITHIN
        )
        assert done.returncode == 0, f"{args[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def running(self, *args: str) -> Iterator[subprocess.Popen[str]]:
        """A program that goes on until SIGTERM, and then ends well, or by that signal."""
        said = self.folder / f"{args[0]}.log"
        with said.open("w") as log:
            process = subprocess.Popen(
                self.command(*args), cwd=self.folder, env=self.environ, stdout=log, stderr=log, text=True
            )
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            status = process.wait(WITHIN)
            assert status in (0, -signal.SIGTERM), f"{args[0]} ended with {status}:\n{said.read_text()}"
        except BaseException as error:
            error.add_note(f"{args[0]} wrote:\n{said.read_text()}")
            raise
        finally:
            process.kill()
            process.wait()
