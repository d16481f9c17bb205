"""`settings`: an owner's own zone, date order, working days and calendar of holidays."""

from __future__ import annotations

from datetime import datetime

import click
from msgspec import to_builtins
from msgspec.structs import asdict

from wakeful.cli.context import Command, asked
from wakeful.model.owner_settings import SETTINGS_FIELDS, OwnerSettings, OwnerSettingsView, SettingsRequest
from wakeful.process.application import Wakeful
from wakeful.rules.budget import BudgetUse
from wakeful.rules.owner_settings import changed
from wakeful.rules.wanted import request_of


@click.command("settings", cls=Command)
@click.option("--timezone", metavar="ZONE", help="Your IANA zone, for times given without one.")
@click.option("--date-order", metavar="dmy|mdy", help="How you write 3/4/2030: day first, or month first.")
@click.option("--working-days", metavar="DAYS", help="The days you work on, such as mon-fri or sun-thu.")
@click.option("--calendar", metavar="NAME", help="The calendar whose holidays you have; the operator names them.")
def settings_command(**options: str | None) -> None:
    """Show or change your own zone, working days and calendar.

    They count for all alarms to come that do not say; with no option they are shown.
    An empty text takes back what the server has.

    \b
      wakeful settings --timezone Europe/Berlin
      wakeful settings --timezone ""
    """

    wanted = request_of(SettingsRequest, options)
    changes = any(value is not None for value in options.values())
    if changes and not asked().server()[0]:
        changed(OwnerSettings(), wanted, asked().settings().calendars)  # what is refused makes no database

    async def do(alarms: Wakeful) -> OwnerSettingsView:
        return await (alarms.change_settings(wanted) if changes else alarms.owner_settings())

    found = asked().run(do, creates=changes)
    out = asked().output
    out.record({name: _shown(found, name, out.terminal) for name in SETTINGS_FIELDS}, asdict(found))


def _shown(found: OwnerSettingsView, name: str, for_people: bool) -> str:
    said = str(getattr(found, name))
    if not for_people or not said:
        return said
    return f"{said} (yours)" if name in found.own else f"{said} (the server's)"


# `budget`: how many wakes, and what cost, were used in this hour and day, and how many are allowed.


@click.command("budget", cls=Command)
@click.argument("id", default="")
def budget_command(id: str) -> None:
    """Show what is used of budgets in this hour and day.

    Those that are used up come first. With an ID all limits on one alarm; else the owner's own, and those of pending
    alarms and their chains of which something was used. Columns in a pipe: whose limit, id, period, wakes, wakes
    allowed, cost, cost allowed, state, free again at.
    """

    async def do(alarms: Wakeful) -> tuple[list[BudgetUse], datetime]:
        return await alarms.budget(id), await alarms.now()

    used, now = asked().run(do)
    out = asked().output
    if not used and out.empty("Nothing that has a limit was used in this hour or day."):
        return
    columns = ("whose", "id", "period", "wakes", "of", "cost", "of cost", "state", "free again")
    short = out.ids([use.id for use in used if use.scope != "owner"])
    rows = [
        (
            use.scope,
            short.get(use.id, use.id),
            use.period,
            str(use.wakes),
            _allowed(use.wakes_allowed),
            f"{use.cost:g}" if use.cost else "",
            _allowed(use.cost_allowed),
            "used up" if use.used_up else "",
            out.at(use.until, now),
        )
        for use in used
    ]
    out.rows(columns, rows, {"budget": [to_builtins(use, builtin_types=(datetime,)) for use in used], "now": now})


def _allowed(limit: float) -> str:
    return f"{limit:g}" if limit else ""
