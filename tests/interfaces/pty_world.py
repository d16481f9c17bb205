"""The real program on a pseudo-terminal of 80 columns, and what it showed there before.

A snapshot is the terminal's text with everything that differs between two runs replaced by a word. To keep a new one,
run the test with WAKEFUL_KEEP_SNAPSHOTS=1 and read what it wrote.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests import commands
from wakeful import __version__

SNAPSHOTS: Final = Path(__file__).parent / "snapshots"
COLUMNS: Final = 80
_DATE: Final = r"\d\d? (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)( \d{4})?"
_DAY: Final = rf"((Mon|Tue|Wed|Thu|Fri|Sat|Sun)( {_DATE})?|{_DATE})"
_LENGTH: Final = r"\d+ (d|h|min|s)"
# The doctor's finding where the machine's data are not of this year or the last, wrapped or not.
OLD_ZONES: Final = (
    r"(?m)^warn( +time zones +\S+ from [^;]+);\s+times\s+are\s+read\s+in\s+(\w+);\s+"
    r"that\s+is\s+old\n(?: {8,}[^\n]*\n)+"
)
_DIFFERS: Final = {
    OLD_ZONES: r"ok  \1; times are read in \2\n",
    r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}": "ID",
    r"[0-9a-f]{8}-[0-9a-f]{4}(?=[\s@])": "SHORT",
    r"@\d{13}": "@MS",
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?": "TIME",
    rf"\b(now|(in )?{_LENGTH}( {_LENGTH})?( ago)?), ({_DAY} )?(\d\d:\d\d(:\d\d)?|\d{{4}}-\d\d-\d\d)": "MOMENT",
    rf"\b{_DAY} \d\d:\d\d(:\d\d)?": "TIME",
    r"\d{4}-\d\d-\d\d \d\d:\d\d\b": "DAY",
    r"\bon [A-Z]\w+day \d+ [A-Z]\w+ \d{4} at [\d:.]+": "on DAY at TIME",
    r"\b(NEXT|FIRES AT|SCHEDULED|MOMENT) +": r"\1  ",
    r"\bin \d+ d\b": "in N d",
    r"SQLite 3\.[\d.]+": "SQLite VERSION",
    r"\d+ (kB|MB|GB)\b": "SIZE",
    r"20\d\d[a-z] from [^;]+;": "EDITION;",
    r"version \d+, up to date": "version N, up to date",
    r"(schema +)\d+ of \d+": r"\1N of N",
    re.escape(__version__): "VERSION",
}


class Screen:
    """What a terminal got, and how the program ended."""

    def __init__(self, raw: str, code: int) -> None:
        self.raw = raw
        self.code = code

    @property
    def text(self) -> str:
        """Without colours and cursor movements."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.raw).replace("\r\n", "\n")


def environ(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WAKEFUL_")}
    for name in ("COLUMNS", "LINES", "NO_COLOR", "EDITOR", "VISUAL"):
        kept.pop(name, None)
    return kept | {"TERM": "xterm-256color", "TZ": "UTC"} | more


def on_a_terminal(
    *args: str,
    cwd: Path,
    typed: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    until: str = "",
    columns: int = COLUMNS,
) -> Screen:
    """Run a command to its end; `typed` are lines that are entered, each when the program falls silent.

    `until`: it goes on by itself, and is interrupted as by Ctrl-C once it has said this.
    """
    mine, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = commands.start(
        args, cwd=cwd, env=environ(**(env or {})), files=(theirs, theirs, theirs), new_session=True
    )
    os.close(theirs)
    shown, lines = b"", list(typed)
    try:
        while True:
            ready, _, _ = select.select([mine], [], [], 60)
            if not ready:
                raise AssertionError(f"the program waits: {shown.decode(errors='replace')}")
            try:
                part = os.read(mine, 65_536)
            except OSError:  # it has closed its end
                break
            if not part:
                break
            shown += part
            if until and until.encode() in shown:
                process.send_signal(signal.SIGINT)
                until = ""
            if lines and shown.rstrip(b" ").endswith((b":", b"?")):
                os.write(mine, lines.pop(0).encode() + b"\n")
        return Screen(shown.decode(), process.wait(60))
    finally:
        process.kill()
        process.wait()
        os.close(mine)


def piped(
    *args: str, cwd: Path, code: int = 0, input: str = "", env: Mapping[str, str] | None = None
) -> tuple[str, str]:
    """What a pipe gets on stdout and stderr."""
    done = commands.run(args, cwd=cwd, env=environ(**(env or {})), input=input)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout, done.stderr


def check_snapshot(name: str, screen: Screen, **also: str) -> None:
    """`also`: further text of this run, by the word that stands for it."""
    text = screen.text
    for word, said in also.items():
        text = text.replace(said, word)
    assert all(len(line) <= COLUMNS for line in text.splitlines()), text
    for pattern, word in _DIFFERS.items():
        text = re.sub(pattern, word, text)
    file = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("WAKEFUL_KEEP_SNAPSHOTS"):
        SNAPSHOTS.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text(), text
