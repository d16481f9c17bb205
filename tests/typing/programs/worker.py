"""A worker: handlers, async and plain, one of which reports later."""

from __future__ import annotations

import asyncio
import sys

import wakeful


async def main(file: str) -> list[str]:
    told: list[str] = []
    async with wakeful.open(file, concurrency=8, tick="500ms") as alarms:

        @alarms.handler("portal")
        async def portal(wake: wakeful.Wake) -> dict[str, int]:
            return {"page": wake.payload["page"], "attempt": wake.attempt}

        @alarms.handler("backup", timeout=3600)
        def backup(wake: wakeful.Wake) -> None:
            if wake.attempt > 5:
                raise wakeful.Snooze("15m")
            told.append(wake.message)

        @alarms.handler("agent", reports=True)
        async def agent(wake: wakeful.Wake) -> None:
            accepted.put_nowait(wake.fire_id)

        alarms.declare("elsewhere")
        accepted: asyncio.Queue[str] = asyncio.Queue()
        page = await alarms.set(delay=0.01, wake_message="look", target="portal", payload={"page": 3})
        await alarms.set(delay="10ms", wake_message="copy", target="backup")
        await alarms.set(delay=0.01, wake_message="think", target="agent", policy={"report_within": "10m"})
        async with alarms.running():
            fire: wakeful.Fire = await alarms.completed(await accepted.get(), "thought")
            told.append(fire.result)
            while (await alarms.stats()).completed < 3:  # noqa: ASYNC110 - as a program would, not knowing our events
                await asyncio.sleep(0.05)
        told += [fire.result for fire in await alarms.fires(page.id)]
        direct: dict[str, int] | None = None if page.payload else await portal(wakeful.Wake(page))
        assert direct is None, "a decorated function is still itself"
    return sorted(told)


if __name__ == "__main__":
    sys.stdout.write(" ".join(asyncio.run(main(sys.argv[1]))) + "\n")
