"""Turn a request into an alarm, or raise an error that names the field. Pure: nothing is written here."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.alarm.model import DEFAULT_POLICY, INBOX, Alarm, Kind, Policy
from wakeful.alarm.plan import at_occurrence, following
from wakeful.errors import InvalidRequest, InvalidSchedule
from wakeful.moments import whole_ms
from wakeful.schedule import is_interval, parse, schedule, zone

MESSAGE_LIMIT: Final = 32 * 1024
PAYLOAD_LIMIT: Final = 128 * 1024
TEXT_LIMIT: Final = 1024
FAILURES_LIMIT: Final = 1000
LONGEST_WAIT: Final = timedelta(days=36_525)
_ALMOST_MS: Final = timedelta(microseconds=999)
_NO_WAIT: Final = timedelta(0)
_NAMES: Final = (
    "owner_did",
    "label",
    "conversation_id",
    "target",
    "idempotency_key",
    "created_by",
    "created_via",
    "parent_fire",
    "root_id",
)
# Beside time, payload and policy. Who asked, through which door and because of which wake is not part of a request.
_ASKED: Final = ("wake_message", "target", "label", "conversation_id", "isolated", "max_failures")
_DID: Final = re.compile(r"did:matrix:([^:]+):[0-9a-fA-F]{16}")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ESCAPED_NUL: Final = re.compile(r"(?<!\\)(\\\\)*\\u0000")


class Draft(Struct, frozen=True, kw_only=True):
    """A requested alarm. Exactly one of when, fire_at, delay and cron_expr gives the time."""

    owner_did: str
    wake_message: str
    when: str = ""
    fire_at: datetime | None = None
    delay: timedelta | None = None
    cron_expr: str = ""
    timezone: str = "UTC"
    label: str = ""
    conversation_id: str = ""
    payload: str = "{}"
    target: str = INBOX
    isolated: bool = False
    idempotency_key: str = ""
    max_failures: int = 5
    policy: Policy = DEFAULT_POLICY
    created_by: str = ""
    created_via: str = ""
    parent_fire: str = ""
    root_id: str = ""
    generation: int = 0


class Timing(Struct, frozen=True):
    """A parsed time: one moment or a cron expression, in a time zone."""

    kind: Kind
    fire_at: datetime | None
    cron_expr: str
    timezone: str


_names: Final = attrgetter(*_NAMES)


def create(draft: Draft, *, id: str, now: datetime) -> Alarm:
    """Create the alarm that a draft describes, waiting for its first occurrence."""
    now = whole_ms(now)
    draft = _trimmed(draft)
    check(draft)
    timing = understand(draft, now=now)
    # The first occurrence of a series is found by `planned`.
    return planned(drafted(draft, timing, id=id, now=now, first=timing.fire_at or now), now=now)


def _trimmed(draft: Draft) -> Draft:
    """Strip the key, so that it compares equal whichever interface it came through."""
    key = draft.idempotency_key.strip()
    return draft if key == draft.idempotency_key else replace(draft, idempotency_key=key)


def differences(draft: Draft, asked: Alarm, known: Alarm) -> list[str]:
    """List the fields in which a request differs from the alarm that has its key; empty if it is the same request.

    `asked` is the alarm the draft would make now. A time that counts from now is compared as it was understood when the
    known alarm was made: "in 5 minutes" is the same request a minute later.
    """
    found = [] if _same_time(draft, asked, known) else ["when"]
    found += [name for name in _ASKED if getattr(asked, name) != getattr(known, name)]
    if not _same_json(asked.payload, known.payload):
        found.append("payload")
    if replace(asked.policy, anchor=None) != replace(known.policy, anchor=None):
        found.append("policy")
    return found


def _same_time(draft: Draft, asked: Alarm, known: Alarm) -> bool:
    if asked.kind != known.kind:
        return False
    if asked.kind == "cron":
        return (asked.cron_expr.split(), asked.timezone) == (known.cron_expr.split(), known.timezone)
    if asked.fire_at == known.fire_at:
        return True
    try:
        then = understand(draft, now=known.created_at).fire_at
    except InvalidSchedule:  # it made no sense at that time
        return False
    # Changed since, or put in the place of an older one: when its time was understood is not on record any more.
    return then == known.fire_at or (then != asked.fire_at and known.version > 1)


def _same_json(one: str, other: str) -> bool:
    return one == other or _canonical(one) == _canonical(other)


def _canonical(payload: str) -> bytes | str:
    """Return JSON with sorted keys and no spaces: 1, 1.0 and true stay different, unlike in Python."""
    try:
        return msgspec.json.encode(msgspec.json.decode(payload), order="sorted")
    except (ValueError, OverflowError, RecursionError):  # it can be kept, but not be written again
        return payload


def drafted(draft: Draft, timing: Timing, *, id: str, now: datetime, first: datetime) -> Alarm:
    """Build the alarm of a checked draft, due at a moment."""
    return Alarm(
        id=id,
        owner_did=draft.owner_did,
        user_id=user_of(draft.owner_did),
        kind=timing.kind,
        fire_at=timing.fire_at,
        cron_expr=timing.cron_expr,
        timezone=timing.timezone,
        next_fire_at=first,
        occurrence_at=first,
        created_at=now,
        updated_at=now,
        label=draft.label,
        conversation_id=draft.conversation_id,
        wake_message=draft.wake_message,
        payload=draft.payload,
        max_failures=draft.max_failures,
        target=draft.target,
        isolated=draft.isolated,
        policy=draft.policy,
        idempotency_key=draft.idempotency_key,
        created_by=draft.created_by,
        created_via=draft.created_via,
        parent_fire=draft.parent_fire,
        root_id=draft.root_id,
        generation=draft.generation,
    )


def planned(alarm: Alarm, *, now: datetime) -> Alarm:
    """Return the alarm at its first occurrence after now."""
    if alarm.kind == "once":
        assert alarm.fire_at is not None
        return at_occurrence(alarm, alarm.fire_at)
    if is_interval(alarm.cron_expr) and alarm.policy.anchor is None:
        anchor = max(now, alarm.policy.starts_at or now)
        alarm = replace(alarm, policy=replace(alarm.policy, anchor=anchor))
    first = following(alarm, now)
    if first is None:
        raise InvalidSchedule(
            f"{alarm.cron_expr!r} has no fire after {now.isoformat()} within its bounds",
            field="cron_expr",
            fix="Give an expression that fires, or a wider range of starts_at, ends_at and max_fires.",
        )
    return at_occurrence(alarm, first)


def understand(draft: Draft, *, now: datetime) -> Timing:
    """Parse the time of a draft, which must be given in exactly one way."""
    if bool(draft.when) + bool(draft.cron_expr) + (draft.fire_at is not None) + (draft.delay is not None) != 1:
        given = [name for name in ("when", "fire_at", "delay", "cron_expr") if getattr(draft, name) not in (None, "")]
        what = "no time was given" if not given else f"{' and '.join(given)} were all given"
        raise InvalidSchedule(what, field="when", fix="Give exactly one of when, fire_at, delay and cron_expr.")
    if draft.when:
        understood = parse(draft.when, timezone=draft.timezone, now=now)
        at = None if understood.fire_at is None else _future(understood.fire_at, "when", now)
        return Timing("cron" if at is None else "once", at, understood.cron_expr, understood.timezone)
    zone(draft.timezone)
    if draft.cron_expr:
        schedule(draft.cron_expr, draft.timezone, anchor=now)
        return Timing("cron", None, draft.cron_expr, draft.timezone)
    return Timing("once", _moment(draft, now), "", draft.timezone)


def _moment(draft: Draft, now: datetime) -> datetime:
    if draft.delay is not None:
        if not _NO_WAIT < draft.delay <= LONGEST_WAIT:
            raise InvalidSchedule(
                f"{draft.delay} is not a delay", field="delay", fix="Give more than 0 seconds and less than 100 years."
            )
        return _up_to_ms(now + draft.delay)
    assert draft.fire_at is not None
    return _future(draft.fire_at, "fire_at", now)


def _future(moment: datetime, field: str, now: datetime) -> datetime:
    if moment.tzinfo is None:
        raise InvalidSchedule(f"{moment.isoformat()} has no UTC offset", field=field, fix="Add one, or Z for UTC.")
    if moment <= now:
        raise InvalidSchedule(
            f"{moment.isoformat()} is not in the future; it is {now.isoformat()} now",
            field=field,
            fix="Give a later moment.",
        )
    if moment - now > LONGEST_WAIT:
        raise InvalidSchedule(
            f"{moment.isoformat()} is more than 100 years away", field=field, fix="Give an earlier moment."
        )
    return _up_to_ms(moment)


def _up_to_ms(moment: datetime) -> datetime:
    """Round up to whole milliseconds: an alarm is never early."""
    return whole_ms(moment + _ALMOST_MS)


def check(draft: Draft) -> None:
    """Check everything in a draft except its time."""
    check_texts(draft)
    check_payload(draft.payload)
    check_policy(draft.policy)
    if not 0 <= draft.max_failures <= FAILURES_LIMIT:
        raise InvalidRequest(
            f"{draft.max_failures} is not a number of retries",
            field="max_failures",
            fix=f"Give a number from 0 to {FAILURES_LIMIT}.",
        )


def check_texts(draft: Draft) -> None:
    if not draft.wake_message.strip():
        raise InvalidRequest("it is empty", field="wake_message", fix="Say what the wake should tell its reader.")
    check_text("wake_message", draft.wake_message, MESSAGE_LIMIT)
    if not draft.owner_did.strip():
        raise InvalidRequest("it is empty", field="owner_did", fix="Name the owner of the alarm.")
    together = "".join(_names(draft))
    if len(together) <= TEXT_LIMIT and together.isascii() and "\x00" not in together:
        return  # nearly always: all of them at one look
    for name in _NAMES:
        check_text(name, getattr(draft, name), TEXT_LIMIT)


def check_text(field: str, text: str, limit: int) -> None:
    """Check that both stores can hold a text: UTF-8 without NUL, within its limit."""
    if "\x00" in text:
        raise InvalidRequest("it holds a NUL character", field=field, fix="Remove it.")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidRequest(
            "it holds a lone surrogate, which is not a character", field=field, fix="Send valid Unicode."
        ) from None
    if size > limit:
        raise InvalidRequest(f"it is {size} bytes long", field=field, fix=f"At most {limit} bytes are accepted.")


def check_payload(payload: str) -> None:
    check_text("payload", payload, PAYLOAD_LIMIT)
    try:
        msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(f"it is not JSON ({error})", field="payload", fix="Send any JSON value.") from None
    if _ESCAPED_NUL.search(payload):
        raise InvalidRequest("it holds an escaped NUL character", field="payload", fix="Remove it.")


def check_policy(policy: Policy) -> None:
    if policy is DEFAULT_POLICY:
        return
    for name in ("backoff_base", "backoff_cap", "grace", "jitter", "expires", "report_within"):
        value = getattr(policy, name)
        least = 0.001 if name in ("expires", "report_within") else 0
        if value is not None and not least <= value <= LONGEST_WAIT.total_seconds():
            raise InvalidRequest(
                f"{value} is not a valid length of time",
                field=f"policy.{name}",
                fix=f"Give seconds from {least} up to 100 years.",
            )
    for name in ("max_fires", "auto_pause_after"):
        value = getattr(policy, name)
        if value is not None and value < 1:
            raise InvalidRequest(
                f"{value} is too small", field=f"policy.{name}", fix="Give 1 or more, or leave it out."
            )
    for name in ("starts_at", "ends_at", "anchor"):
        _check_bound(f"policy.{name}", getattr(policy, name))


def _check_bound(field: str, moment: datetime | None) -> None:
    if moment is None:
        return
    if moment.tzinfo is None:
        raise InvalidRequest("it has no UTC offset", field=field, fix="Add one, or Z for UTC.")
    if moment.year in (1, 9999):  # beyond its ends the calendar cannot be asked
        raise InvalidRequest(f"the year {moment.year} is too far", field=field, fix="Leave it out.")


def user_of(owner_did: str) -> str:
    """The user behind an owner: a matrix DID's label (a UUID in lower case), else the name itself."""
    found = _DID.fullmatch(owner_did) if owner_did.startswith("did:") else None
    if found is None:
        return owner_did
    return found[1].lower() if _UUID.fullmatch(found[1]) else found[1]
