"""Small requests that cost a server much: rare rules, previews, nested payloads, a long calendar, a wake's token."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any, Final

from tests.faults.client import iso

from .attack import attack, over_and_over, tried, unless
from .house import House, Reply, Visitor
from .records import Tried

RARE: Final = "RRULE:FREQ=YEARLY;BYYEARDAY=366;BYDAY=MO"  # one fire in 28 years
NESTED: Final = 97  # levels; a page that indents each would grow a hundredfold
FILLING: Final = 40_000  # numbers in the innermost list
DIARY: Final = 10_000  # alarms in a calendar
_PAUSE: Final = 0.05  # of whoever is told to wait


async def asked(visitor: Visitor, method: str, path: str, body: Any = None) -> Reply:
    reply = await visitor(method, path, body)
    if reply.status == 429:
        await asyncio.sleep(_PAUSE)
    return reply


def rare(number: int) -> str:
    """Another rule each time: what was worked out for one says nothing of the others."""
    return f"{RARE};BYHOUR={number % 24};BYMINUTE={number // 24 % 60};BYSECOND={number // 1440 % 60}"


def nested() -> Any:
    payload: Any = [1] * FILLING
    for _ in range(NESTED):
        payload = [payload]
    return payload


@attack("pages of an alarm with a nested payload of 128 KiB", stage=12)
async def pages(house: House, until: float) -> Tried:
    async with house.as_owner("spy") as spy:
        made = await spy("POST", "/v1/alarms", {"wake_message": "x", "when": "in 9 hours", "payload": nested()})
    path = f"/alarms/{made.json.get('id')}"
    async with house.anyone({"cookie": f"wakeful_token={house.tokens['spy']}"}) as browser:
        page = await browser("GET", path)
        number = await over_and_over(max(until, time.monotonic() + 2), 8, lambda: asked(browser, "GET", path))
    what = f"{number + 1} pages, 8 at once"
    shown = unless(page.status == 200, f"the page answered {page.status}")
    return tried(what, browser.came, unless(made.status == 201, f"it answered {made.status}"), shown)


@attack("batches of 1,000 rare rules", stage=12)
async def rules(house: House, until: float) -> Tried:
    sent = 0
    async with house.as_owner("reader") as reader:

        async def once() -> None:
            nonlocal sent
            some = range(sent * 1000, sent * 1000 + 1000)
            sent += 1
            alarms = [{"wake_message": "m", "when": rare(number)} for number in some]
            await asked(reader, "POST", "/v1/alarms/batch", {"alarms": alarms})

        await over_and_over(until, 4, once)
    return tried(f"{sent} batches, 4 at once, no rule twice", reader.came)


@attack("previews of rare rules", stage=12)
async def previews(house: House, until: float) -> Tried:
    sent = 0
    async with house.as_owner("eve") as eve:

        async def once() -> None:
            nonlocal sent
            sent += 1
            await asked(eve, "POST", "/v1/preview", {"when": rare(-sent), "n": 100})

        await over_and_over(until, 64, once)
    return tried(f"{sent} of them, 64 at once, 100 fires asked for", eve.came)


@attack("the calendar feed of 10,000 alarms", stage=13)
async def calendar(house: House, until: float) -> Tried:
    end, made = time.monotonic() + 60, 0
    async with house.as_owner("diary") as diary:
        while made < DIARY and time.monotonic() < end:
            due = iso(time.time() + 86400)
            alarms = [{"wake_message": "tea " * 40, "fire_at": due} for _ in range(1000)]
            reply = await asked(diary, "POST", "/v1/alarms/batch", {"alarms": alarms})
            made += reply.json["created"] if reply.status == 200 else 0
        filled = Counter(diary.came)
        until = max(until, time.monotonic() + 4)  # setting them took its time
        feed = await diary("GET", "/v1/calendar.ics")
        number = await over_and_over(until, 16, lambda: asked(diary, "GET", "/v1/calendar.ics"))
    what = f"{made} alarms, their feed {number + 1} times, 16 at once"
    wrong = unless(made, "no alarm could be set"), unless(feed.status == 200, f"the feed answered {feed.status}")
    return tried(what, diary.came - filled, *wrong)


async def _token_of_a_wake(house: House) -> str:
    async with house.as_owner("sleeper") as sleeper:
        await sleeper("POST", "/v1/alarms", {"wake_message": "x", "delay_seconds": 0.1})
        reply = await sleeper("POST", "/v1/inbox?wait=10")
    wakes = reply.json["wakes"] if reply.status == 200 else []
    return str(wakes[0]["token"]) if wakes else ""


@attack("the token of a wake that sets, previews and lists", stage=13)
async def wake_token(house: House, until: float) -> Tried:
    token, sent = await _token_of_a_wake(house), 0
    async with house.anyone({"authorization": f"Bearer {token}"}) as woken:

        async def once() -> None:
            nonlocal sent
            some = range(sent * 200, sent * 200 + 200)
            sent += 1
            alarms = [{"wake_message": "m", "when": rare(number)} for number in some]
            await asked(woken, "POST", "/v1/alarms/batch", {"alarms": alarms})
            await asked(woken, "POST", "/v1/preview", {"when": rare(-sent), "n": 100})
            await asked(woken, "GET", "/v1/alarms?limit=500&q=there-is-no-such-word")

        taken = await woken("POST", "/v1/inbox")  # not meant for it
        await over_and_over(until, 4, once)
    what = f"{sent} batches of 200 rare rules, a preview and a search with each, 4 at once"
    return tried(what, woken.came, unless(token, "no wake came"), unless(taken.status in (401, 403), f"{taken.status}"))
