"""Build the client from settings: the only module that chooses the store and the targets."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from typing import TYPE_CHECKING, Any, Unpack

from wakeful.clock import Clock, SystemClock
from wakeful.errors import InvalidConfig, InvalidRequest, nearest
from wakeful.model.alarm import INBOX
from wakeful.model.keywords import OpenKeywords
from wakeful.python.client import LocalWakeful
from wakeful.python.program import Wakeful
from wakeful.rules.users import Users
from wakeful.schedule import duration
from wakeful.settings import ROUTER, Settings, load
from wakeful.settings.kinds import named, target_kind
from wakeful.settings.sources import FILE_SUFFIX, make_folder
from wakeful.settings.values import users_of
from wakeful.store import Store
from wakeful.store.queries import Naming

if TYPE_CHECKING:
    from wakeful.dispatcher import MakeFeature, ServedTarget
    from wakeful.python.sync import SyncWakeful
    from wakeful.store.copying import CopyEnd
    from wakeful.targets import Target

__all__ = ["LocalWakeful", "Wakeful", "build", "open", "open_sync"]


def open(
    db: str | os.PathLike[str] | None = None,
    *,
    owner: str | None = None,
    config: str | os.PathLike[str] | None = None,
    clock: Clock | None = None,
    token: str | None = None,
    **settings: Unpack[OpenKeywords],
) -> Wakeful:
    """Open the alarms in a SQLite file, in a `postgresql://…` database, or on a server at `https://…`.

    >>> async with wakeful.open("wakeful.db", owner="ada") as alarms:
    ...     alarm = await alarms.set("tomorrow at 9am", "Check the grant portal")

    Settings that are not given here come from WAKEFUL_* variables and wakeful.toml; for a server, from WAKEFUL_URL and
    WAKEFUL_TOKEN. `token` says whose alarms they are there: a server has its own settings, and takes none from here.
    """
    if url := _server(db):
        given = {"owner": owner, "config": config, **settings}
        if said := next((name for name, value in given.items() if value is not None), ""):
            raise InvalidConfig("a server has its own settings", field=said, fix="Leave it out; see the server's.")
        return open_server(url, token, clock=clock)
    if token is not None:
        raise InvalidConfig("a token is for a server", field="token", fix="Give its address, https://…, with it.")
    return open_local(db, owner=owner, config=config, clock=clock, **settings)


def open_local(
    db: str | os.PathLike[str] | None = None,
    *,
    owner: str | None = None,
    config: str | os.PathLike[str] | None = None,
    clock: Clock | None = None,
    **settings: Unpack[OpenKeywords],
) -> LocalWakeful:
    """The same in a database, whatever server the environment names: with its `service` and `dispatcher`."""
    flags = {"db": None if db is None else os.fspath(db), "owner": owner, **settings}
    unknown = set(settings) - set(Settings.__struct_fields__)
    if unknown:
        fix = nearest(min(unknown), Settings.__struct_fields__)
        raise InvalidConfig(f"there is no setting {min(unknown)!r}", field=min(unknown), fix=fix)
    return build(load(config, flags=flags), clock=clock)


def open_sync(
    db: str | os.PathLike[str] | None = None,
    *,
    background: bool = False,
    owner: str | None = None,
    config: str | os.PathLike[str] | None = None,
    clock: Clock | None = None,
    token: str | None = None,
    **settings: Unpack[OpenKeywords],
) -> SyncWakeful:
    """Open alarms whose verbs need no `await`, for plain scripts and notebooks.

    >>> with wakeful.open_sync("wakeful.db") as alarms:
    ...     alarm = alarms.set("tomorrow at 9am", "Check the grant portal")

    `background`: dispatch as long as it is open.
    """
    from wakeful.python.sync import SyncWakeful

    def make() -> Wakeful:
        return open(db, owner=owner, config=config, clock=clock, token=token, **settings)

    return SyncWakeful(make, background=background)


def _server(db: str | os.PathLike[str] | None) -> str:
    """The server that is meant; empty where it is a database."""
    from wakeful.remote.connection import is_server, server_in

    if db is None:
        return server_in(os.environ)
    return db if isinstance(db, str) and is_server(db) else ""


def open_server(url: str, token: str | None = None, *, clock: Clock | None = None) -> Wakeful:
    """The alarms on a server. Without a token, that of WAKEFUL_TOKEN counts."""
    from wakeful.remote import RemoteWakeful, server_address

    return RemoteWakeful(server_address(url, token), clock=clock)


def build(
    settings: Settings,
    *,
    clock: Clock | None = None,
    via: str = "python",
    delivers: bool = True,
    store: Store | None = None,
) -> LocalWakeful:
    """The alarms in the database of the settings, or in a store that is there already.

    One that delivers nothing knows its targets by name and does not build them: what they are built of takes longer to
    import than a command of the shell to run.
    """
    return LocalWakeful(
        build_store(settings, clock) if store is None else store,
        settings=settings,
        targets=build_targets(settings, clock) if delivers else {},
        clock=clock,
        via=via,
        task_target=lambda: _messages(settings, clock),
        features=_features,
        declared=None if delivers else _declared(settings),
    )


@contextmanager
def _located(settings: Settings) -> Iterator[None]:
    """What is refused says where it was set."""
    try:
        yield
    except InvalidConfig as error:
        raise settings.located(error) from None


def build_store(settings: Settings, clock: Clock | None = None) -> Store:
    with _located(settings):
        return _store(settings, clock)


def _store(settings: Settings, clock: Clock | None) -> Store:
    naming = Naming(schema=settings.schema, prefix=settings.prefix)
    reading: Any = {"read_within": settings.read_within, "reads_per_owner": settings.reads_per_owner}
    if settings.db.startswith(("postgresql://", "postgres://")):
        from wakeful.store.postgres import PostgresStore

        return PostgresStore(
            settings.db,
            naming=naming,
            clock=clock,
            tick=settings.tick,
            pool_size=settings.pool_size,
            pgbouncer=settings.pgbouncer,
            **reading,
        )
    if "://" in settings.db:
        raise InvalidConfig(
            f"{settings.db.partition(':')[0]!r} is not a store",
            field="db",
            fix="Give a file, postgresql://… or https://….",
        )
    if settings.schema:
        raise InvalidConfig("SQLite has no schemas", field="schema", fix="Use the setting prefix.")
    from wakeful.store.sqlite import SqliteStore

    make_folder(settings.db)
    return SqliteStore(settings.db, naming=naming, clock=clock or SystemClock(), tick=settings.tick, **reading)


def build_copy_end(settings: Settings) -> CopyEnd:
    """A database to back up, to restore into, or to move."""
    from wakeful.runtime.logs import shown
    from wakeful.store.copying import CopyEnd

    naming = Naming(schema=settings.schema, prefix=settings.prefix)
    store = build_store(settings)
    if "://" in settings.db:
        from wakeful.store.copying.postgres import PostgresTables

        pgbouncer = settings.pgbouncer
        return CopyEnd(
            shown(settings.db) + _where(naming),
            store,
            lambda: PostgresTables(settings.db, naming, pgbouncer=pgbouncer),
        )
    from wakeful.store.copying.sqlite import SqliteTables
    from wakeful.store.sqlite.file import check_path

    file = check_path(settings.db)
    name = file + _where(naming)
    return CopyEnd(name, store, lambda: SqliteTables(file, naming, now=SystemClock().now()), file=file)


def _where(naming: Naming) -> str:
    """One database may hold several wakefuls."""
    return "".join(f", {what} {name}" for what, name in (("schema", naming.schema), ("prefix", naming.prefix)) if name)


def build_targets(settings: Settings, clock: Clock | None = None) -> dict[str, ServedTarget]:
    """Build the inbox, the router if it is configured, and every [targets.NAME]."""
    from wakeful.dispatcher import ServedTarget
    from wakeful.targets.inbox import Inbox

    if settings.checks:
        from wakeful.targets.sending.check import verify_checks

        with _located(settings):
            verify_checks(settings.checks)
    served = {INBOX: ServedTarget(Inbox(), settings.total_concurrency, breaks=False)}
    for name, given in _configured(settings).items():
        with _located(settings):
            served[name] = _target(name, dict(given), settings, clock or SystemClock())
    return served


def _declared(settings: Settings) -> dict[str, Users]:
    """The targets there are, and who may use each."""
    users = {INBOX: Users()}
    for name, given in _configured(settings).items():
        with _located(settings):
            users[name] = users_of(settings, name, str(given["kind"]), given.get("owners"))
    return users


def _configured(settings: Settings) -> dict[str, Mapping[str, Any]]:
    """The router if it is configured, and every [targets.NAME]."""
    configured: dict[str, Mapping[str, Any]] = dict(settings.targets)
    if INBOX in configured:
        with _located(settings):
            raise InvalidConfig("this target is built in", field=f"targets.{INBOX}", fix="Choose another name.")
    if settings.wake_url:
        configured.setdefault(ROUTER, {"kind": "router", "url": settings.wake_url, "token": settings.wake_token})
    return configured


def _features() -> Iterable[MakeFeature]:
    """The optional features that take part in dispatching: each plans alarms of its own, and may stop their wakes."""
    from wakeful.dispatcher.sql_tasks import SqlTasks

    return (SqlTasks,)


def _messages(settings: Settings, clock: Clock | None) -> ServedTarget:
    """Build the default target of tasks: the table that their gateway reads, in the same database."""
    given = {"kind": "table", "table": settings.tasks_target}
    return _target(settings.tasks_target, given, settings, clock or SystemClock())


def _target(name: str, given: dict[str, Any], settings: Settings, clock: Clock) -> ServedTarget:
    from wakeful.dispatcher import ServedTarget

    kind = str(given.pop("kind"))
    known = target_kind(kind, f"targets.{name}.kind")
    concurrency = given.pop("concurrency", known.concurrency or settings.concurrency)
    if not isinstance(concurrency, int) or concurrency < 1:
        raise InvalidConfig(f"{concurrency!r} is not a whole number of 1 or more", field=f"targets.{name}.concurrency")
    users = users_of(settings, name, kind, given.pop("owners", None))
    page = f"docs/targets/{known.place.partition(':')[0].rpartition('.')[2]}.md"
    try:
        made = named(known.place, field="kind")
        if "timeout" in given:
            given["timeout"] = duration(given["timeout"]).total_seconds()
        parameters = signature(made).parameters
        own = {
            "clock": clock,
            "concurrency": concurrency,
            "operator": settings.owner,
            "public_url": settings.public_url,
        }
        taken = {name: parameter for name, parameter in parameters.items() if name not in own}
        if odd := next((name for name in given if name not in taken), None):
            by_file = [f"{one}{FILE_SUFFIX}" for one, parameter in taken.items() if parameter.annotation == "str"]
            fix = nearest(odd, [*taken, *by_file]) or f"{page} lists what {kind} takes."
            raise InvalidRequest(f"a {kind} target has no setting {odd!r}", field=odd, fix=fix)
        given |= {name: value for name, value in own.items() if name in parameters}
        target: Target = made(**given)
    except InvalidRequest as error:
        raise InvalidConfig(error.message, field=f"targets.{name}.{error.field}".rstrip("."), fix=error.fix) from None
    except (TypeError, AttributeError, ValueError) as error:  # a file can hold anything where a text belongs
        raise InvalidConfig(f"{error}", field=f"targets.{name}", fix=f"{page} lists the settings of {kind}.") from None
    return ServedTarget(target, concurrency, users=users)
