"""A process of some version of wakeful: it dispatches, and does what it is told, line by line.

It uses only what every version since 33591f3 has.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import wakeful


async def work(clock: Any, name: str, **more: str) -> dict[str, str]:
    """Set, read, change and deliver; the ids of the alarms, by what becomes of them."""
    soon = await clock.set("in 1 second", f"{name}: soon", target="ops", key=name, **more)
    wall = await clock.set("2035-07-01 at 9am", f"{name}: wall", timezone="Europe/Berlin", target="ops", **more)
    series = await clock.set("every day at 9am", f"{name}: series", timezone="Europe/Berlin", target="ops", **more)
    gone = await clock.set("2035-07-01T09:00:00Z", f"{name}: gone", target="ops", **more)
    assert (await clock.set("in 1 second", f"{name}: soon", target="ops", key=name, **more)).id == soon.id
    await clock.update(wall.id, label=name)
    await clock.pause(series.id)
    await clock.resume(series.id)
    await clock.cancel(gone.id)
    async with asyncio.timeout(60):
        while True:
            if (await clock.get(soon.id)).status == "fired":
                break
            await asyncio.sleep(0.05)
    [fire] = await clock.fires(soon.id)
    assert fire.status == "completed", fire
    return {"soon": soon.id, "wall": wall.id, "series": series.id, "gone": gone.id}


async def state(clock: Any, *ids: str) -> dict[str, list[str]]:
    """The alarms as this version sees them."""
    found = [await clock.get(id) for id in ids]
    return {
        alarm.id: [alarm.status, alarm.wake_message, alarm.label, alarm.wall_time, getattr(alarm, "colour", "")]
        for alarm in found
    }


async def relabel(clock: Any, id: str, label: str) -> str:
    await clock.update(id, label=label)
    return str((await clock.get(id)).label)


VERBS: dict[str, Callable[..., Awaitable[Any]]] = {"work": work, "state": state, "relabel": relabel}


async def main(db: str, **settings: Any) -> None:
    async with wakeful.open(db, owner="ada", **settings) as clock:

        @clock.handler("ops")
        async def ops(wake: wakeful.Wake) -> str:
            return wake.message

        running = asyncio.create_task(clock.run())
        print(json.dumps(wakeful.__file__), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            name, positional, named = json.loads(line)
            print(json.dumps(await VERBS[name](clock, *positional, **named)), flush=True)
        running.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], **json.loads(sys.argv[2])))
