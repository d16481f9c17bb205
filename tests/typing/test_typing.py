"""Five programs that use wakeful: they run, `mypy --strict` has nothing to say, and it finds every mistake planted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from starlette.testclient import TestClient

from tests.interfaces.world import serving
from tests.typing import keywords, verbs
from tests.typing.programs import own_tests, remote_client, script, web_app, worker
from wakeful.testing.alarms_for_tests import SteppedWakeful

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
# In which program, what stands there, what is planted instead, and what mypy calls that.
MISTAKES = [
    ("script", 'label="body"', 'labell="body"', "call-arg"),
    ("script", 'lease="5m"', 'leese="5m"', "call-arg"),
    ("script", 'status="active"', 'status="actve"', "arg-type"),
    ("script", '"catch_up": "skip"', '"catchup": "skip"', "arg-type"),
    ("script", "version=daily.version", "version=daily.label", "arg-type"),
    ("script", 'status="pending"', 'status="waiting"', "arg-type"),
    ("web_app", 'on_conflict="replace"', 'on_conflict="merge"', "arg-type"),
    ("web_app", "max_failures=3", 'max_failures="3"', "arg-type"),
    ("web_app", 'status=("active", "paused")', 'status=("active", "done")', "arg-type"),
    ("web_app", "alarms.asgi()", "alarms.asgy()", "attr-defined"),
    ("worker", '@alarms.handler("agent", reports=True)', "@alarms.handler", "arg-type"),
    ("worker", 'delay="10ms"', "delay=[10]", "arg-type"),
    ("worker", '        alarms.declare("elsewhere")', '        await alarms.declare("elsewhere")', "misc"),
    ("worker", '{"report_within": "10m"}', '{"report_within": b"10m"}', "arg-type"),
    ("remote_client", "await alarms.snooze(created", "alarms.snooze(created", "unused-coroutine"),
    ("remote_client", "= await alarms.inbox(wait=60)", "= alarms.inbox(wait=60)", "assignment"),
    ("remote_client", 'outcome="completed"', 'outcome="done"', "arg-type"),
    ("own_tests", 'advance("3d")', "advance(None)", "arg-type"),
    ("own_tests", '("brief")(sends(sent))', '("brief")(sent.append)', "type-var"),
]  # fmt: skip


def test_a_script_runs(tmp_path: Path) -> None:
    *alarms, counts, why = script.main(str(tmp_path / "w.db"))
    assert len(alarms) == 3
    assert counts == "4 pending, 4 told, 5 minutes"
    assert why.startswith("It fires at ")


def test_a_web_application_runs(tmp_path: Path) -> None:
    sent: list[str] = []
    with TestClient(web_app.application(str(tmp_path / "w.db"), sent), base_url="http://localhost") as client:
        assert client.get("/remind?when=soonish&message=x").json()["field"] == "when"
        assert client.get("/remind?when=in 1 second&message=Stretch").status_code == 200
        while not (done := client.get("/reminders").json()["done"]):
            pass
    assert (sent, done) == (["Stretch"], ["mailed to ada@example.org"])


async def test_a_worker_runs(tmp_path: Path) -> None:
    assert await worker.main(str(tmp_path / "w.db")) == ["copy", "thought", '{"page":3,"attempt":1}']


async def test_a_remote_client_runs(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db")) as house, house.alarms.running():
        told = await remote_client.main(house.url, "")
    assert told == ["when", "1 in the next two days, 1 in all", "0 9 * * 1-5", "c1"]


def test_somebody_s_own_tests_pass(tmp_path: Path) -> None:
    with SteppedWakeful(tmp_path / "w.db") as alarms:  # the fixture, without the plugin that only an install brings
        own_tests.test_the_brief_is_sent_once_a_day(alarms)


@pytest.fixture(scope="module")
def mistaken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[tuple[str, int, str]]]:
    """The programs with every mistake planted, and where each of them stands."""
    folder, planted = tmp_path_factory.mktemp("mistaken"), set[tuple[str, int, str]]()
    for program in PROGRAMS.glob("*.py"):
        text = program.read_text()
        for name, before, after, code in MISTAKES:
            if name == program.stem:
                assert text.count(before) == 1, before
                line = text[: text.index(before)].count("\n") + 1
                planted.add((name, line, code))
                text = text.replace(before, after)
        (folder / f"mistaken_{program.name}").write_text(text)
    return folder, planted


def test_mypy_finds_every_mistake_and_nothing_else(mistaken: tuple[Path, set[tuple[str, int, str]]]) -> None:
    folder, planted = mistaken
    assert len(planted) == len(MISTAKES) >= 8
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(PROGRAMS), str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    found = {
        (name, int(line), code)
        for name, line, code in re.findall(r"mistaken_(\w+)\.py:(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.M)
    }
    assert planted <= found, done.stdout + done.stderr
    assert {place[:2] for place in found} == {place[:2] for place in planted}, done.stdout
    assert not re.search(r"typing/programs/.*: error", done.stdout), done.stdout


@pytest.mark.parametrize("generated", [keywords, verbs], ids=["keywords", "verbs"])
def test_what_is_generated_is_what_is_declared(generated: ModuleType) -> None:
    assert generated.PLACE.read_text() == generated.written(), "run ./scripts/keywords"
