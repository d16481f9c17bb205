"""`budget`: how many wakes, and what cost, were used in this hour and day, and how many are allowed."""

from __future__ import annotations

from datetime import datetime

import click
from msgspec import to_builtins

from wakeful.alarm.budget_use import BudgetUse
from wakeful.cli.context import Command, asked
from wakeful.process.application import Wakeful


@click.command("budget", cls=Command)
@click.argument("id", default="")
def budget_command(id: str) -> None:
    """Show what is used of budgets in this hour and day.

    Those that are used up come first. With an ID all limits on one alarm; else the owner's own, and those of pending
    alarms and their chains of which something was used. Columns in a pipe: whose limit, id, period, wakes, wakes
    allowed, cost, cost allowed, state, free again at.
    """

    async def do(alarms: Wakeful) -> tuple[list[BudgetUse], datetime]:
        return await alarms.budget(id), await alarms.service.now()

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
