"""`preview`: what a time means. It needs no database; a server that is named is asked, for its zone and its time."""

from __future__ import annotations

from datetime import datetime

import click

from wakeful.cli.context import Command, asked
from wakeful.cli.output import local, utc
from wakeful.cli.times import absolute, full
from wakeful.cli.zone import reader_zone
from wakeful.clock import SystemClock
from wakeful.schedule import Understood, parse
from wakeful.schedule import zone as zone_of


@click.command("preview", cls=Command)
@click.argument("when", nargs=-1, required=True)
@click.option(
    "--tz", metavar="ZONE", help="The time's IANA zone. Default: the setting `timezone`, then the shell's own."
)
@click.option("-n", "count", type=click.IntRange(1, 100), default=5, show_default=True, help="How many fires.")
def preview_command(when: tuple[str, ...], tz: str | None, count: int) -> None:
    """Show what a time means, without setting anything.

    \b
      wakeful preview "every monday at 9am" --tz Europe/Berlin -n 3
    """
    zone, text = asked().zone(tz), " ".join(when)
    if asked().server()[0]:
        found = asked().run(lambda clock: clock.parse(text, timezone=zone.name))
    else:
        found = parse(text, timezone=zone.name, now=SystemClock().now(), date_order=asked().date_order())
    fires = found.next(count)
    out = asked().output
    fields = {"kind": found.kind, "means": found.description, "cron": found.cron_expr}
    is_from_zone = out.terminal and found.timezone == zone.name
    fields["timezone"] = f"{zone.name} ({zone.source})" if is_from_zone else found.timezone
    for number, fire in enumerate(fires, 1):
        both = f"{local(fire, found.timezone)} = {utc(fire)}"
        fields[f"fire {number}"] = _for_people(fire, found) if out.terminal else both
    fields |= {f"remark {number}": remark for number, remark in enumerate(found.remarks, 1)}
    out.record(fields if out.terminal else fields | {"now": utc(found.now)}, _document(found, count))


def _for_people(fire: datetime, found: Understood) -> str:
    """In the zone that was asked about; where the reader has another, by the reader's clock as well."""
    said, here = full(fire, found.now, zone_of(found.timezone)), reader_zone()
    return said if here == found.timezone else f"{said} = {absolute(fire, found.now, zone_of(here))} {here}"


def _document(found: Understood, count: int) -> dict[str, object]:
    return {
        "kind": found.kind,
        "description": found.description,
        "timezone": found.timezone,
        **({"cron_expr": found.cron_expr} if found.cron_expr else {"fire_at": found.fire_at}),
        "next": [{"local": local(fire, found.timezone), "utc": fire} for fire in found.next(count)],
        "remarks": found.remarks,
        "now": found.now,
    }
