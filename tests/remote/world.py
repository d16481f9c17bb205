"""A real `wakeful serve` in a process of its own, and clocks that speak to it."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tests import commands

T = TypeVar("T")
LISTENING = re.compile(r" on (http://127\.0\.0\.1:\d+),")


def environment(**more: str) -> dict[str, str]:
    """What a process of a test sees: none of the variables of whoever runs the tests."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("WAKEFUL_")}
    return ours | more


class ServeProcess:
    def __init__(self, folder: Path, *args: str, port: str = "0") -> None:
        self._process = subprocess.Popen(
            [*commands.PROGRAM, "serve", "--port", port, *args],
            cwd=folder,
            env=environment(),
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        said = ""
        while (found := LISTENING.search(line := self._process.stderr.readline())) is None:
            said += line
            assert line, said
        self.url = found[1]

    @property
    def port(self) -> str:
        return self.url.rpartition(":")[2]

    def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            self._process.communicate()


@contextmanager
def serving_process(folder: Path, *args: str, port: str = "0") -> Iterator[ServeProcess]:
    serving = ServeProcess(folder, *args, port=port)
    try:
        yield serving
    finally:
        serving.kill()


async def until(look: Callable[[], Awaitable[T]]) -> T:
    """What is there once something is."""
    async with asyncio.timeout(60):
        while True:
            if found := await look():
                return found
            await asyncio.sleep(0.02)


def command(args: Sequence[str], folder: Path, **environ: str) -> tuple[int, str, str]:
    """One command of the command line: its exit status, and what it said."""
    done = commands.run(args, cwd=folder, env=environment(**environ))
    return done.returncode, done.stdout, done.stderr
