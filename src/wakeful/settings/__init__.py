"""Every setting, its default and what it means; from wakeful.toml, then WAKEFUL_* variables, then flags."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from wakeful.errors import InvalidConfig, InvalidRequest, nearest
from wakeful.model.limits import EVERYONE
from wakeful.schedule import duration, zone
from wakeful.schedule.names import DATE_ORDERS
from wakeful.settings.kinds import is_kind, kind_names
from wakeful.settings.sources import (
    FILE_SUFFIX,
    HERE,
    Elsewhere,
    SettingsFile,
    check_variables,
    default_db,
    is_service_link,
    line_of,
    password_in,
    refers,
    without_values,
)
from wakeful.settings.tables import (
    BudgetSettings,
    CalendarSettings,
    CheckSettings,
    check_budget,
    check_calendars,
    check_checks,
)

FILE: Final = "wakeful.toml"


ROUTER: Final = "router"  # the target that `wake_url` adds
Seconds = timedelta
_BARE_DAY_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
FOREVER: Final = timedelta.max
TABLES: Final = ("budget", "calendars", "checks", "chats", "targets")  # settings that no variable can hold


def _about(text: str, *, least: Any = None, most: Any = None) -> Meta:
    """Describe a setting. `least` and `most`: the bounds of a number or a length of time."""
    return Meta(description=text, extra={"least": least, "most": most})


class Settings(Struct, frozen=True, kw_only=True):
    db: Annotated[str, _about("Where alarms are kept: a SQLite file, or `postgresql://…`.")] = HERE
    schema: Annotated[str, _about("PostgreSQL: the schema that holds the tables; created if missing.")] = ""
    prefix: Annotated[str, _about("A prefix for table names, to share another program's database.")] = ""
    pgbouncer: Annotated[bool, _about("PostgreSQL behind pgbouncer in transaction mode: no session state.")] = False
    pool_size: Annotated[int, _about("PostgreSQL: the most connections a process holds.", least=2)] = 8
    host: Annotated[str, _about("The address `serve` binds to. Loopback only, until there are tokens.")] = "127.0.0.1"
    port: Annotated[int, _about("The port `serve` listens on; 0 picks a free one.", least=0, most=65535)] = 4747
    processes: Annotated[
        int, _about("How many processes `serve` starts at its port; more than 1 needs PostgreSQL.", least=1)
    ] = 1
    metrics_port: Annotated[
        int,
        _about(
            "The port on `host` where `worker`, or the first of several `processes`, tells how it is; 0: nowhere.",
            least=0,
            most=65535,
        ),
    ] = 0
    public_url: Annotated[
        str,
        _about("This server's URL for receivers: the base of the report URL in a wake. If set, requests need a token."),
    ] = ""
    owner: Annotated[str, _about("The owner for the command line and the library, unless one is given.")] = "local"
    timezone: Annotated[str, _about("The IANA time zone for times given without one.")] = "UTC"
    date_order: Annotated[
        str, _about("How 03/04/2027 is read: `dmy` or `mdy`. Unless set, such a date is refused with both readings.")
    ] = ""
    bare_day_time: Annotated[
        str, _about("The time of day that is meant where only a day is named: `tuesday`, `aug 3`, `every monday`.")
    ] = "09:00"
    working_days: Annotated[str, _about("The days people work on, such as `mon-fri` or `sun-thu`.")] = "mon-fri"
    calendar: Annotated[
        str, _about("The calendar that is meant by public holidays, where an owner has not named another.")
    ] = ""
    tick: Annotated[Seconds, _about("The longest a dispatcher sleeps, and what a lost hint costs.")] = timedelta(
        seconds=1
    )
    lease: Annotated[Seconds, _about("How long a worker that stopped responding keeps an alarm.")] = timedelta(
        minutes=2
    )
    batch: Annotated[int, _about("The most alarms that one claim takes.", least=1)] = 500
    concurrency: Annotated[int, _about("Concurrent deliveries to one target, unless the target says.", least=1)] = 64
    total_concurrency: Annotated[int, _about("Concurrent deliveries in one process.", least=1)] = 2048
    stop_within: Annotated[Seconds, _about("How long a stopping process waits for deliveries in flight.")] = timedelta(
        seconds=10
    )
    max_failures: Annotated[int, _about("Retries of a failed delivery, unless the alarm says.", least=0)] = 5
    backoff_base: Annotated[Seconds, _about("The wait before the first retry, unless the alarm says.")] = timedelta(
        seconds=30
    )
    backoff_cap: Annotated[Seconds, _about("The longest wait before a retry, unless the alarm says.")] = timedelta(
        minutes=15
    )
    exact_backoff: Annotated[
        bool, _about("Whether retries wait exactly that long, unless the alarm says; otherwise up to a tenth longer.")
    ] = False
    catch_up: Annotated[
        str, _about("After downtime: fire `one` time for all missed fires, or `skip` them, unless the alarm says.")
    ] = "one"
    grace: Annotated[
        Seconds, _about("With `catch_up` skip: how late a fire may still happen, unless the alarm says.")
    ] = timedelta(minutes=1)
    overlap: Annotated[
        str, _about("If the previous fire still waits for its report: `skip` or `allow`, unless the alarm says.")
    ] = "skip"
    on_silence: Annotated[
        str,
        _about("When no report comes though one was asked for: wake `again` or `give_up`, unless the alarm says."),
    ] = "again"
    auto_pause_after: Annotated[
        int, _about("Failed fires in a row that pause a series, unless the alarm says; 0: never.", least=0)
    ] = 0
    retention: Annotated[Seconds, _about("How long finished alarms and fires are kept; `forever` deletes nothing.")] = (
        timedelta(days=90)
    )
    did_auth: Annotated[bool, _about("Whether proving the key of a `did:matrix:…` gives a token for it.")] = False
    did_owners_per_address: Annotated[
        int, _about("New owners accepted by their key per hour from one address, per process.", least=1)
    ] = 60
    did_owners_per_hour: Annotated[int, _about("New owners accepted by their key per hour, per process.", least=1)] = (
        600
    )
    quota_active: Annotated[int, _about("Active and paused alarms an owner may have.", least=1)] = 10_000
    quota_bytes: Annotated[
        int, _about("Bytes of messages and payloads in an owner's alarms, including finished ones.", least=1)
    ] = 1_000_000_000
    creates_per_minute: Annotated[
        int, _about("Alarms an owner may set, and fires an owner may retry, per minute and process.", least=1)
    ] = 600
    fires_per_minute: Annotated[
        int, _about("Deliveries of one alarm per minute and process; any more wait.", least=1)
    ] = 120
    requests_per_minute: Annotated[int, _about("Requests an owner may make per minute and process.", least=1)] = 6000
    cpu_per_minute: Annotated[
        Seconds,
        _about(
            "CPU time that the requests of an owner may use, per minute and process.", least=timedelta(milliseconds=100)
        ),
    ] = timedelta(seconds=20)
    reads_per_owner: Annotated[
        int, _about("Concurrent lists, searches and counts of one owner, per process; more of them wait.", least=1)
    ] = 2
    read_within: Annotated[Seconds, _about("How long one list, search or count may take before it is stopped.")] = (
        timedelta(seconds=5)
    )
    unread_per_owner: Annotated[
        int, _about("Bytes of long answers that an owner has requested but not read yet, per process.", least=1)
    ] = 32_000_000
    live_per_owner: Annotated[
        int, _about("WebSockets, event streams and waits at the inbox of one owner, per process.", least=1)
    ] = 32
    live_total: Annotated[
        int, _about("WebSockets, event streams and waits at inboxes of all owners, per process.", least=1)
    ] = 1000
    connections: Annotated[
        int, _about("The most connections a process accepts; fewer if file descriptors are few.", least=1)
    ] = 4096
    connections_per_address: Annotated[
        int,
        _about(
            "The most connections from one address to one process; those from this machine are not counted.", least=1
        ),
    ] = 256
    min_interval: Annotated[Seconds, _about("The shortest time between two fires of one alarm.")] = timedelta(
        seconds=60
    )
    chain_depth: Annotated[
        int, _about("The most alarms in a chain in which each wake sets the next alarm.", least=0)
    ] = 16
    chain_delay: Annotated[Seconds, _about("The shortest delay of an alarm set by a wake.")] = timedelta(seconds=60)
    chain_token_lasts: Annotated[
        Seconds,
        _about(
            "How long the token of a wake sets alarms, from when the wake was last handed out.",
            least=timedelta(seconds=1),
        ),
    ] = timedelta(days=1)
    chain_series_lasts: Annotated[
        Seconds,
        _about(
            "How long a series set with the token of a wake goes on, unless a report renews it.",
            least=timedelta(seconds=1),
        ),
    ] = timedelta(days=90)
    budget: Annotated[
        BudgetSettings,
        _about("`[budget]`: how many wakes, and what cost, an owner, an alarm and a chain may have; see owners.md."),
    ] = BudgetSettings()
    default_target: Annotated[
        str, _about("The target of alarms that name none: `inbox`, or `router` if `wake_url` is set, unless set here.")
    ] = ""
    wake_url: Annotated[str, _about("The router's URL, `http://…/internal/wake`; adds the target `router`.")] = ""
    wake_token: Annotated[str, _about("The router's Bearer token.")] = ""
    tasks_target: Annotated[
        str, _about("The target of tasks; `messages` is the table of that name, unless a target is called so.")
    ] = "messages"
    mcp_tasks: Annotated[bool, _about("Whether agents also get the task tools over MCP.")] = False
    chronos_envelope: Annotated[
        bool, _about("Whether `/v1/alarms` answers like Chronos and accepts a token in `X-Chronos-Agent`.")
    ] = False
    dashboard: Annotated[bool, _about("Whether `serve` shows the dashboard at `/`.")] = True
    log_level: Annotated[str, _about("debug, info, warning or error.")] = "info"
    log_format: Annotated[str, _about("text, or json: one object per line.")] = "text"
    targets: Annotated[
        dict[str, dict[str, Any]],
        _about("`[targets.NAME]` tables: `kind`, `owners` and the settings of that kind."),
    ] = {}
    checks: Annotated[
        dict[str, CheckSettings],
        _about("`[checks.NAME]` tables: what alarms with `only_if` look at before they wake; see conditions.md."),
    ] = {}
    chats: Annotated[
        dict[str, list[str]],
        _about("`[chats]`: the chats each owner may write to; without it, any owner may write to any chat."),
    ] = {}

    calendars: Annotated[
        dict[str, CalendarSettings],
        _about("`[calendars.NAME]` tables: the holidays of a country, or of an iCalendar file; see when.md."),
    ] = {}

    @property
    def bare_day(self) -> time:
        """`bare_day_time`, read."""
        return time.fromisoformat(self.bare_day_time)

    def kept_since(self, now: datetime) -> datetime | None:
        """Return the moment before which finished alarms are deleted; None if nothing is."""
        return None if self.retention == FOREVER else now - self.retention

    def located(self, error: InvalidConfig) -> InvalidConfig:
        """The error with the place the setting stands at, where that is known."""
        return error

    @property
    def inboxes(self) -> tuple[str, ...]:
        """The targets whose wakes wait to be fetched: the one that is always there, and those of kind `inbox`."""
        return ("inbox", *(name for name, target in self.targets.items() if target.get("kind") == "inbox"))

    @property
    def usual_target(self) -> str:
        """The target of alarms that name none."""
        return self.default_target or (ROUTER if self.wake_url else "inbox")

    @property
    def sql_target(self) -> str:
        """The same of rows that another program inserts; empty where the settings leave the database as it is."""
        return self.usual_target if self.default_target or self.wake_url else ""

    @property
    def local_url(self) -> str:
        """The URL that `serve` listens on."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the values that must not appear in logs: tokens, secrets, headers, confidential URLs."""
        told = [value for target in self.targets.values() for name, value in target.items() if _is_kept(name)]
        told += [text for check in self.checks.values() for text in (check.url, *check.headers.values())]
        return tuple(_texts([self.wake_token, *told, *password_in(self.db)]))


class LoadedSettings(Settings, frozen=True, kw_only=True):
    """Settings that know where each was set: `origins` holds a variable, an option or a file for each that was.

    `elsewhere`: what `${NAME}` and `NAME_file` stand for; `file_texts`: of these, the files' whole texts.
    """

    origins: dict[str, str] = {}
    elsewhere: tuple[str, ...] = ()
    file_texts: tuple[str, ...] = ()

    @property
    def secrets(self) -> tuple[str, ...]:
        return (*super().secrets, *self.file_texts)

    def located(self, error: InvalidConfig) -> InvalidConfig:
        error = without_values(error, list(self.elsewhere))
        name = {"database": "db"}.get(error.field, error.field)
        origin = self.origins.get(name.partition(".")[0], "")
        if origin and not origin.startswith(("--", "WAKEFUL_")):
            with suppress(OSError, ValueError):
                origin = f"{origin}, line {line_of(Path(origin).read_text(), name)}"
        if not origin or error.message.startswith(origin):
            return error
        return InvalidConfig(f"{origin}: {error.message}", field=error.field, fix=error.fix)


WORDS: Final = {
    "log_level": ("debug", "info", "warning", "error"),
    "log_format": ("text", "json"),
    "catch_up": ("one", "skip"),
    "overlap": ("skip", "allow"),
    "on_silence": ("again", "give_up"),
    "date_order": DATE_ORDERS,
}
_KEPT: Final = frozenset({"secret", "token", "url", "urls", "headers", "dsn", "password"})  # of a target's settings
HINTS: Final = get_type_hints(Settings, include_extras=True)


def _is_kept(name: str) -> bool:
    """Whether a setting of a target holds what logs must not show."""
    return name in _KEPT or name.endswith(("_key", "_secret", "_token", "_password"))


def _texts(value: Any) -> list[str]:
    """Return every string in a value, however deeply nested."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [text for one in inner for text in _texts(one)]


def plain_type(name: str) -> type[Any]:
    """Return a setting's type without its description."""
    found: type[Any] = get_args(HINTS[name])[0]
    return found


_BY_FILE: Final = tuple(f"{name}{FILE_SUFFIX}" for name in Settings.__struct_fields__ if plain_type(name) is str)


def load(
    path: str | os.PathLike[str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Settings:
    """Read the settings. Later sources override earlier ones; the error for an invalid value says where it is."""
    environ = os.environ if environ is None else environ
    elsewhere = Elsewhere(environ)
    try:
        return _loaded(path or environ.get("WAKEFUL_CONFIG"), environ, flags or {}, elsewhere)
    except InvalidConfig as error:
        raise without_values(error, elsewhere.found) from None


def _loaded(
    file: str | os.PathLike[str] | None, environ: Mapping[str, str], flags: Mapping[str, Any], elsewhere: Elsewhere
) -> Settings:
    check_variables(environ, [*Settings.__struct_fields__, *_BY_FILE])
    values = _from_file(file, elsewhere)
    origins = dict.fromkeys(values, os.fspath(file or FILE))
    for name in Settings.__struct_fields__:
        if name not in TABLES and (given := _from_variable(name, environ, elsewhere)) is not None:
            values[name], origins[name] = given
    for name, value in flags.items():
        if value is not None:
            option = f"--{name.replace('_', '-')}"
            values[name], origins[name] = _convert(name, value, where=option), option
    if "db" not in values:
        values["db"] = default_db(environ)
    # Of a database the password is secret, not its name.
    secret = tuple(text for name, text in elsewhere.texts.items() if name != "db")
    settings = LoadedSettings(**values, origins=origins, elsewhere=tuple(elsewhere.found), file_texts=secret)
    try:
        return _checked(settings)
    except InvalidConfig as error:
        raise settings.located(error) from None


def is_given(name: str, path: str | os.PathLike[str] | None = None) -> bool:
    """Return whether a setting is given in a variable or in the file."""
    names = (name, f"{name}{FILE_SUFFIX}")
    raw = SettingsFile.read(path or os.environ.get("WAKEFUL_CONFIG"), FILE).raw
    return any(f"WAKEFUL_{one.upper()}" in os.environ or one in raw for one in names)


def exposed(path: str | os.PathLike[str] | None = None) -> str:
    """Return the settings file if it holds secrets and everyone on this machine may read it, else nothing."""
    found = SettingsFile.read(path or os.environ.get("WAKEFUL_CONFIG"), FILE)
    if not found.raw or not found.file.stat().st_mode & stat.S_IROTH:
        return ""
    targets = found.raw.get("targets", {}).values()
    # A bare `url` is not a secret.
    told = [value for target in targets for name, value in target.items() if name != "url" and _is_kept(name)]
    db = found.raw.get("db", "")
    secrets = _texts([found.raw.get("wake_token", ""), *told, db if "@" in db else ""])
    return str(found.file) if any(text and not refers(text) for text in secrets) else ""


def _from_file(path: str | os.PathLike[str] | None, elsewhere: Elsewhere) -> dict[str, Any]:
    found = SettingsFile.read(path, FILE)
    raw = {name: elsewhere.resolved(value, name, found.where) for name, value in found.raw.items()}
    raw = elsewhere.without_files(raw, "", found.where, takes=lambda name: f"{name}{FILE_SUFFIX}" in _BY_FILE)
    values: dict[str, Any] = {}
    for name, value in raw.items():
        if name not in Settings.__struct_fields__:
            fix = nearest(name, [*Settings.__struct_fields__, *_BY_FILE]) or "docs/reference/settings.md lists them."
            raise InvalidConfig(f"{found.where(name)}: there is no setting {name!r}", field=name, fix=fix)
        if name == "targets":
            values[name] = _targets(value, found, elsewhere)
        else:
            values[name] = _convert(name, value, where=found.where(name))
    return values


def _from_variable(name: str, environ: Mapping[str, str], elsewhere: Elsewhere) -> tuple[Any, str] | None:
    """A setting's value and the variable that holds it, or names the file with it."""
    variable = f"WAKEFUL_{name.upper()}"
    by_file = f"{variable}{FILE_SUFFIX.upper()}"
    text = environ.get(variable)
    if f"{name}{FILE_SUFFIX}" in _BY_FILE and by_file in environ:
        if text is not None:
            raise InvalidConfig(f"{variable} is set too", field=by_file, fix="Set one of them.")
        return elsewhere.text_of(environ[by_file], name, field=name, where=by_file), by_file
    if text is None or is_service_link(name, text):
        return None
    return _convert(name, text, where=variable), variable


def _targets(raw: Any, found: SettingsFile, elsewhere: Elsewhere) -> dict[str, dict[str, Any]]:
    targets: dict[str, dict[str, Any]] = {}
    for name, target in raw.items() if isinstance(raw, dict) else [("targets", raw)]:
        where = found.where(f"targets.{name}.kind")
        kind = target.get("kind") if isinstance(target, dict) else None
        if not isinstance(kind, str) or not is_kind(kind):
            names = kind_names()
            raise InvalidConfig(
                f"{where}: target {name!r} has kind {kind!r}",
                field=f"targets.{name}.kind",
                fix=f"{nearest(str(kind), names)} Accepted are: {', '.join(names)}, or package.module:Class.".strip(),
            )
        targets[name] = elsewhere.without_files(target, f"targets.{name}.", found.where, takes=bool)
    return targets


def _convert(name: str, value: Any, *, where: str) -> Any:
    kind = plain_type(name)
    if name == "retention" and value == "forever":
        return FOREVER
    try:
        if isinstance(value, str):
            value.encode()  # a variable may hold any bytes: those that are not text come as lone surrogates
        if kind is timedelta:
            return value if isinstance(value, timedelta) else duration(value)
        return msgspec.convert(value, kind, strict=not isinstance(value, str) or kind is str)
    except (msgspec.ValidationError, InvalidRequest, UnicodeEncodeError) as error:
        accepted = "a duration such as 30s, 2m or 90d" if kind is timedelta else kind.__name__
        accepted = 'lists of chats by owner, such as ada = ["123@g.us"]' if name == "chats" else accepted
        accepted = "a table of limits; docs/owners.md lists them" if name == "budget" else accepted
        accepted = "tables with url or sql; docs/conditions.md lists their settings" if name == "checks" else accepted
        accepted = 'tables such as [calendars.berlin] with country = "DE"' if name == "calendars" else accepted
        accepted += ", or forever" if name == "retention" else ""
        raise InvalidConfig(
            f"{where}: {value!r} is not accepted ({error})", field=name, fix=f"Give {accepted}."
        ) from None


def _checked(settings: Settings) -> Settings:
    _check_bounds(settings)
    if settings.lease < 2 * settings.tick:
        raise InvalidConfig(
            "the lease is shorter than two ticks", field="lease", fix="Give a longer lease or a shorter tick."
        )
    for name, accepted in WORDS.items():
        if (said := getattr(settings, name)) not in accepted:
            raise InvalidConfig(
                f"{said!r} is not accepted", field=name, fix=f"Accepted: {', '.join(filter(None, accepted))}."
            )
    if not _BARE_DAY_TIME.fullmatch(settings.bare_day_time):
        raise InvalidConfig(
            f"{settings.bare_day_time!r} is not a time of day", field="bare_day_time", fix="Give one such as 09:00."
        )
    _check_chats(settings.chats)
    check_budget(settings.budget)
    check_checks(settings.checks)
    check_calendars(settings.calendars, settings.calendar, settings.working_days)
    try:
        known = zone(settings.timezone).key
    except InvalidRequest as error:
        fix = error.fix if error.repair else "Give one such as Europe/Berlin."
        raise InvalidConfig(f"{settings.timezone!r} is not an IANA zone", field="timezone", fix=fix) from None
    return settings if known == settings.timezone else replace(settings, timezone=known)


def _check_bounds(settings: Settings) -> None:
    for name, hint in HINTS.items():
        value, (about,) = getattr(settings, name), hint.__metadata__
        least, most = about.extra["least"], about.extra["most"]
        if least is not None and value < least:
            raise InvalidConfig(f"{value} is less than {least}", field=name, fix=f"Give {least} or more.")
        if most is not None and value > most:
            raise InvalidConfig(f"{value} is more than {most}", field=name, fix=f"Give {least} to {most}.")


def _check_chats(chats: Mapping[str, list[str]]) -> None:
    for owner, patterns in chats.items():
        if EVERYONE in owner and owner != EVERYONE:
            fix = f"Name each owner; {EVERYONE!r} alone stands for everyone."
            raise InvalidConfig(f"{owner!r} is not the name of an owner", field="chats", fix=fix)
        if odd := next((pattern for pattern in patterns if not pattern or pattern.count(EVERYONE) > 1), None):
            fix = f"Give the ids of chats, such as 123@g.us; one {EVERYONE} in an id stands for any text."
            raise InvalidConfig(f"{odd!r} is not a pattern for chats", field=f"chats.{owner}", fix=fix)
