"""Which alarm is meant: by its id, by the beginning of its id where only one begins so, or by its key."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from wakeful.alarm import Alarm
from wakeful.errors import Conflict, NotFound
from wakeful.store import Store

SHORTEST: Final = 4  # signs of an id that are enough, where only one alarm has them
NAMED: Final = 5  # candidates that are shown
_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_BEGINNING: Final = re.compile(r"[0-9a-f\-]{4,36}")


async def resolve(store: Store, text: str, *, owner: str, reaches: Callable[[Alarm], bool] = lambda _: True) -> Alarm:
    """The alarm that is meant; NotFound, or Conflict with the candidates. A whole id costs one read, as ever.

    `reaches`: which alarms of the owner may be found.
    """
    if is_id(text):
        alarm = await store.get(text, owner=owner)
        found = [alarm] if alarm is not None else []
    else:
        both = await store.named(owner, [text], between=_range(text.lower()), limit=NAMED + 1)
        found = list({alarm.id: alarm for alarm in both}.values())  # one may be found by its id and by its key
    found = [alarm for alarm in found if reaches(alarm)]
    if not found:
        raise NotFound(f"there is no alarm {text!r}", field="id")
    if len(found) > 1:
        named = ", ".join(f"{alarm.id} ({alarm.label or alarm.wake_message[:30]})" for alarm in found[:NAMED])
        more = " and more" if len(found) > NAMED else ""
        raise Conflict(f"{text!r} may be any of {named}{more}", field="id", fix="Give more of the id.")
    return found[0]


def is_id(text: str) -> bool:
    return len(text) == 36 and _ID.fullmatch(text) is not None


def _range(beginning: str) -> tuple[str, str] | None:
    """The first and the last id that begin so; None where no id does."""
    if len(beginning) < SHORTEST or not _BEGINNING.fullmatch(beginning):
        return None
    low = beginning + "00000000-0000-0000-0000-000000000000"[len(beginning) :]
    return (low, beginning + "ffffffff-ffff-ffff-ffff-ffffffffffff"[len(beginning) :]) if _ID.fullmatch(low) else None
