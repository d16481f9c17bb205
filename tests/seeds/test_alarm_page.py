"""The page for those who come from Alarm: every example on it is run, and what it says comes out is compared.

Between the examples, comments that a reader does not see say what happens: `passes 30m` lets time pass and delivers
what is due, `restart` closes the clock and opens it again on the same database, `server` runs the next example
against a real server.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from inspect import CO_COROUTINE
from pathlib import Path
from typing import Any

import pytest

import wakeful
from tests.interfaces.world import serving
from tests.seeds.alarm_world import FUNCTIONS, STORES, Desk, Place, a_place
from wakeful.schedule import duration
from wakeful.testing import ManualClock

# Without "From nothing", which tests/newcomer pastes into a shell.
PAGE = (Path(__file__).parents[2] / "docs" / "seeds" / "alarm.md").read_text().partition("\n## Moving\n")[2]
SUNDAY = datetime(2026, 11, 15, 8, tzinfo=UTC)
STEP = re.compile(r"<!-- (?P<order>[a-z]+) ?(?P<span>\S*) -->|```python\n(?P<code>.*?)```", re.DOTALL)
SERVER = "http://127.0.0.1:4747"


class Reader:
    """Someone who types the examples one after the other, in a program whose clock is running."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.time = ManualClock(SUNDAY)
        self.names: dict[str, Any] = {"wakeful": wakeful}
        self.compared = 0

    async def open(self) -> None:
        self.names["alarms"] = wakeful.open(**self._place, clock=self.time, timezone="Europe/Berlin")
        await self.names["alarms"].__aenter__()

    async def close(self) -> None:
        await self.names["alarms"].close()

    async def passes(self, span: str) -> None:
        await self.time.advance(duration(span))
        await self.names["alarms"].run_due()

    async def types(self, code: str) -> None:
        for statement, expected in statements(code):
            shown = await self._run(statement)
            if expected:
                assert matches(shown, expected), f"{ast.unparse(statement)}\nshows    {shown}\ninstead of {expected}"
                self.compared += 1

    async def _run(self, statement: ast.stmt) -> str:
        is_value = isinstance(statement, ast.Expr)
        tree = ast.Expression(statement.value) if isinstance(statement, ast.Expr) else ast.Module([statement], [])
        mode = "eval" if is_value else "exec"
        code = compile(tree, "docs/seeds/alarm.md", mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            value = eval(code, self.names)
            if code.co_flags & CO_COROUTINE:
                value = await value
        return printed.getvalue() or repr(value)


def statements(code: str) -> Iterator[tuple[ast.stmt, str]]:
    """Each statement of an example, and what stands in the comment `# =>` after it."""
    lines = code.splitlines()
    for statement in ast.parse(code).body:
        said: list[str] = []
        for line in lines[statement.end_lineno or 0 :]:
            start = "#    " if said else "# => "
            if not line.startswith(start):
                break
            said.append(line.removeprefix(start))
        yield statement, " ".join(said)


def matches(shown: str, expected: str) -> bool:
    """Whether it is what was expected; `…` stands for anything."""
    shown, expected = " ".join(shown.split()), " ".join(expected.split())
    return re.fullmatch(re.escape(expected).replace("…", ".*"), shown) is not None


def steps() -> list[re.Match[str]]:
    return list(STEP.finditer(PAGE))


def programs() -> list[str]:
    """The examples that stand alone."""
    return [
        step["code"]
        for step in steps()
        if step["code"] and re.search(r"asyncio\.run\(|open_sync\(|start_link\(", step["code"])
    ]


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return a_place(request, tmp_path)


async def test_the_examples_run_one_after_the_other_and_show_what_they_say(place: Place) -> None:
    reader = Reader(place)
    await reader.open()
    before = ""
    try:
        for step in steps():
            if step["order"] == "passes":
                await reader.passes(step["span"])
            elif step["order"] == "restart":
                await reader.close()
                await reader.open()
            elif step["code"] and before != "server" and step["code"] not in programs():
                await reader.types(step["code"])
            before = step["order"]
    finally:
        await reader.close()
    elsewhere = 1 + len(programs())
    assert reader.compared == len(re.findall(r"^# =>", PAGE, re.MULTILINE)) - elsewhere


async def test_the_example_of_the_websocket_gets_every_answer(place: Place) -> None:
    [example] = [
        step["code"] for before, step in zip(steps(), steps()[1:], strict=False) if before["order"] == "server"
    ]
    assert SERVER in example
    async with serving(**place) as visit:
        desk = Desk(visit.alarms)
        visit.alarms.handler("pushover")(desk.good)
        await visit.alarms.set("in 1 hour", "Call client", target="pushover")
        await visit.alarms.set(delay=0.01, wake_message="Break time", target="pushover")
        await desk.settled(1)
        reader = Reader(place)
        await reader.types(example.replace(SERVER, visit.url))
        assert reader.compared == 1


@pytest.mark.parametrize("program", programs(), ids=["async", "plain", "functions"])
def test_a_program_prints_what_it_says(program: str, tmp_path: Path) -> None:
    *_, (_, expected) = statements(program)
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline().strip() == expected
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("verb", ["run", "handler", "fires", "why", "update", *FUNCTIONS.values()])
def test_every_verb_of_alarm_is_shown_in_an_example(verb: str) -> None:
    assert any(f"alarms.{verb}(" in (step["code"] or "") for step in steps())


async def test_an_example_that_shows_something_else_is_noticed(tmp_path: Path) -> None:
    reader = Reader({"db": str(tmp_path / "alarm.db")})
    await reader.open()
    await reader.types("await alarms.pending()\n# => []")
    for wrong in ("await alarms.pending()\n# => [1]", "print('a')\n# => b", "1\n# => 1 …"):
        with pytest.raises(AssertionError, match="instead of"):
            await reader.types(wrong)
    await reader.close()
