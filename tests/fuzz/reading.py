"""Parsers that are functions: phrases, cron, lengths of time, moments, zones, settings, task rows, Erlang's terms."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.seeds.erlang import term_to_binary
from wakeful.errors import InvalidRequest, WakefulError
from wakeful.http.operations import CURSOR
from wakeful.ids import id_of
from wakeful.mcp.agent_views import cursor
from wakeful.model.alarm import DEFAULT_POLICY, Alarm
from wakeful.model.outcome import Delivered, Failed, Try
from wakeful.model.requests import CreateRequest, Defaults, Origin
from wakeful.process.application import build_targets
from wakeful.rules.create import create
from wakeful.rules.plan import coming
from wakeful.rules.settle import begin, settle
from wakeful.rules.task import Planner, Task, TaskNews
from wakeful.rules.wanted import decode, moment, span, wanted_alarm
from wakeful.schedule import describe, duration, parse, schedule, zone
from wakeful.seeds.alarm_file import LATER, FileAlarm, state_of, taken
from wakeful.seeds.erlang_terms import Atom, Map, as_json, inspect, read
from wakeful.service import views
from wakeful.settings import Settings, load

from .harness import Broke, Open, Parser, pure
from .inputs import (
    CREATE,
    any_text,
    crons,
    moments,
    mostly,
    near,
    numbers,
    phrases,
    some_json,
    spans,
    texts,
    written,
    zones,
)

NOW: Final = datetime(2026, 10, 24, 23, 59, 59, 999_000, tzinfo=UTC)
NOWS: Final = (
    NOW,
    datetime(2028, 2, 29, 12, tzinfo=UTC),
    datetime(9990, 1, 1, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
)
ID: Final = id_of(NOW, b"fuzz")
_ODD_VALUES: Final = ("[1, {a = 2}]", '["ada"]', "2026-12-24", "true", '"http://127.0.0.1:1/"', "[]", "{}")
_KINDS: Final = ("webhook", "router", "table", "inbox", "handler", "nothing")
_OPTIONS: Final = (
    "url",
    "timeout",
    "table",
    "secret",
    "owners",
    "concurrency",
    "allow_private",
    "headers",
    "token",
    "columns",
)
COLUMNS: Final = ("owner", "chat_jid", "prompt", "cron", "next_run", "status", "context_mode", "created_at")


def _phrase(said: tuple[str, str, datetime]) -> None:
    text, timezone, now = said
    understood = parse(text, timezone=timezone, now=now)
    fires = understood.next(3)
    if fires != sorted(fires) or any(fire <= now for fire in fires):
        raise Broke(f"it fires at {fires}, asked at {now}")
    assert understood.description
    understood.remarks  # noqa: B018  # reckoned when asked for


def _cron(said: tuple[str, str, datetime]) -> None:
    text, timezone, now = said
    rhythm = schedule(text, timezone, anchor=now)
    describe(text, timezone)
    moment: datetime | None = now
    for _ in range(3):
        if moment is not None:
            moment = rhythm.after(moment)


def _life(alarm: Alarm, now: datetime) -> None:
    """What was accepted must be deliverable: a few occurrences, one that fails and one that does not."""
    list(islice(coming(alarm), 3))
    for outcome in (Failed("no"), Delivered("yes")):
        due = max(now, alarm.next_fire_at)
        if due.year == 9999:
            return  # nobody will be there
        if begin(alarm, None, now=due) is None and alarm.status == "active":
            alarm = settle(alarm, None, outcome, Try(due, due + timedelta(milliseconds=5))).after


USUAL: Final = Defaults(timezone="UTC", target="inbox", max_failures=3, policy=DEFAULT_POLICY)
ORIGIN: Final = Origin(owner_did="ada", created_via="http")


def _draft(said: bytes) -> None:
    alarm = create(wanted_alarm(decode(said, CreateRequest), USUAL), ORIGIN, id=ID, now=NOW)
    views.encode(views.view(alarm))
    _life(alarm, NOW)


def _moment(said: tuple[Any, str]) -> None:
    for reading in (moment, span):
        try:
            reading(said[0], "field")
        except WakefulError:
            continue
    zone(said[1])


def _cursor(said: str) -> None:
    try:
        CURSOR.read("cursor", said)
    except InvalidRequest:
        cursor(said)


def _task(columns: dict[str, Any]) -> None:
    planner = Planner(target="messages", owner="main", timezone="Europe/Berlin", max_failures=3)
    task = Task(id="t", **columns)
    plan = planner.plan(TaskNews(task_id="t", upto=1, task=task), id=ID, now=NOW)
    if plan.new is not None:
        _life(plan.new, NOW)
        changed = TaskNews(
            task_id="t", upto=2, task=task, seen=plan.task, alarm_id=plan.alarm_id, alarm=plan.new, note=plan.note
        )
        planner.plan(changed, id=ID, now=NOW + timedelta(seconds=5))


@asynccontextmanager
async def _settings() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "wakeful.toml"

        async def parse(said: tuple[bytes, dict[str, str]]) -> None:
            file.write_bytes(said[0])
            try:
                load(file, environ={})
            except WakefulError:
                file.write_bytes(b"")
            build_targets(load(file, environ=said[1]))

        yield parse


@st.composite
def _toml(draw: DrawFn) -> bytes:
    value = st.one_of(spans.map(repr), numbers.map(repr), any_text.map(repr), any_text, st.sampled_from(_ODD_VALUES))
    names = draw(st.lists(st.sampled_from(Settings.__struct_fields__), max_size=4, unique=True))
    lines = [f"{name} = {draw(value)}" for name in names]
    if draw(st.booleans()):
        lines.append(draw(st.sampled_from(("[targets.hook]", "[targets.inbox]", '[targets."a b"]'))))
        lines.append(f"kind = {draw(st.sampled_from(_KINDS))!r}")
        lines += [f"{name} = {draw(value)}" for name in draw(st.lists(st.sampled_from(_OPTIONS), unique=True))]
    text = "\n".join(lines) if draw(st.integers(0, 5)) else draw(any_text)
    return text.encode("utf-8", "surrogatepass" if draw(st.booleans()) else "replace")


_variables = st.dictionaries(
    st.sampled_from([f"WAKEFUL_{name.upper()}" for name in Settings.__struct_fields__]),
    st.one_of(spans, numbers.map(str), any_text, zones),
    max_size=4,
)

_terms = st.recursive(
    st.one_of(
        st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False), st.binary(max_size=30),
        st.builds(Atom, st.text(max_size=20)), any_text.map(lambda text: text.encode("utf-8", "replace")),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.lists(inner, max_size=4).map(tuple),
        st.lists(st.tuples(inner, inner), max_size=3).map(lambda pairs: Map(tuple(pairs))),
    ),
    max_leaves=10,
)  # fmt: skip


@st.composite
def _term_bytes(draw: DrawFn) -> bytes:
    match draw(st.integers(0, 5)):
        case 0:
            return b"\x83" + draw(st.binary(max_size=200))
        case 1:  # a length that is not there, a tower, a packed one
            tag = draw(st.sampled_from((b"l", b"h\xff", b"i", b"t", b"m", b"n", b"o", b"k", b"d", b"w", b"P", b"F")))
            return b"\x83" + tag * draw(st.integers(1, 3000)) + draw(st.sampled_from((b"\xff" * 4, b"\0\0\0\1", b"")))
    said = term_to_binary(draw(_terms), compressed=draw(st.booleans()))
    at = draw(st.integers(0, len(said)))
    return (
        said[:at] + draw(st.binary(max_size=3)) + said[at + draw(st.integers(0, 3)) :] if draw(st.booleans()) else said
    )


def _term(said: bytes) -> None:
    term = read(said)
    inspect(term)
    as_json(term)


@st.composite
def _rows(draw: DrawFn) -> dict[str, Any]:
    number = st.one_of(
        st.none(), st.sampled_from(("text", "real", "blob")), st.integers(-5, 2**63 - 1), st.integers(0, 4 * 10**9)
    )
    text = st.one_of(
        st.none(),
        st.binary(max_size=40),
        st.sampled_from((b"FAILED: x", b"RETRY: 2", b"timeout_unknown", b"Elixir.App.Mail")),
    )
    row: dict[str, Any] = {name: draw(number) for name in FileAlarm.__struct_fields__}
    row |= {name: draw(text) for name in ("process", "reply", "result", "created_by", "created_via")}
    row["id"] = draw(st.one_of(st.integers(0, 2**63 - 1), st.just(1_700_000_000_000), st.just("text")))
    if draw(st.booleans()):  # one that makes sense, mostly
        sense = st.integers(0, 2_000_000_000)
        row |= {
            name: draw(st.one_of(sense, st.none()))
            for name in ("started_at", "completed_at", "cancelled_at", "updated_at")
        }
        row |= {"id": draw(sense) * 1000, "set_at": draw(sense), "process": b"Elixir.App.Mail", "duration_ms": 5}
        row |= {name: draw(st.integers(0, 9)) for name in ("max_retries", "attempts", "backoff_ms")}
    row["message"] = draw(st.one_of(_term_bytes(), st.none(), st.just("text")))
    return row


def _row(columns: dict[str, Any]) -> None:
    row = FileAlarm(**columns)
    state_of(row)
    found = taken(row, owner="ada", target="inbox", targets={})
    views.encode(views.view(found.alarm))
    list(islice(coming(found.alarm), 2))


def _when(text: Any) -> Any:
    return st.tuples(text, mostly(st.just("Europe/Berlin"), zones), st.sampled_from(NOWS))


def readers() -> Iterator[Parser]:
    assert set(LATER) < set(FileAlarm.__struct_fields__)
    column = st.one_of(st.none(), any_text)
    row = dict.fromkeys(COLUMNS, column) | {
        "cron": st.one_of(st.none(), crons, numbers.map(str)),
        "next_run": st.one_of(st.none(), moments),
        "status": st.one_of(st.just("active"), st.just("paused"), near(("active", "done"))),
        "chat_jid": mostly(st.just("1@g.us"), column),
        "prompt": mostly(st.just("say it"), column),
        "owner": mostly(st.just("main"), column),
    }
    made: dict[str, tuple[Any, Open]] = {
        "phrases": (_when(phrases), pure(_phrase)),
        "cron": (_when(crons), pure(_cron)),
        "durations": (st.one_of(spans, numbers, some_json), pure(duration)),
        "moments and zones": (st.tuples(st.one_of(moments, numbers), zones), pure(_moment)),
        "cursors": (st.one_of(texts("MTc2NzIyNTYwMDAwMCAw", "1767225600000.0190"), spans), pure(_cursor)),
        "settings": (st.tuples(_toml(), _variables), _settings),
        "task rows": (st.fixed_dictionaries(row), pure(_task)),
        "Erlang terms": (_term_bytes(), pure(_term)),
        "Alarm's file": (_rows(), pure(_row)),
    }
    for name, (inputs, open) in made.items():
        yield Parser(name, inputs, open)
    yield Parser("new alarms", written(CREATE), pure(_draft))
