"""The first minutes of somebody new with the installed program: serve, see an alarm fire, ask why, ask the doctor."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

WITHIN: Final = 60.0  # seconds, from the end of the installation
_CHECKS: Final = {"config", "database", "schema", "integrity", "dispatcher", "targets", "overdue", "clock", "disk"}


class Newcomer:
    """Somebody with an empty home, in an empty folder, who has installed `program` and set nothing up."""

    def __init__(self, program: Path, home: Path) -> None:
        self.program = program
        self.folder = home / "anywhere"
        self.folder.mkdir()
        self.environ = {"HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}

    def run(self, *args: str) -> str:
        command = [str(self.program), *args]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environ, capture_output=True, text=True, timeout=WITHIN, check=False
        )
        assert done.returncode == 0, f"wakeful {' '.join(args)}: {done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def serving(self) -> Iterator[str]:
        """`wakeful serve` while it lasts, and its address; it ends in good order."""
        log = self.folder.parent / "serve.log"
        with log.open("wb") as out:
            command = [str(self.program), "serve", "--port", "0"]
            server = subprocess.Popen(command, cwd=self.folder, env=self.environ, stdout=out, stderr=out)
        try:
            yield self._address(log, server)
            server.send_signal(signal.SIGTERM)
            assert server.wait(timeout=WITHIN) == 0, log.read_text()
        finally:
            server.kill()
            server.wait()

    def _address(self, log: Path, server: subprocess.Popen[bytes]) -> str:
        deadline = time.monotonic() + WITHIN
        while time.monotonic() < deadline and server.poll() is None:
            if found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text()):
                return found[0]
            time.sleep(0.05)
        raise AssertionError(f"it does not serve: {log.read_text()}")


def first_minutes(program: Path, home: Path) -> float:
    """Walk the README's path; how many seconds it took."""
    began = time.monotonic()
    newcomer = Newcomer(program, home)
    assert re.fullmatch(r"wakeful \d+\.\d+\.\d+\S*\n", newcomer.run("--version"))
    with newcomer.serving() as address:
        for path in ("/readyz", "/metrics", "/v1/alarms"):
            with urllib.request.urlopen(f"{address}{path}", timeout=WITHIN) as answer:
                assert answer.status == 200
        told = _columns(newcomer.run("at", "in 5 seconds", "hello", "--wait"))
        assert told["message"] == ["hello"]
        assert "waiting in the inbox" in told["fired"][0], told
        why = newcomer.run("why", told["id"][0])
        assert why.startswith("It has fired"), why
        findings = [line.split("\t") for line in newcomer.run("doctor").splitlines()]
        assert {check for _, check, *_ in findings} >= _CHECKS, findings
        assert [line for line in findings if line[0] != "ok"] == []
        assert any("1 running" in line[2] for line in findings if line[1] == "dispatcher")
        assert "hello" in newcomer.run("history")
    assert os.listdir(newcomer.folder) == [], "nothing is left in the folder where it was called"
    return time.monotonic() - began


def _columns(text: str) -> dict[str, list[str]]:
    return {name: rest for name, *rest in (line.split("\t") for line in text.splitlines())}
