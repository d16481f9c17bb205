"""A program elsewhere: the same verbs, asked of a server, and its inbox."""

from __future__ import annotations

import asyncio
import sys

import wakeful


async def brief(alarms: wakeful.Wakeful) -> str:
    """What takes a clock takes one on a server too."""
    coming = [f"{at:%H:%M} {alarm.wake_message}" for at, alarm in await alarms.agenda(hours=48)]
    waiting: list[wakeful.Pending] = await alarms.pending()
    return f"{len(coming)} in the next two days, {len(waiting)} in all"


async def main(url: str, token: str | None = None) -> list[str]:
    async with wakeful.open(url, token=token) as alarms:
        try:
            await alarms.set("soonish", "unclear")
        except wakeful.InvalidSchedule as error:
            field = error.field
        asked = wakeful.CreateRequest(wake_message="Check the grant portal", when="in 2 hours")
        created: wakeful.Created = await alarms.create(asked)
        await alarms.snooze(created.alarm.id, "3h")
        await alarms.set(delay=0.01, wake_message="now", conversation_id="c1")
        taken: list[wakeful.TakenWake] = await alarms.inbox(wait=60)
        for alarm, fire in taken:
            await alarms.report(fire.id, wakeful.ReportRequest(outcome="completed", result=alarm.wake_message))
        understood: wakeful.Understood = await alarms.parse("every weekday at 9am")
        return [field, await brief(alarms), understood.cron_expr, *(wake.alarm.conversation_id for wake in taken)]


if __name__ == "__main__":
    sys.stdout.write("\n".join(asyncio.run(main(*sys.argv[1:]))) + "\n")
