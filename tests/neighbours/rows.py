"""Rows of `scheduled_tasks` that nobody can make sense of; good ones among them are said all the same."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from tests.faults.client import iso

from .attack import attack, tried, unless
from .house import House
from .records import Tried

BYTES: Final = "cast(x'fffe41' as text)"
ANYWHERE: Final = {  # column → SQL
    "cron": (f"'{'9' * 5000}'", f"'{'0' * 5000}'", "'@every 0s'"),
    "next_run": ("'9999-12-31T23:59:59-12:00'", "'0001-01-01T00:00:00+12:00'", "'soon'"),
    "prompt": (f"'{'x' * 200_000}'",),
    "status": ("'whatever'",),
}
SQLITE: Final = dict.fromkeys(("prompt", "chat_jid", "owner", "cron", "next_run"), (BYTES, "x'fffe41'"))
WITHIN: Final = 5.0  # seconds after it was due


@attack("task rows that nobody can read", stage=9)
async def rows(house: House, until: float) -> Tried:
    kinds = [(column, value) for column, values in ANYWHERE.items() for value in values]
    if house.store == "sqlite":
        kinds += [(column, value) for column, values in SQLITE.items() for value in values]
    bad, good = 0, []
    while time.monotonic() < until:
        stamp = time.time_ns()
        for n, (column, value) in enumerate(kinds):
            given = {
                "id": f"'bad-{stamp}-{n}'",
                "owner": "'main'",
                "chat_jid": "'1@g.us'",
                "prompt": "'x'",
                "next_run": f"'{iso(time.time() + 1)}'",
                "status": "'active'",
            } | {column: value}
            await house.sql(f"insert into scheduled_tasks ({', '.join(given)}) values ({', '.join(given.values())})")
            bad += 1
        good.append(f"fine {stamp}")
        await house.sql(
            "insert into scheduled_tasks (id, owner, chat_jid, prompt, next_run, status) values "
            f"('fine-{stamp}', 'main', '1@g.us', '{good[-1]}', '{iso(time.time() + 0.5)}', 'active')"
        )
        await asyncio.sleep(1.0)
    await asyncio.sleep(0.5)
    end, said = time.monotonic() + WITHIN, 0
    while said < len(good) and time.monotonic() < end:
        said = (await house.sql("select count(*) from messages where content like 'fine %'"))[0][0]
        await asyncio.sleep(0.2)
    errors = (await house.sql("select count(*) from scheduled_tasks where status = 'error'"))[0][0]
    what = f"{bad} rows with bytes, digits and years out of reach; {said} of {len(good)} good rows among them were said"
    return tried(
        what,
        {"rows set aside": errors},
        unless(said == len(good), f"{len(good) - said} good tasks were not said within {WITHIN:.0f} s"),
        unless(errors, "no row was set aside"),
    )
