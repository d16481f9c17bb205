"""One verb on many: what a slice does, what it says of those it could not do, and where a limit stops it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from wakeful.errors import Conflict, TooMany
from wakeful.model.alarm import Alarm
from wakeful.service.bulk import SLICE, TOGETHER, act_on, act_on_slice
from wakeful.service.read import Cursor
from wakeful.store import Matches
from wakeful.testing import ManualClock
from wakeful.testing.conformance.making import an_alarm

IDS = [f"a{number:02}" for number in range(10)]


async def test_what_cannot_be_done_is_counted_by_its_reason_and_the_others_are_done() -> None:
    done: list[str] = []

    async def act(id: str) -> None:
        if id in ("a03", "a07"):
            raise Conflict(f"the alarm {id} is finished", field="id")
        done.append(id)

    acted = await act_on(IDS, act)
    assert (acted.done, acted.refused, acted.stopped) == (8, {"the alarm … is finished": 2}, "")
    assert sorted(done) == [id for id in IDS if id not in ("a03", "a07")]


async def test_several_are_done_at_once_and_never_more() -> None:
    under_way, most = 0, 0

    async def act(id: str) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1

    assert (await act_on(IDS, act)).done == len(IDS)
    assert most == TOGETHER


@pytest.mark.parametrize("allowed", range(len(IDS) + 1))
async def test_a_limit_stops_it_and_going_on_from_there_does_the_rest(allowed: int) -> None:
    """Whatever a limit cuts through, nobody is left out when it is gone on with."""
    rows = [an_alarm(ManualClock(datetime(2030, 1, 1, tzinfo=UTC))) for _ in IDS]
    turns = {row.id: TOGETHER - number % TOGETHER for number, row in enumerate(rows)}  # the last of a group goes first
    done: list[str] = []

    async def page(cursor: Cursor | None, limit: int) -> Matches[Alarm]:
        first = 0 if cursor is None else [row.id for row in rows].index(cursor[1]) + 1
        return Matches([row for row in rows[first : first + limit] if row.id not in done])

    async def act(id: str) -> None:
        for _ in range(turns[id]):
            await asyncio.sleep(0)
        if len(done) >= allowed and limited:
            raise TooMany("enough for now", fix="Wait.")
        done.append(id)

    limited = True
    acted = await act_on_slice(page, act, None)
    assert acted.done == allowed
    assert (acted.stopped, acted.refused) == ("enough for now. Wait." if allowed < len(IDS) else "", {})
    limited = False
    if acted.stopped:
        rest = await act_on_slice(page, act, acted.cursor)
        assert (rest.done, rest.stopped, rest.cursor) == (len(IDS) - allowed, "", None)
    assert sorted(done) == sorted(row.id for row in rows)
    assert len(IDS) < SLICE
