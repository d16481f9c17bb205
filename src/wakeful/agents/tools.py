"""Tools for a model in this process: plain functions, which agent frameworks take as they are. No server is needed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Final

from wakeful.errors import WakefulError
from wakeful.model.alarm import INBOX, Alarm
from wakeful.model.requests import CreateRequest
from wakeful.process.application import Wakeful
from wakeful.python.sync import SyncWakeful

LISTED: Final = 20
SHOWN: Final = 200  # characters of a message in a list
Tool = Callable[..., Any]


def tools(
    alarms: Wakeful | SyncWakeful, *, conversation_id: str = "", target: str = INBOX, parent_fire: str = ""
) -> list[Tool]:
    """The functions `alarm_set`, `alarm_list`, `alarm_move` and `alarm_cancel`, for the tools of an agent.

    >>> tools = wakeful.agents.tools(alarms, conversation_id="s-1")

    The host says here where wakes go and which conversation they belong to; the model is not asked. In the turn of a
    wake give its `fire_id` as `parent_fire`. Functions of `wakeful.open_sync` are plain, others async. They answer in
    words; what is refused is an answer too, with what to do instead.
    """
    plain = isinstance(alarms, SyncWakeful)
    bound = _Tools(
        alarms.asynchronous if isinstance(alarms, SyncWakeful) else alarms, conversation_id, target, parent_fire
    )
    made: list[Tool] = [bound.alarm_set, bound.alarm_list, bound.alarm_move, bound.alarm_cancel]
    return [_waited(alarms, tool) for tool in made] if plain else made


def _waited(alarms: Any, tool: Callable[..., Awaitable[str]]) -> Tool:
    @wraps(tool)
    def call(*args: Any, **kwargs: Any) -> str:
        said: str = alarms.wait(tool(*args, **kwargs))
        return said

    return call


class _Tools:
    """What one conversation may do with its alarms. The docstrings are what the model reads."""

    def __init__(self, alarms: Wakeful, conversation_id: str, target: str, parent_fire: str) -> None:
        self._alarms = alarms
        self._conversation_id = conversation_id
        self._target = target
        self._parent_fire = parent_fire

    async def alarm_set(self, when: str, wake_message: str, key: str = "", timezone: str = "") -> str:
        """Set an alarm that wakes you later, once or again and again: a reminder, a follow-up, a recurring job.

        Args:
            when: The time in words, ISO or cron: "in 20 minutes", "tomorrow at 9am", "every weekday at 9am".
            wake_message: What to do then. You are woken with these words, in this conversation.
            key: A name for the alarm. Repeating a call with the same key is safe.
            timezone: The IANA zone of the time, such as Europe/Berlin.
        """
        request = CreateRequest(
            when=when,
            wake_message=wake_message,
            idempotency_key=key,
            timezone=timezone,
            target=self._target,
            conversation_id=self._conversation_id,
            parent_fire=self._parent_fire,
        )
        try:
            created = await self._alarms.create(request)
        except WakefulError as error:
            return f"Nothing was set: {error}"
        return await self._said("It exists already" if created.deduped else "Set", created.alarm, created.notes)

    async def alarm_list(self) -> str:
        """List the alarms of this conversation that are still to come: id, time and message of each."""
        found = await self._alarms.find(
            status=("active", "paused"), conversation_id=self._conversation_id, limit=LISTED
        )
        lines = [f"{_name(alarm)}: {_next(alarm)}: {alarm.wake_message[:SHOWN]}" for alarm in found]
        return "\n".join(lines) or "There is no alarm."

    async def alarm_move(self, id: str, when: str) -> str:
        """Give an alarm another time.

        Args:
            id: Its id or key.
            when: The new time, as for alarm_set.
        """
        try:
            changed = await self._alarms.update(id, when=when)
        except WakefulError as error:
            return f"Nothing was changed: {error}"
        return await self._said("Moved", changed.alarm, changed.notes)

    async def alarm_cancel(self, id: str) -> str:
        """Cancel an alarm.

        Args:
            id: Its id or key.
        """
        try:
            changed = await self._alarms.cancel(id)
        except WakefulError as error:
            return f"Nothing was cancelled: {error}"
        return f"Cancelled: {_name(changed.alarm)}."

    async def _said(self, what: str, alarm: Alarm, notes: list[str]) -> str:
        now = (await self._alarms.now()).isoformat(timespec="seconds")
        return " ".join([f"{what}: {_name(alarm)}, {_next(alarm)}. It is {now} now.", *notes])


def _name(alarm: Alarm) -> str:
    return alarm.idempotency_key or alarm.id


def _next(alarm: Alarm) -> str:
    if alarm.status != "active":
        return alarm.status
    again = f", then {alarm.cron_expr}" if alarm.kind == "cron" else ""
    return f"next at {alarm.next_fire_at.isoformat(timespec='seconds')}{again}"
