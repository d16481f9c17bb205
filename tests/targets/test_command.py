"""A command, with real programs: what they get, what their end means, and that nothing of them is left running."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.leftovers import RUN
from wakeful.clock import SystemClock, measured_by
from wakeful.errors import InvalidConfig
from wakeful.model.alarm import DEFAULT_POLICY, ERROR_LIMIT, RESULT_LIMIT, HeardSignal
from wakeful.model.outcome import Completed, Delivered, Failed, Outcome
from wakeful.runtime import child
from wakeful.settings.sources import WAKE_VARIABLES
from wakeful.targets import Target
from wakeful.targets.command import PASSED_ON, VARIABLE_LIMIT, Command
from wakeful.testing.targets import NINE, TargetConformance, a_wake

Open = Callable[..., Command]
PATIENCE = 30.0  # seconds; a test waits for a condition
FOREVER = "import time; time.sleep(600)"
PID = "import os; open('pid', 'w').write(str(os.getpid())); "
LATER = Failed("exit status 75 (try again later): no | network", answered=True)
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open('ready', 'w'); time.sleep(600)"


@pytest.fixture
async def command(tmp_path: Path) -> AsyncIterator[Open]:
    opened: list[Command] = []

    def open(*argv: str, **settings: Any) -> Command:
        usual: dict[str, Any] = {"timeout": 60, "cwd": str(tmp_path), "env": (*PASSED_ON, RUN)}  # see leftovers.py
        opened.append(Command(argv=argv, **(usual | settings)))
        return opened[-1]

    yield open
    for each in opened:
        await each.close()


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


async def until(condition: Callable[[], bool]) -> None:
    clock = SystemClock()
    ends = clock.monotonic() + PATIENCE
    while not condition():
        assert clock.monotonic() < ends, "it did not happen in time"
        await clock.sleep(0.01)


@pytest.fixture
def hour_passes() -> Iterator[Callable[[], None]]:
    """Time limits are over from then on: no test depends on how fast a program starts."""
    passed = 0.0

    def passes() -> None:
        nonlocal passed
        passed += 3600.0

    with measured_by(lambda: SystemClock().monotonic() + passed):
        yield passes


def is_running(pid: int) -> bool:
    """A zombie does not run: it waits for whoever is its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def number_in(file: Path) -> int:
    return int(file.read_text() or 0) if file.exists() else 0


def files(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


class TestAsATarget(TargetConformance):
    @pytest.fixture
    def target(self, command: Open) -> Target:
        return command("/bin/cat")


# What it gets


async def test_it_reads_the_wake_as_json_and_its_output_is_the_result(command: Open) -> None:
    wake = a_wake("Good morning", payload_json='{"page": 3}')
    outcome = await command("/bin/cat").deliver(wake)
    assert isinstance(outcome, Completed)
    shown = json.loads(outcome.result)
    hidden = {"token": "[hidden]", "report": {"url": wake.content.report.url, "token": "[hidden]"}}
    assert shown == json.loads(wake.body) | hidden


async def test_it_can_read_the_wake_as_a_text_for_a_model(command: Open) -> None:
    wake = a_wake("Good morning")
    assert await command("/bin/cat", stdin="prompt").deliver(wake) == Completed(wake.prompt.rstrip("\n"))


async def test_what_an_alarm_says_is_data_and_never_a_part_of_the_command(command: Open, tmp_path: Path) -> None:
    hostile = "$(touch made) `touch made`; touch made\n--help"
    outcome = await command("/bin/sh", "-c", 'printf %s "$WAKEFUL_MESSAGE"').deliver(a_wake(hostile, label=hostile))
    assert outcome == Completed(hostile)
    assert files(tmp_path) == []


async def test_its_environment_is_the_wake_and_what_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WAKEFUL_DB": "postgresql://u:secret@db", "API_KEY": "k", "HOME": "/home/w"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("TZ", raising=False)
    dump = python("import json, os; print(json.dumps(dict(os.environ)))")
    wake = a_wake("Good morning", label="Brief", conversation_id="c-1", target="ops", last_error="HTTP 503", attempt=2)

    async def environment(**settings: Any) -> dict[str, str]:
        target = Command(argv=dump, **settings)
        outcome = await target.deliver(wake)
        await target.close()
        assert isinstance(outcome, Completed), outcome
        found: dict[str, str] = json.loads(outcome.result)
        return {name: value for name, value in found.items() if name != "LC_CTYPE"}  # Python sets it

    found = await environment()
    ours = {name: value for name, value in found.items() if name.startswith("WAKEFUL_")}
    assert ours == {
        "WAKEFUL_FIRE_ID": wake.fire_id,
        "WAKEFUL_ALARM_ID": wake.alarm_id,
        "WAKEFUL_OWNER": "did:matrix:alice:0123456789abcdef",
        "WAKEFUL_TARGET": "ops",
        "WAKEFUL_CONVERSATION_ID": "c-1",
        "WAKEFUL_LABEL": "Brief",
        "WAKEFUL_MESSAGE": "Good morning",
        "WAKEFUL_PAYLOAD": "{}",
        "WAKEFUL_AUTHOR": wake.author,
        "WAKEFUL_SCHEDULED_FOR": "2030-01-01T09:00:00+00:00",
        "WAKEFUL_ATTEMPT": "2",
        "WAKEFUL_NUMBER": "1",
        "WAKEFUL_LATE_MS": "0",
        "WAKEFUL_MISSED": "0",
        "WAKEFUL_LAST_ERROR": "HTTP 503",
    }
    assert set(found) - set(ours) <= set(PASSED_ON)
    assert found["HOME"] == "/home/w"
    assert set(await environment(env=["API_KEY", "TZ"])) - set(ours) == {"API_KEY"}


async def test_where_a_report_is_asked_for_it_gets_the_address_and_the_token(command: Open, tmp_path: Path) -> None:
    argv = ("/bin/sh", "-c", "echo $WAKEFUL_REPORT_URL; echo $WAKEFUL_REPORT_TOKEN > token")
    wake = a_wake()
    assert await command(*argv).deliver(wake) == Completed("")
    awaited = await command(*argv, reports=True).deliver(wake)
    assert awaited == Delivered("exit status 0", awaits_report=True)
    assert (tmp_path / "token").read_text().strip() == wake.report_token
    asked = a_wake(policy=DEFAULT_POLICY.__class__(report_within=60.0))
    assert await command(*argv).deliver(asked) == Completed(asked.content.report.url)


async def test_every_variable_is_one_that_wakeful_itself_accepts(command: Open) -> None:
    """`wakeful at …` may be the program: a variable that sets nothing is an error there, unless it is known."""
    policy = DEFAULT_POLICY.__class__(
        report_within=60.0, heard=HeardSignal(name="build", occurrence_at=NINE, payload_json="{}")
    )
    wake = a_wake(policy=policy, label="l", conversation_id="c", target="t", last_error="e")
    outcome = await command("/bin/sh", "-c", "env | grep -o '^WAKEFUL_[A-Z_]*'").deliver(wake)
    assert isinstance(outcome, Completed)
    assert sorted(outcome.result.split()) == sorted(WAKE_VARIABLES)


async def test_what_is_too_large_for_a_variable_is_on_stdin_only(command: Open) -> None:
    count = python("import os, sys; print(len(os.environ.get('WAKEFUL_MESSAGE', '')), len(sys.stdin.read()) > 32000)")
    assert await command(*count).deliver(a_wake("m" * VARIABLE_LIMIT)) == Completed(f"{VARIABLE_LIMIT} True")
    assert await command(*count).deliver(a_wake("é" * VARIABLE_LIMIT)) == Completed("0 True")


# What its end means


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("print('Grüße'); print()", Completed("Grüße")),
        ("import sys; print('no\\nnetwork', file=sys.stderr); sys.exit(75)", LATER),
        ("raise SystemExit(3)", Failed("exit status 3", answered=True)),
        ("raise SystemExit(4)", Failed("exit status 4", answered=True, retryable=False)),
        ("import os; os.abort()", Failed("it was ended by SIGABRT")),
        ("import os; os.kill(os.getpid(), 9)", Failed("it was ended by SIGKILL")),
        ("import os; os.kill(os.getpid(), 40)", Failed("it was ended by signal 40")),
    ],
)  # fmt: skip
async def test_the_exit_status_says_how_it_went(command: Open, code: str, outcome: Outcome) -> None:
    assert await command(*python(code), final_codes=[4, 5]).deliver(a_wake()) == outcome


async def test_a_program_that_takes_too_long_is_ended(
    command: Open, tmp_path: Path, hour_passes: Callable[[], None]
) -> None:
    delivering = asyncio.create_task(command(*python(PID + FOREVER)).deliver(a_wake()))
    await until(lambda: number_in(tmp_path / "pid") > 0)
    hour_passes()
    assert await delivering == Failed("it did not end within 60 s, and was ended")
    assert not is_running(number_in(tmp_path / "pid"))


async def test_a_program_that_cannot_be_started_is_the_target_s_failure(command: Open, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program")
    (tmp_path / "text").chmod(0o755)
    gone, odd = await command("./gone").deliver(a_wake()), await command("./text").deliver(a_wake())
    assert gone == Failed("./gone cannot be started: No such file or directory", unhealthy=True)
    assert odd == Failed("./text cannot be started: Exec format error", unhealthy=True)


async def test_tokens_that_it_prints_are_not_kept(command: Open) -> None:
    wake = a_wake()
    shown = await command("/bin/sh", "-c", "cat >&2; exit 1").deliver(wake)
    assert isinstance(shown, Failed)
    assert wake.report_token not in shown.error
    assert wake.token not in shown.error
    assert "[hidden]" in shown.error


# What programs do wrong


async def test_of_a_flood_the_end_is_kept_and_memory_is_bounded(command: Open) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    flood = (
        "import os, threading\n"
        "def pour(fd, end):\n"
        "    for _ in range(1000): os.write(fd, b'x' * 65536)\n"
        "    os.write(fd, end)\n"
        "threading.Thread(target=pour, args=(2, b'E')).start()\n"
        "pour(1, b'the end')\n"
    )
    outcome = await command(*python(flood)).deliver(a_wake())
    assert isinstance(outcome, Completed)
    assert outcome.result.startswith("…xxx")
    assert outcome.result.endswith("xxxthe end")
    assert len(outcome.result) <= RESULT_LIMIT
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 20_000  # KiB, of 131 MB that were written


async def test_a_cut_never_stands_inside_a_character(command: Open) -> None:
    outcome = await command(*python(f"print('é' * {RESULT_LIMIT})")).deliver(a_wake())
    assert isinstance(outcome, Completed)
    assert set(outcome.result) == {"…", "é"}
    error = await command(*python(f"import sys; sys.exit('é' * {RESULT_LIMIT})")).deliver(a_wake())
    assert isinstance(error, Failed)
    assert error.error.endswith("éé")
    assert len(error.error) <= ERROR_LIMIT


async def test_a_program_that_never_reads_its_input_succeeds(command: Open) -> None:
    closes = python("import os; os.close(0); print('done')")
    assert await command(*closes).deliver(a_wake("m" * 30_000)) == Completed("done")


async def test_one_that_closes_its_output_and_goes_on_is_awaited(command: Open, tmp_path: Path) -> None:
    silent = python("import os, time; os.close(1); os.close(2); time.sleep(0.3); open('done', 'w')")
    assert await command(*silent).deliver(a_wake()) == Completed("")
    assert (tmp_path / "done").exists()


async def test_one_that_ignores_sigterm_is_killed(
    command: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hour_passes: Callable[[], None]
) -> None:
    monkeypatch.setattr(child, "GRACE", 0.2)
    delivering = asyncio.create_task(command(*python(PID + DEAF)).deliver(a_wake()))
    await until((tmp_path / "ready").exists)
    hour_passes()
    assert isinstance(await delivering, Failed)
    assert not is_running(number_in(tmp_path / "pid"))


async def test_one_that_tidies_up_on_sigterm_has_the_time_for_it(
    command: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hour_passes: Callable[[], None]
) -> None:
    monkeypatch.setattr(child, "GRACE", PATIENCE)
    tidy = (
        "import signal, sys, time\n"
        "def end(*_): time.sleep(0.3); open('tidy', 'w'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\nopen('ready', 'w')\n" + FOREVER
    )
    delivering = asyncio.create_task(command(*python(tidy)).deliver(a_wake()))
    await until((tmp_path / "ready").exists)
    hour_passes()
    assert await delivering == Failed("it did not end within 60 s, and was ended")  # whatever its exit status says
    assert (tmp_path / "tidy").exists()


@pytest.mark.parametrize("how", ["late", "exited", "cancelled", "closed"])
async def test_its_children_and_theirs_end_with_it(
    command: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hour_passes: Callable[[], None], how: str
) -> None:
    """The grandchild ignores SIGTERM, holds the pipes open, and outlives its parent."""
    monkeypatch.setattr(child, "GRACE", 0.2)
    grandchild = f"import os; open('grandchild', 'w').write(str(os.getpid())); {DEAF}"
    parent = (
        "import os, subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {grandchild!r}])\n"
        "while not os.path.exists('ready'): time.sleep(0.01)\n"
    )
    target = command(*python(parent + ("" if how == "exited" else FOREVER)))
    delivering = asyncio.create_task(target.deliver(a_wake()))
    await until((tmp_path / "ready").exists)
    pid = number_in(tmp_path / "grandchild")
    if how == "late":
        hour_passes()
    if how == "cancelled":
        delivering.cancel()
    if how == "closed":
        await target.close()
    await asyncio.wait((delivering,), timeout=PATIENCE)
    assert not is_running(pid)
    assert delivering.cancelled() == (how == "cancelled")
    if how == "exited":
        assert delivering.result() == Completed("")
    if how == "closed":
        assert delivering.result() == Failed("it was ended because wakeful stops")
    assert child._running == set()


async def test_a_bomb_of_forks_is_ended(command: Open, tmp_path: Path) -> None:
    bomb = f"import os\nfor _ in range(4): os.fork()\nopen(f'{{os.getpid()}}', 'w')\n{FOREVER}"
    delivering = asyncio.create_task(command(*python(bomb)).deliver(a_wake()))
    await until(lambda: len(files(tmp_path)) == 16)
    delivering.cancel()
    await asyncio.wait((delivering,), timeout=PATIENCE)
    assert [pid for pid in map(int, files(tmp_path)) if is_running(pid)] == []


async def test_one_that_leaves_its_group_does_not_hold_up_the_wake(command: Open, tmp_path: Path) -> None:
    """A daemon keeps the pipes open: nobody waits for it to close them. It is out of reach, and the page says so."""
    daemon = f"import os; os.setsid(); open('pid', 'w').write(str(os.getpid())); {FOREVER}"
    parent = f"import os, subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', {daemon!r}])\n"
    parent += "while not os.path.exists('pid') or not os.path.getsize('pid'): time.sleep(0.01)\nprint('started')"
    outcome = await asyncio.wait_for(command(*python(parent)).deliver(a_wake()), PATIENCE)
    os.kill(number_in(tmp_path / "pid"), signal.SIGKILL)
    assert outcome == Completed("started")


async def test_cancelled_twice_it_ends_at_once(command: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "GRACE", 2 * PATIENCE)
    delivering = asyncio.create_task(command(*python(PID + DEAF)).deliver(a_wake()))
    await until((tmp_path / "ready").exists)
    for _ in range(2):
        delivering.cancel()
        await SystemClock().sleep(0)
        await SystemClock().sleep(0)
    await asyncio.wait((delivering,), timeout=PATIENCE)
    assert delivering.cancelled()
    assert not is_running(number_in(tmp_path / "pid"))


async def test_one_that_waits_for_its_turn_never_starts_once_cancelled(command: Open, tmp_path: Path) -> None:
    target = command("/bin/sh", "-c", 'touch "$WAKEFUL_LABEL"; sleep 600', concurrency=1)
    first = asyncio.create_task(target.deliver(a_wake(label="first")))
    await until((tmp_path / "first").exists)
    second = asyncio.create_task(target.deliver(a_wake(label="second")))
    await until(lambda: len(target._children._runs) == 2)
    second.cancel()
    await SystemClock().sleep(0)
    first.cancel()
    await asyncio.wait((first, second), timeout=PATIENCE)
    assert second.cancelled()
    assert files(tmp_path) == ["first"]


async def test_it_leaves_no_descriptor_and_no_thread_behind(command: Open) -> None:
    target = command("/bin/cat")
    await target.deliver(a_wake())
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await target.deliver(a_wake())
    assert len(os.listdir("/proc/self/fd")) == before
    await target.close()
    await until(lambda: not any(one.name.startswith("wakeful-command") for one in threading.enumerate()))


# Settings


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"argv": []}, "argv"),
        ({"argv": "echo hello"}, "argv"),
        ({"argv": ["echo", 1]}, "argv"),
        ({"argv": ["echo", "a\0b"]}, "argv"),
        ({"argv": ["", "b"]}, "argv"),
        ({"timeout": 0}, "timeout"),
        ({"env": "PATH"}, "env"),
        ({"env": ["A=b"]}, "env"),
        ({"stdin": "message"}, "stdin"),
        ({"final_codes": [0]}, "final_codes"),
        ({"final_codes": [True]}, "final_codes"),
        ({"final_codes": 3}, "final_codes"),
    ],
)
def test_a_setting_that_is_not_accepted_is_named(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidConfig) as error:
        Command(**({"argv": ["echo"]} | settings))
    assert error.value.field == field


@pytest.mark.parametrize(
    ("argv", "more", "message"),
    [
        (["/no/such/program"], {}, "/no/such/program is not an executable file"),
        (["nowhere"], {"env": []}, "'nowhere' is in none of the folders /bin:/usr/bin, or not an executable file"),
        (["./data"], {}, "{folder}/data is not an executable file"),
        (["/bin/sh"], {"cwd": "/no/such/folder"}, "/no/such/folder is not a folder"),
    ],
)
async def test_a_program_that_is_not_there_is_refused_at_the_start(
    tmp_path: Path, argv: list[str], more: dict[str, Any], message: str
) -> None:
    (tmp_path / "data").write_text("no program")
    with pytest.raises(InvalidConfig) as error:
        await Command(argv=argv, **({"cwd": str(tmp_path)} | more)).check("")
    assert error.value.message == message.format(folder=tmp_path)


async def test_a_program_is_found_in_the_path_that_it_will_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent").write_text("#!/bin/sh\necho woken\n")
    (tmp_path / "agent").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    target = Command(argv=["agent"])
    await target.check("")
    assert await target.deliver(a_wake()) == Completed("woken")
    await target.close()
