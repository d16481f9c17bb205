"""Every public verb explains itself and shows an example, and every example is run."""

from __future__ import annotations

import ast
import asyncio
import doctest
import inspect
import io
from contextlib import redirect_stdout
from datetime import timedelta
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

import wakeful
from wakeful.python.sync import SyncWakeful
from wakeful.testing import ManualClock

VERBS = {
    f"alarms.{name}": verb
    for name, verb in inspect.getmembers(wakeful.LocalWakeful, inspect.isfunction)
    if not name.startswith("_")
}
SHOWN: dict[str, Any] = VERBS | {
    "Wakeful": wakeful.Wakeful,
    "LocalWakeful": wakeful.LocalWakeful,
    "open": wakeful.open,
    "open_sync": wakeful.open_sync,
}


@pytest.mark.parametrize("name", SHOWN)
async def test_the_example_of_a_verb_is_true(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(SHOWN[name]) or "")
    assert examples, f"the docstring of {name} has no example"
    time = ManualClock()
    async with wakeful.open("world.db", owner="ada", clock=time) as alarms:
        retries = 0 if name == "alarms.retry" else 5
        await alarms.set("in 1 minute", "Read the mail", max_failures=retries)
        await time.advance(timedelta(minutes=1))
        await alarms.run_due()
        [wake] = await alarms.inbox()
        alarm = await alarms.set("every weekday at 9am", "Check the grant portal")
        if name == "alarms.retry":
            await alarms.delivery_failed(wake.fire.id, "HTTP 503")
        names = {"wakeful": wakeful, "asyncio": asyncio, "alarms": alarms, "alarm": alarm, "wake": wake}
        for example in examples:
            shown = await said(example.source, names)
            assert doctest.OutputChecker().check_output(example.want, shown, doctest.ELLIPSIS), (example.source, shown)


async def said(source: str, names: dict[str, Any]) -> str:
    """What Python's own shell with `await` prints for a statement."""
    code: CodeType = compile(source, "<example>", "single", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with redirect_stdout(io.StringIO()) as out:
        result = eval(code, names)
        if inspect.iscoroutine(result):
            await result
    return out.getvalue()


@pytest.mark.parametrize("name", sorted(name for name in dir(SyncWakeful) if not name.startswith("_")))
def test_a_verb_without_await_has_a_docstring(name: str) -> None:
    assert inspect.getdoc(getattr(SyncWakeful, name))
