"""`doctor`: is everything here that an alarm needs to fire, and if not, what to do. It changes and creates nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
import textwrap
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click
import msgspec

from wakeful.cli.colours import painted
from wakeful.cli.context import Command, asked
from wakeful.cli.output import Output, clean
from wakeful.clock import SystemClock
from wakeful.errors import InvalidConfig, InvalidRequest, StoreUnavailable, WakefulError
from wakeful.http.security.auth import is_loopback
from wakeful.process.application import build
from wakeful.python.client import LocalWakeful
from wakeful.schedule.zone_rules import zone_data
from wakeful.service import diagnosis
from wakeful.service.diagnosis import Finding, audited
from wakeful.service.why import is_alive
from wakeful.settings import FILE, FOREVER, Settings, exposed
from wakeful.store import Store
from wakeful.store.maintenance import Edition, adopt_newer_rules

_PATIENCE: Final = timedelta(minutes=2)


@click.command("doctor", cls=Command)
@click.option("--audit", is_flag=True, help="Also read every alarm and its fires: do they agree with each other?")
def doctor_command(audit: bool) -> int:
    """Check that everything is here that an alarm needs to fire.

    Each line is ok, warn or fail, with what to do. The exit status is 1 when one fails. Nothing is changed or made.
    Columns in a pipe: state, check, what was found, what to do.
    """
    findings = _findings(audit=audit)
    _show(findings, asked().output)
    return 1 if diagnosis.worst(findings) == "fail" else 0


def _findings(*, audit: bool) -> list[Finding]:
    try:
        settings = asked().settings()
    except InvalidConfig as error:
        return [Finding("config", "fail", *_words(error))]
    return [_config(), *asyncio.run(_examined(settings, audit=audit))]


def _config() -> Finding:
    """Where the settings come from."""
    named = asked().config or os.environ.get("WAKEFUL_CONFIG")
    file = Path(named or FILE)
    variables = sorted(name for name in os.environ if name.startswith("WAKEFUL_") and name != "WAKEFUL_TOKEN")
    told = [str(file)] if file.exists() else []
    said = ", ".join(told + variables) or f"no {FILE} here and no WAKEFUL_* variables: the defaults"
    if open_to_all := exposed(asked().config):
        return Finding(
            "config", "warn", f"{open_to_all} holds secrets, and everyone here can read it", f"chmod o-r {open_to_all}"
        )
    return Finding("config", "ok", said)


async def _examined(settings: Settings, *, audit: bool) -> list[Finding]:
    if (missing := _missing(settings)) is not None:
        return [missing, _zones(settings)]
    try:
        async with _unmigrated(settings) as alarms:
            return await _examine(alarms, alarms.service.store, audit=audit)
    except InvalidRequest as error:  # what is configured cannot be built
        return [Finding("targets" if error.field.startswith("targets") else "database", "fail", *_words(error))]
    except StoreUnavailable as error:
        return [Finding("database", "fail", *_words(error)), _zones(settings)]


@asynccontextmanager
async def _unmigrated(settings: Settings) -> AsyncIterator[LocalWakeful]:
    """Opened as it is: whoever asks how it is does not want it changed."""
    # A big file takes a while to look through.
    alarms = build(msgspec.structs.replace(settings, read_within=_PATIENCE), via="cli")
    try:
        yield alarms
    finally:
        await alarms.close()


def _missing(settings: Settings) -> Finding | None:
    if "://" in settings.db or os.path.exists(settings.db):
        return None
    said = f"{os.path.abspath(settings.db)} does not exist yet"
    return Finding("database", "fail", said, "wakeful serve makes it; so does the first alarm. Or name another: --db.")


async def _examine(alarms: LocalWakeful, store: Store, *, audit: bool) -> list[Finding]:
    settings = alarms.settings
    inspected = await store.maintenance.inspect()
    findings = diagnosis.database(inspected, _where(settings))
    if inspected.schema and not inspected.broken:
        findings += await _running(alarms, store)
    is_up_to_date = inspected.schema == inspected.known and not inspected.broken
    editions = await store.maintenance.editions() if is_up_to_date else []
    if audit and is_up_to_date:
        await adopt_newer_rules(store.maintenance)
        findings += diagnosis.audit(
            await audited(
                store,
                lease=settings.lease,
                patience=settings.tick + diagnosis.LATE,
                keeps=None if settings.retention == FOREVER else settings.retention,
            )
        )
    findings += [_zones(settings, editions), *diagnosis.calendars(alarms.service.calendars), *_disk(settings)]
    return findings


async def _running(alarms: LocalWakeful, store: Store) -> list[Finding]:
    """What is told by the tables: who delivers, where to, what is late, who is let in."""
    settings, service = alarms.settings, alarms.service
    here, now = SystemClock().now(), await store.now()
    workers, states = await store.maintenance.workers(), await store.maintenance.target_states()
    alive = any(is_alive(worker, now) for worker in workers)
    paused = frozenset(name for name, state in states.items() if state.paused_at is not None)
    tokens = [token for token in await store.access.tokens() if token.is_live(now)]
    return [
        diagnosis.dispatcher(workers, now),
        *diagnosis.targets(await service.targets.served(), states, running=alive),
        *await _unusable(alarms),
        diagnosis.overdue(await store.maintenance.backlog(lease=settings.lease), paused, now),
        diagnosis.clock(here, now, workers),
        diagnosis.access(
            settings.public_url or settings.local_url,
            loopback=is_loopback(settings.host) and not settings.public_url,
            live=len(tokens),
            opened=await store.access.auth_state() != "closed",
        ),
    ]


async def _unusable(alarms: LocalWakeful) -> list[Finding]:
    """A target with which `serve` would refuse to start."""
    try:
        await alarms.check_targets()
    except InvalidConfig as error:
        return [Finding(error.field or "targets", "fail", error.message, error.fix)]
    return []


def _where(settings: Settings) -> str:
    """The database's name, without a password."""
    if "://" not in settings.db:
        return os.path.abspath(settings.db)
    parts = urlsplit(settings.db)
    return f"{parts.hostname or 'local socket'}{parts.path}"


def _zones(settings: Settings, editions: Sequence[Edition] = ()) -> Finding:
    return diagnosis.zones(zone_data(), settings.timezone, SystemClock().now(), editions)


def _disk(settings: Settings) -> list[Finding]:
    if "://" in settings.db:
        return []  # of another machine nothing is known here
    folder = os.path.dirname(os.path.abspath(settings.db))
    return [diagnosis.disk(shutil.disk_usage(folder).free, folder)]


def _words(error: WakefulError) -> tuple[str, str]:
    where = f"{error.field}: " if error.field else ""
    return f"{where}{error.message}".rstrip("."), error.fix


def _show(findings: Sequence[Finding], out: Output) -> None:
    if out.json:
        click.echo(msgspec.json.encode({"state": diagnosis.worst(findings), "findings": findings}))
    elif not out.terminal:
        for one in findings:
            click.echo("\t".join(map(clean, (one.state, one.check, one.said, one.fix))))
    else:
        widest = max(len(one.check) for one in findings)
        for one in findings:
            _lines(one, widest, out)


def _lines(one: Finding, widest: int, out: Output) -> None:
    indent = 6 + widest + 2
    room = max(20, out.width - indent)
    said = textwrap.wrap(clean(one.said), room, break_on_hyphens=False) or [""]
    said += [f"→ {part}" if at == 0 else f"  {part}" for at, part in enumerate(textwrap.wrap(clean(one.fix), room - 2))]
    state = f"{one.state:<6}"
    out.echo((painted(state, one.state) if out.coloured else state) + f"{clean(one.check):<{widest}}  {said[0]}")
    for line in said[1:]:
        click.echo(" " * indent + line)
