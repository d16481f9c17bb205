"""How every command is called on prepared alarms, and what differs between two runs of it.

One served database has the same alarms for many owners, one owner for each call, so that a command that changes
something changes only what it is shown. A command that looks after the whole database gets a folder of its own.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import click

from tests.interfaces.pty_world import OLD_ZONES
from wakeful import __version__
from wakeful.cli import HELP, main
from wakeful.http.security.auth import mint
from wakeful.process.application import LocalWakeful, build
from wakeful.rules.wake import Wake
from wakeful.service import Alarms
from wakeful.settings import Settings
from wakeful.testing import store_of

DB: Final = "wakeful.db"
SETTINGS: Final = 'db = "wakeful.db"\ntasks_target = "inbox"\n\n[targets.ops]\nkind = "inbox"\n'
FAR: Final = datetime(2090, 1, 1, 9, tzinfo=UTC)
CRONTAB: Final = "0 9 * * 1-5 /usr/bin/brief --all\n@reboot /usr/bin/start\n"
CALENDAR: Final = """BEGIN:VCALENDAR
BEGIN:VEVENT
UID:dentist
DTSTART;TZID=Europe/Berlin:20900501T090000
SUMMARY:Dentist
BEGIN:VALARM
TRIGGER:-PT15M
END:VALARM
BEGIN:VALARM
TRIGGER:-P1D
END:VALARM
END:VEVENT
BEGIN:VEVENT
UID:odd
DTSTART;TZID=Moon/Crater:20900501T090000
SUMMARY:Odd
END:VEVENT
END:VCALENDAR
"""
MANY: Final = (
    '{"when": "2090-06-01 09:00", "wake_message": "Read page 1", "timezone": "UTC", "idempotency_key": "page-1"}\n'
    '{"when": "every year on june 1 at 9am", "wake_message": "Renew the passport", "timezone": "UTC"}\n'
)
PROFILES: Final = "config/wakeful/profiles.toml"
PROFILE: Final = '[home]\nurl = "https://wakeful.example"\ntoken = "wk_x"\n'
APART: Final = 0.002  # seconds between two alarms of an owner: ids begin with their millisecond


@dataclass(frozen=True)
class Prepared:
    """One owner's alarms, which are alike for all of them."""

    owner: str
    tea: str  # once, in 2090
    brief: str  # weekdays, paused
    year: str  # every New Year
    failed: str  # a fire that failed
    taken: str  # a fire that was taken from the inbox and awaits its report
    token: str = ""
    url: str = ""  # of the server, for who has to name it
    admitted: str = ""  # a token that the server knows

    @property
    def token_id(self) -> str:
        return self.token.split("_")[1]


@dataclass(frozen=True)
class Call:
    """How a command is called. `server`: through one it says the same, refuses, or does not ask it at all."""

    name: str
    args: Callable[[Prepared], Sequence[str]] = lambda _: ()
    where: Literal["owner", "folder"] = "owner"
    server: Literal["same", "refused", "apart"] = "same"
    code: int = 0
    until: str = ""  # it goes on until it is interrupted, once it has said this
    typed: Callable[[Prepared], str] = lambda _: ""  # what a terminal is asked for, and a pipe reads
    files: dict[str, str] = field(default_factory=dict)

    @property
    def words(self) -> list[str]:
        return self.name.split()


def _house(name: str, *args: str, **more: object) -> Call:
    return Call(name, lambda _: args, where="folder", **({"server": "refused"} | more))  # type: ignore[arg-type]


CALLS: Final = (
    Call("at", lambda _: ["2090-05-01 09:00", "Water the plants", "--tz", "Europe/Berlin", "--label", "garden"]),
    Call("every", lambda _: ["year on june 1 at 9am", "Renew the passport", "--tz", "Europe/Berlin"]),
    Call("set", lambda _: ["many.jsonl"], files={"many.jsonl": MANY}),
    Call("preview", lambda _: ["every february 29 at 9am", "--tz", "America/New_York", "-n", "2"]),
    Call("ls", lambda _: ["--all"]),
    Call("show", lambda o: [o.tea]),
    Call("why", lambda o: [o.brief]),
    Call("agenda", lambda _: ["--hours", "8784"]),
    Call("history"),
    Call("failed"),
    Call("stats"),
    Call("budget", lambda o: [o.tea]),
    _house("simulate", "--days", "366"),
    Call("settings"),
    Call("tail"),
    Call("top", lambda _: ["--once"]),
    Call("signal", lambda _: ["year-is-over", "--payload", '{"page": 3}']),
    Call("cancel", lambda o: [o.tea, o.year, "--reason", "enough", "--yes"]),
    Call("pause", lambda o: [o.tea, "--reason", "lunch"]),
    Call("resume", lambda o: [o.brief]),
    Call("move", lambda o: [o.tea, "--by", "1d", "--yes"]),
    Call("append", lambda o: [o.tea, '{"page": 3}']),
    Call("hand-over", lambda o: [o.taken, "ops"]),
    Call("edit", lambda o: [o.tea, "--message", "Drink the tea", "--label", "table"]),
    Call("snooze", lambda o: [o.year, "400 days"]),
    Call("skip", lambda o: [o.year]),
    Call("undo", lambda o: [o.brief]),
    Call("fire", lambda o: [o.tea]),
    Call("retry", lambda _: ["--failed", "--dry-run"]),
    Call("done", lambda o: [o.taken, "paid"]),
    Call("fail", lambda o: [o.taken, "nobody answered"]),
    Call("wait", lambda _: ["--for", "30s"]),
    Call("target ls"),
    _house("target test", "inbox"),
    _house("target pause", "ops", "--reason", "maintenance"),
    _house("target resume", "ops"),
    _house("token new", "--owner", "eve", "--label", "laptop", "--expires", "30d"),
    _house("token ls"),
    Call("token revoke", lambda o: [o.token_id], where="folder", server="refused"),
    _house("token open", "--yes", code=4),
    _house("token rotate-reports"),
    _house("db migrate"),
    _house("db check"),
    _house("db scheduled-tasks", "--dry-run"),
    _house("db move", "--to", "moved.db"),
    _house("purge", "--older-than", "90d", "--dry-run"),
    _house("backup", "new.db"),
    _house("restore", "copy.db", "--replace", "--yes"),
    _house("import chronos", "postgresql://127.0.0.1:1/x", code=2),
    _house("import alarm", "alarm.sqlite", code=2),
    _house("export", "new.jsonl", "--fires"),
    _house("import file", "alarms.jsonl", "--db", "fresh.db", server="apart"),
    _house("import crontab", "crontab", code=1, server="apart", files={"crontab": CRONTAB}),
    _house("import ics", "calendar.ics", "--yes", code=1, server="apart", files={"calendar.ics": CALENDAR}),
    _house("doctor", code=1),
    _house("serve", "--port", "0", until=" on http"),
    _house("worker", until=" worker, "),
    _house("mcp", until="MCP on stdio"),
    _house("init", "new.toml", server="apart"),
    _house("completion", "bash", server="apart"),
    Call(
        "login",
        lambda o: ["home", "--url", o.url],
        where="folder",
        server="apart",
        typed=lambda o: o.admitted,
    ),
    _house("logout", "home", server="apart", files={PROFILES: PROFILE}),
    _house("help", "preview", server="apart"),
)


def all_commands() -> Iterator[str]:
    """Every command that a user can call, subcommands by their whole name."""
    yield HELP
    yield from _below(main, "")


def _below(group: click.Group, before: str) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _below(command, f"{before}{name} ")
        else:
            yield f"{before}{name}"


# Preparing


async def prepare(folder: Path, owners: Sequence[str], *, tokens: bool) -> dict[str, Prepared]:
    """The same alarms for each owner, in a new database of this folder."""
    (folder / "wakeful.toml").write_text(SETTINGS)
    settings = Settings(db=str(folder / DB), targets={"ops": {"kind": "inbox"}}, owner=owners[0])
    async with build(settings) as alarms:

        @alarms.handler("sync")
        async def sync(wake: Wake) -> None:
            raise RuntimeError("HTTP 503")

        made = await asyncio.gather(*(_alarms(alarms.for_owner(owner)) for owner in owners))
        while await alarms.run_due():
            pass
        return dict(
            zip(
                owners,
                [await _looked_up(alarms, owner, ids, token=tokens) for owner, ids in zip(owners, made, strict=True)],
                strict=True,
            )
        )


async def _alarms(alarms: Alarms) -> list[str]:
    day = {"report_within": 86_400}
    wanted: list[dict[str, object]] = [
        {"wake_message": "Sync the calendar", "delay": 0.001, "target": "sync", "max_failures": 0},
        {"wake_message": "Call the bank", "delay": 0.001, "label": "money", "policy": day},
        {"wake_message": "Answer Ada", "delay": 0.01, "policy": day},
        {"wake_message": "Tea is ready", "when": FAR, "label": "kitchen", "key": "tea", "payload": {"cups": 2}},
        {"wake_message": "Morning brief", "when": "every weekday at 9am", "timezone": "Europe/Berlin"},
        {"wake_message": "Happy new year", "when": "0 0 1 1 *", "policy": {"unless": "year-is-over"}},
    ]
    ids: list[str] = []
    for one in wanted:
        ids.append((await alarms.set(**one)).id)  # type: ignore[arg-type]
        await asyncio.sleep(APART)
    await alarms.pause(ids[4], reason="on holiday")
    return ids


async def _looked_up(alarms: LocalWakeful, owner: str, ids: Sequence[str], *, token: bool) -> Prepared:
    mine = alarms.for_owner(owner)
    (failed,) = await mine.fires(ids[0])
    ((_, taken),) = await mine.inbox(limit=1)
    text = ""
    if token:
        text, row = mint(owner, ("read", "write"), now=await alarms.service.now())
        assert await store_of(alarms).access.add_token(row)
    return Prepared(owner, ids[3], ids[4], ids[5], failed.id, taken.id, text)


def copied(template: Path, folder: Path, call: Call) -> Path:
    shutil.copytree(template, folder)
    for name, text in call.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


# What differs

ID: Final = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}(-[0-9a-f]{4}(-[0-9a-f]{4}(-[0-9a-f]{12})?)?)?")
_DAY: Final = r"((Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?\d\d? (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)( 20[23]\d)?"
_LENGTH: Final = r"\d+ (d|h|min|s)"
_DIFFERS: Final = (
    (re.compile(OLD_ZONES), r"ok  \1; times are read in \2\n"),
    (re.compile(r"/\S*/place(?=[/,\s])"), "FOLDER"),
    (re.compile(r"once=[\w-]+"), "once=SECRET"),
    (
        re.compile(
            rf"\b(now|(in )?{_LENGTH}( {_LENGTH})?( ago)?), (({_DAY}|Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?"
            r"(\d\d:\d\d(:\d\d)?|20[23]\d-\d\d-\d\d)"
        ),
        "MOMENT",
    ),
    (re.compile(rf"\b{_DAY} \d\d:\d\d(:\d\d)?"), "TIME"),
    (re.compile(r"@\d{13}"), "@1767225600000"),
    (re.compile(r"(?<!\d)20[23]\d-\d\d-\d\d([T ])\d\d:\d\d:\d\d(\.\d+)?"), r"2026-01-02\g<1>03:04:05"),
    (re.compile(r"\b\d\d-\d\d \d\d:\d\d:\d\dZ"), "01-02 03:04:05Z"),
    (re.compile(r"20[23]\d-\d\d-\d\d \d\d:\d\d(?!:)"), "2026-01-02 03:04"),
    (re.compile(r"\b(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day \d+ \w+ 20[23]\d"), "DAY"),
    (re.compile(r"\b[\d.,]+ (ms|s|min|h|d|kB|MB|GB)\b"), r"N \1"),
    (re.compile(r"\b\d+ (ms|milliseconds|seconds?|minutes?|hours?|days)\b"), r"N \1"),
    (re.compile(r"(\t\{\}\t\d+\t)\d+"), r"\1LATE"),
    (re.compile(r"(\b(?:(?:late|took|duration)_)?ms\": ?)\d+"), r"\1N"),
    (re.compile(r"(\"(?:now|at|seq|bytes|per_minute)\": ?)\d+"), r"\1N"),
    (re.compile(r"\bo\d\d[a-e]\b"), "o00x"),
    (re.compile(r"created_via(\":\"|\t| +)(cli|http)"), r"created_via\1DOOR"),
    (re.compile(r"wk_[\w-]+"), "wk_TOKEN"),
    (re.compile(r"\b[0-9a-f]{16}\b"), "0123456789abcdef"),
    (re.compile(r"[^\n]*━[^\n]*\n"), ""),  # a bar, and how fast it went
    (re.compile(r"\r"), ""),
    (re.compile(r"\d+ fired in the last minute"), "2 fired in the last minute"),
    (re.compile(r"(?<=:\d\d),\d{3}(?= INFO)"), ",000"),
    (re.compile(r"worker \S+:\d+|a worker was"), "worker HOST:PID"),  # where, only its operator is told
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
    (re.compile(r"\b\d+ of \d+$|(?<=version )\d+(?=, up to date)|(?<=^bytes {15})\d+", re.MULTILINE), "N"),  # by schema
    (re.compile(r"\bN (h N min|min N s|min|h)(?= late)"), "N s"),  # on a slow machine
    (re.compile(r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) (01 Jan|31 Dec)\b|20[23]\d-(01-01|12-31)(?![T ]\d)"), "NEW YEAR"),
    (re.compile(r"SQLite 3\.[\d.]+"), "SQLite VERSION"),
    (re.compile(r"20\d\d[a-z] from [^;]+;"), "EDITION;"),
    (re.compile(re.escape(__version__)), "VERSION"),
)


def scrubbed(text: str, *also: tuple[str, str]) -> str:
    """The same text for two runs. What stands in columns keeps its width, so that a snapshot looks as it did."""
    for said, word in also:
        text = text.replace(said, word)
    seen: list[str] = []  # whole, or the part that a list has room for: two of one millisecond begin alike

    def known(found: re.Match[str]) -> str:
        number = next((at for at, one in enumerate(seen, 1) if one.startswith(found[0]) or found[0].startswith(one)), 0)
        if not number:
            seen.append(found[0])
            number = len(seen)
        return f"{number:08x}-0000-7000-8000-000000000000"[: len(found[0])]

    text = ID.sub(known, text)
    for pattern, word in _DIFFERS:
        text = pattern.sub(word, text)
    return re.sub(r"(?<=\S) {2,}(?=\S)", "  ", text) if "MOMENT" in text or "in N d" in text else text
