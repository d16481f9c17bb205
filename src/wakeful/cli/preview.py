"""`preview`: what a time means. It needs no database; a server that is named is asked, for its zone and its time."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime

import click

from wakeful.cli.context import Command, asked
from wakeful.cli.output import local, utc
from wakeful.cli.times import OWN_ZONE, ShellZone, absolute, full, own_zone, reader_zone
from wakeful.clock import SystemClock
from wakeful.errors import InvalidConfig, StoreUnavailable
from wakeful.model.owner_settings import OwnerSettings
from wakeful.model.requests import BOUNDS
from wakeful.process.application import Wakeful
from wakeful.rules.owner_settings import effective
from wakeful.schedule import Understood, parse
from wakeful.schedule import zone as zone_of
from wakeful.schedule.holiday_calendars import Calendars
from wakeful.service.holidays import calendar_meant
from wakeful.settings import Settings
from wakeful.settings.values import server_settings


@click.command("preview", cls=Command)
@click.argument("when", nargs=-1, required=True)
@click.option(
    "--tz",
    metavar="ZONE",
    help="The time's IANA zone. Default: your own, then the setting `timezone`, then the shell's.",
)
@click.option("-n", "count", type=click.IntRange(1, 100), default=5, show_default=True, help="How many fires.")
def preview_command(when: tuple[str, ...], tz: str | None, count: int) -> None:
    """Show what a time means, without setting anything.

    \b
      wakeful preview "every monday at 9am" --tz Europe/Berlin -n 3
    """
    zone, text = asked().zone(tz), " ".join(when)
    if asked().server()[0]:
        found, zone = asked().run(lambda alarms: _understood(alarms, text, tz, zone))
    else:
        found, zone = _understood_here(text, tz, zone)
    fires = found.next(count)
    out = asked().output
    fields = {"kind": found.kind, "means": found.description, "cron": found.cron_expr}
    is_from_zone = out.terminal and found.timezone == zone.name
    fields["timezone"] = f"{zone.name} ({zone.source})" if is_from_zone else found.timezone
    for number, fire in enumerate(fires, 1):
        both = f"{local(fire, found.timezone)} = {utc(fire)}"
        fields[f"fire {number}"] = _for_people(fire, found) if out.terminal else both
    for number, (moment, holiday) in enumerate(found.skipped(count), 1):
        fields[f"skipped {number}"] = f"{local(moment, found.timezone)} ({holiday})"
    fields |= {f"remark {number}": remark for number, remark in enumerate(found.remarks, 1)}
    out.record(fields if out.terminal else fields | {"now": utc(found.now)}, _document(found, count))


async def _understood(alarms: Wakeful, text: str, tz: str | None, zone: ShellZone) -> tuple[Understood, ShellZone]:
    own = zone if tz else await own_zone(alarms, zone)
    return await alarms.parse(text, timezone=own.name), own


def _understood_here(text: str, tz: str | None, zone: ShellZone) -> tuple[Understood, ShellZone]:
    settings = asked().settings()
    own = _own_settings(settings)
    if not tz and own.timezone:
        zone = ShellZone(own.timezone, OWN_ZONE)
    usual = effective(own, server_settings(settings))
    found = parse(
        text,
        timezone=zone.name,
        now=SystemClock().now(),
        default_time=settings.bare_day,
        date_order=usual.date_order,
        working_days=usual.working_days,
        has_calendar=bool(settings.calendars),
    )
    if found.skips_holidays:
        Calendars(settings.calendars)
        found = replace(found, calendar=calendar_meant(usual, settings, "when"))
    return found, zone


def _own_settings(settings: Settings) -> OwnerSettings:
    """The owner's own, where there is a database to look them up in: a preview needs none."""
    if "://" not in settings.db and not os.path.exists(settings.db):
        return OwnerSettings()
    try:
        found = asked().run(lambda alarms: alarms.owner_settings())
    except (StoreUnavailable, InvalidConfig):
        return OwnerSettings()
    return OwnerSettings(**{name: getattr(found, name) for name in found.own})


def _for_people(fire: datetime, found: Understood) -> str:
    """In the zone that was asked about; where the reader has another, by the reader's clock as well."""
    said, here = full(fire, found.now, zone_of(found.timezone)), reader_zone()
    return said if here == found.timezone else f"{said} = {absolute(fire, found.now, zone_of(here))} {here}"


def _skipped(found: Understood, count: int) -> list[dict[str, object]]:
    zone = found.timezone
    return [{"local": local(at, zone), "utc": at, "holiday": holiday} for at, holiday in found.skipped(count)]


def _document(found: Understood, count: int) -> dict[str, object]:
    return {
        "kind": found.kind,
        "description": found.description,
        "timezone": found.timezone,
        **({"cron_expr": found.cron_expr} if found.cron_expr else {"fire_at": found.fire_at}),
        **{name: bound for name in BOUNDS if (bound := getattr(found, name)) is not None},
        "next": [{"local": local(fire, found.timezone), "utc": fire} for fire in found.next(count)],
        **({"skipped": _skipped(found, count)} if found.calendar else {}),
        "remarks": found.remarks,
        "now": found.now,
    }
