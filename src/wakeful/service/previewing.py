"""What an edit would make of an alarm, without writing anything."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from wakeful.alarm import Alarm, update
from wakeful.alarm.request import EditRequest
from wakeful.cpu_time import in_thread
from wakeful.service.holidays import wanted_edit
from wakeful.service.notes import notes_on
from wakeful.service.verbs import Alarms

SHOWN = ("cron_expr", "timezone", "occurrence_at", "wake_message", "label", "target", "conversation_id", "payload_json")


class EditPreview(Struct, frozen=True):
    """The alarm as it is, and as it would be."""

    before: Alarm
    after: Alarm
    notes: list[str] = []

    @property
    def differences(self) -> Iterator[tuple[str, object, object]]:
        """Name, old and new of every field that a person would see change."""
        for name in SHOWN:
            old, new = getattr(self.before, name), getattr(self.after, name)
            if old != new:
                yield name, old, new


async def preview_edit(alarms: Alarms, id: str, asked: EditRequest, *, version: int | None = None) -> EditPreview:
    """Decide as `edit` does, and stop there. StaleVersion if the alarm has another version than the one given."""
    alarm = await alarms.get(id)
    wanted = await wanted_edit(alarms, id, asked)
    key = (alarm.id, alarm.occurrence_at)
    fire = (await alarms.service.store.fires_at([key])).get(key)
    now = await alarms.service.store.now()
    by = alarms.caller.name
    change = await in_thread(lambda: update(alarm, fire, wanted, now=now, version=version, by=by))
    return EditPreview(alarm, change.after, await notes_on(alarms.service, change.after, asked, alarm))
