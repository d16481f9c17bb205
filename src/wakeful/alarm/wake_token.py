"""The token of a wake: an agent that was woken sets alarms with it, and these join the chain of that wake. Pure.

It is the fire's id, signed with the key of report tokens. So it is the same on every attempt and is not stored. How
long it is valid is computed from the stored alarm and fire.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from datetime import datetime, timedelta
from typing import Final

from wakeful.alarm.model import Alarm, Fire, is_fire_id

# Like every token it begins with wk_, and has only signs that are taken out of logs together with that.
WAKE_PREFIX: Final = "wk_wake_"
_WAKE_TOKEN: Final = re.compile(WAKE_PREFIX + r"([A-Za-z0-9_-]{1,200})_([A-Za-z0-9_-]{43})")


def wake_token(secret: bytes, fire_id: str) -> str:
    """Return the token with which the receiver of one wake sets alarms for its owner."""
    made = hmac.new(secret, f"wake:{fire_id}".encode(), hashlib.sha256).digest()
    return f"{WAKE_PREFIX}{_text(fire_id.encode())}_{_text(made)}"


def fire_named(token: str) -> str:
    """Return the fire that a wake's token names, or nothing. Whether it is really that fire's is not looked at."""
    found = _WAKE_TOKEN.fullmatch(token)
    if found is None:
        return ""
    try:
        named = base64.urlsafe_b64decode(found[1] + "=" * (-len(found[1]) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return named if is_fire_id(named) and "\x00" not in named else ""


def is_wake_token_of(token: str, secret: bytes, fire_id: str) -> bool:
    return hmac.compare_digest(token.encode(), wake_token(secret, fire_id).encode())


def why_not_good(alarm: Alarm, fire: Fire | None, occurrence: datetime, *, lasts: timedelta, now: datetime) -> str:
    """Return why the token of a wake is not good any more; nothing if it is.

    It is good while the wake is on its way, and for a while from the last time it was handed to somebody.
    """
    if alarm.status == "cancelled":
        return "the alarm of its wake was cancelled"
    if alarm.claimed_at is not None and alarm.occurrence_at == occurrence:
        return ""
    if fire is None:
        return "its wake is not on record"
    return "" if now < _handed_out_at(fire) + lasts else "it has expired"


def begun_at(alarm: Alarm, fire: Fire | None) -> datetime:
    """When the wake of a token was first sent, or the latest moment at which that can have been."""
    if fire is None:
        return alarm.claimed_at or alarm.updated_at  # its first attempt is on its way
    return fire.started_at or fire.scheduled_for


def _handed_out_at(fire: Fire) -> datetime:
    known = [fire.delivered_at, fire.started_at, *(line.at for line in fire.log[-1:])]
    return max((at for at in known if at is not None), default=fire.scheduled_for)


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
