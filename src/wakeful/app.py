"""Build a clock from settings: the only module that chooses the store and the targets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from inspect import signature
from typing import Any

from wakeful.alarm import INBOX, users_of
from wakeful.client import Wakeful
from wakeful.clock import Clock, SystemClock
from wakeful.config import TARGET_KINDS, Settings, load
from wakeful.dispatcher import ServedTarget
from wakeful.errors import InvalidConfig, InvalidRequest
from wakeful.schedule import duration
from wakeful.store import Store
from wakeful.store.queries import Naming
from wakeful.sync import SyncWakeful
from wakeful.targets import Target
from wakeful.targets.inbox import Inbox

__all__ = ["Wakeful", "build", "open", "open_sync"]


def open(
    db: str | os.PathLike[str] | None = None,
    *,
    owner: str | None = None,
    config: str | os.PathLike[str] | None = None,
    clock: Clock | None = None,
    **settings: Any,
) -> Wakeful:
    """Open a clock on a SQLite file or a `postgresql://…` database.

    >>> async with wakeful.open("wakeful.db", owner="ada") as clock:
    ...     alarm = await clock.set("tomorrow at 9am", "Check the grant portal")

    Settings that are not given here come from WAKEFUL_* variables and wakeful.toml.
    """
    flags = {"db": None if db is None else os.fspath(db), "owner": owner, **settings}
    unknown = set(settings) - set(Settings.__struct_fields__)
    if unknown:
        raise InvalidConfig(f"there is no setting {min(unknown)!r}", field=min(unknown))
    return build(load(config, flags=flags), clock=clock)


def open_sync(db: str | os.PathLike[str] | None = None, **settings: Any) -> SyncWakeful:
    """Open a clock whose verbs need no `await`, for plain scripts and notebooks.

    >>> with wakeful.open_sync("wakeful.db") as clock:
    ...     alarm = clock.set("tomorrow at 9am", "Check the grant portal")
    """
    return SyncWakeful(lambda: open(db, **settings))


def build(settings: Settings, *, clock: Clock | None = None, via: str = "python") -> Wakeful:
    return Wakeful(
        build_store(settings, clock),
        settings=settings,
        targets=build_targets(settings, clock),
        clock=clock,
        via=via,
        task_target=lambda: _messages(settings, clock),
    )


def build_store(settings: Settings, clock: Clock | None = None) -> Store:
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
            f"{settings.db.partition(':')[0]!r} is not a store", field="db", fix="Give a file, or postgresql://…."
        )
    if settings.schema:
        raise InvalidConfig("SQLite has no schemas", field="schema", fix="Use the setting prefix.")
    from wakeful.store.sqlite import SqliteStore

    return SqliteStore(settings.db, naming=naming, clock=clock or SystemClock(), tick=settings.tick, **reading)


def build_targets(settings: Settings, clock: Clock | None = None) -> dict[str, ServedTarget]:
    """Build the inbox, the router if it is configured, and every [targets.NAME]."""
    served = {INBOX: ServedTarget(Inbox(), settings.total_concurrency, breaks=False)}
    configured: dict[str, Mapping[str, Any]] = dict(settings.targets)
    if settings.wake_url:
        configured.setdefault("router", {"kind": "router", "url": settings.wake_url, "token": settings.wake_token})
    for name, given in configured.items():
        if name == INBOX:
            raise InvalidConfig("this target is built in", field=f"targets.{INBOX}", fix="Choose another name.")
        served[name] = _target(name, dict(given), settings, clock or SystemClock())
    return served


def _messages(settings: Settings, clock: Clock | None) -> ServedTarget:
    """Build the default target of tasks: the table that their gateway reads, in the same database."""
    given = {"kind": "table", "table": settings.tasks_target}
    return _target(settings.tasks_target, given, settings, clock or SystemClock())


def _target(name: str, given: dict[str, Any], settings: Settings, clock: Clock) -> ServedTarget:
    kind = str(given.pop("kind"))
    concurrency = given.pop("concurrency", settings.concurrency)
    if not isinstance(concurrency, int) or concurrency < 1:
        raise InvalidConfig(f"{concurrency!r} is not a whole number of 1 or more", field=f"targets.{name}.concurrency")
    users = users_of(settings, name, kind, given.pop("owners", None))
    module, _, cls = TARGET_KINDS[kind].partition(":")
    try:
        if "timeout" in given:
            given["timeout"] = duration(given["timeout"]).total_seconds()
        made = getattr(import_module(module), cls)
        if "clock" in signature(made).parameters:
            given["clock"] = clock
        target: Target = made(**given)
    except InvalidRequest as error:
        raise InvalidConfig(error.message, field=f"targets.{name}.{error.field}".rstrip("."), fix=error.fix) from None
    except (TypeError, AttributeError, ValueError) as error:  # a file can hold anything where a text belongs
        raise InvalidConfig(
            f"{error}", field=f"targets.{name}", fix=f"docs/targets/{kind}.md lists the settings of {kind}."
        ) from None
    return ServedTarget(target, concurrency, users=users)
