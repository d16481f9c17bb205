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


async def work(alarms: Any, name: str, **more: str) -> dict[str, str]:
    """Set, read, change and deliver; the ids of the alarms, by what becomes of them."""
    soon = await alarms.set("in 1 second", f"{name}: soon", target="ops", key=name, **more)
    wall = await alarms.set("2035-07-01 at 9am", f"{name}: wall", timezone="Europe/Berlin", target="ops", **more)
    series = await alarms.set("every day at 9am", f"{name}: series", timezone="Europe/Berlin", target="ops", **more)
    gone = await alarms.set("2035-07-01T09:00:00Z", f"{name}: gone", target="ops", **more)
    assert (await alarms.set("in 1 second", f"{name}: soon", target="ops", key=name, **more)).id == soon.id
    await alarms.update(wall.id, label=name)
    await alarms.pause(series.id)
    await alarms.resume(series.id)
    await alarms.cancel(gone.id)
    async with asyncio.timeout(60):
        while True:
            if (await alarms.get(soon.id)).status == "fired":
                break
            await asyncio.sleep(0.05)
    [fire] = await alarms.fires(soon.id)
    assert fire.status == "completed", fire
    return {"soon": soon.id, "wall": wall.id, "series": series.id, "gone": gone.id}


async def state(alarms: Any, *ids: str) -> dict[str, list[str]]:
    """The alarms as this version sees them."""
    found = [await alarms.get(id) for id in ids]
    return {
        alarm.id: [alarm.status, alarm.wake_message, alarm.label, alarm.wall_time, getattr(alarm, "colour", "")]
        for alarm in found
    }


async def relabel(alarms: Any, id: str, label: str) -> str:
    await alarms.update(id, label=label)
    return str((await alarms.get(id)).label)


VERBS: dict[str, Callable[..., Awaitable[Any]]] = {"work": work, "state": state, "relabel": relabel}


async def main(db: str, **settings: Any) -> None:
    async with wakeful.open(db, owner="ada", **settings) as alarms:

        @alarms.handler("ops")
        async def ops(wake: wakeful.Wake) -> str:
            return wake.message

        running = asyncio.create_task(alarms.run())
        print(json.dumps(wakeful.__file__), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            name, positional, named = json.loads(line)
            print(json.dumps(await VERBS[name](alarms, *positional, **named)), flush=True)
        running.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], **json.loads(sys.argv[2])))
