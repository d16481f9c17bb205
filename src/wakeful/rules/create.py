"""Turn a request into an alarm, or raise an error that names the field. Pure: nothing is written here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from datetime import time as clock_time
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec.structs import asdict, fields, replace

from wakeful.errors import InvalidRequest, InvalidSchedule
from wakeful.model.alarm import DEFAULT_POLICY, NEW_POLICY, WAKEFULS_OWN, Alarm, Policy
from wakeful.model.requests import BOUNDS, NO_BOUNDS, GivenTime, Origin, SaidBounds, Timing, Wanted
from wakeful.moments import whole_ms
from wakeful.rules.plan import at_occurrence, following
from wakeful.rules.signals import check_rearm, check_signals
from wakeful.schedule import (
    Understood,
    anchor_now,
    counts_from_start,
    describe,
    is_rule,
    parse,
    schedule,
    split_zone,
    zone,
    zone_in_its_case,
)
from wakeful.schedule.descriptions import end_words, start_words
from wakeful.schedule.zones import by_zone_rules


def bounded(policy: Policy, said: SaidBounds, given: Mapping[str, Any], *, fired: int = 0) -> Policy:
    """The policy with the bounds of the phrase. `given`: what the same request says of the policy in its own fields.

    `fired`: how often the series has fired before it got this phrase, whose "10 times" are ten more.
    """
    if said == NO_BOUNDS:
        return policy
    found = {name: value for name, value in asdict(said).items() if value is not None}
    for name, value in found.items():
        explicit = given.get(name)
        if explicit is not None and explicit != value:
            raise InvalidRequest(
                f"it says {_shown(explicit)}, and the phrase in `when` says {_shown(value)}",
                field=f"policy.{name}",
                fix="Say it in one of the two only.",
            )
    if said.max_fires is not None and given.get("max_fires") is None:
        found["max_fires"] = said.max_fires + fired
    return replace(policy, **found)


def _shown(value: datetime | int) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def bounds_in_words(alarm: Alarm) -> dict[str, str]:
    """The bounds of a series by their names in a policy, each as what the series does."""
    policy, found = alarm.policy, {}
    if policy.starts_at is not None:
        found["starts_at"] = f"starts on {start_words(policy.starts_at, alarm.timezone)}"
    if policy.ends_at is not None:
        found["ends_at"] = f"ends on {end_words(policy.ends_at, alarm.timezone)}"
    if policy.max_fires is not None:
        found["max_fires"] = f"fires {policy.max_fires} time{'s' if policy.max_fires > 1 else ''} at most"
    return found


def series_words(alarm: Alarm) -> str:
    """When a series fires, in words, with the bounds of its policy."""
    policy = alarm.policy
    return describe(
        alarm.cron_expr,
        alarm.timezone,
        starts_at=policy.starts_at,
        ends_at=policy.ends_at,
        max_fires=policy.max_fires,
    )


# Building an alarm.

MESSAGE_LIMIT: Final = 32 * 1024
PAYLOAD_LIMIT: Final = 128 * 1024
TEXT_LIMIT: Final = 1024
FAILURES_LIMIT: Final = 1000
LONGEST_WAIT: Final = timedelta(days=36_525)
_ALMOST_MS: Final = timedelta(microseconds=999)
_NO_WAIT: Final = timedelta(0)
_TIMES: Final = {
    "when": "when",
    "fire_at": "fire_at",
    "delay": "delay_seconds",
    "cron_expr": "cron_expr",
}  # as asked for
# Texts of an alarm that have a limit of their own, or are not their caller's.
_OTHER_TEXTS: Final = frozenset(
    {"id", "user_id", "cron_expr", "timezone", "wake_message", "payload_json", "last_error", "paused_reason"}
)
_NAMES: Final = tuple(field.name for field in fields(Alarm) if field.type is str and field.name not in _OTHER_TEXTS)
# Compared on their own, or what they are found by.
_NOT_COMPARED: Final = frozenset({"payload_json", "policy", "idempotency_key"})
_POLICY: Final = {field.name: field.type for field in fields(Policy)}
_OPTIONAL_LENGTHS: Final = tuple(name for name, kind in _POLICY.items() if kind == float | None)  # nothing, or more
POLICY_LENGTHS: Final = tuple(name for name, kind in _POLICY.items() if kind is float or name in _OPTIONAL_LENGTHS)
POLICY_MOMENTS: Final = tuple(name for name, kind in _POLICY.items() if kind == datetime | None)
POLICY_COUNTS: Final = tuple(name for name, kind in _POLICY.items() if kind == int | None)
_DID: Final = re.compile(r"did:matrix:([^:]+):[0-9a-fA-F]{16}")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ESCAPED_NUL: Final = re.compile(r"(?<!\\)(\\\\)*\\u0000")


_names: Final = attrgetter(*_NAMES)


def create(wanted: Wanted, origin: Origin, *, id: str, now: datetime) -> Alarm:
    """The alarm that is wanted, waiting for its first occurrence."""
    now = whole_ms(now)
    timing = understand(wanted.time, now=now, date_order=wanted.date_order, bare_day=wanted.bare_day)
    alarm = Alarm(
        id=id,
        owner_did=origin.owner_did,
        user_id=user_of(origin.owner_did),
        created_by=origin.created_by,
        created_via=origin.created_via,
        root_id=origin.root_id,
        generation=origin.generation,
        next_fire_at=timing.fire_at or now,
        occurrence_at=timing.fire_at or now,
        created_at=now,
        updated_at=now,
        kind=timing.kind,
        fire_at=timing.fire_at,
        cron_expr=timing.cron_expr,
        timezone=timing.timezone,
        wall_time=timing.wall_time,
        **wanted.fields,
    )
    if timing.bounds != NO_BOUNDS:
        alarm = replace(alarm, policy=_bounded(alarm.policy, timing))
    check(alarm)
    check_rearm(alarm)
    if timing.fire_at is not None and not alarm.policy.jitter:
        return alarm  # it waits for its occurrence as it is
    return planned(alarm, now=now, field="when" if wanted.time.when else "cron_expr")


def _bounded(policy: Policy, timing: Timing) -> Policy:
    """The policy of a new alarm, whose bounds were all given by its request."""
    return bounded(policy, timing.bounds, {name: getattr(policy, name) for name in BOUNDS})


def differences(wanted: Wanted, asked: Alarm, known: Alarm) -> list[str]:
    """List the fields in which a request differs from the alarm that has its key; empty if it is the same request.

    `asked` is the alarm the request would make now. A time that counts from now is compared as it was understood when
    the known alarm was made: "in 5 minutes" is the same request a minute later.
    """
    found = [] if _same_time(wanted, asked, known) else ["when"]
    compared = (name for name in wanted.fields if name not in _NOT_COMPARED)
    found += [name for name in compared if getattr(asked, name) != getattr(known, name)]
    if not _same_json(asked.payload_json, known.payload_json):
        found.append("payload")
    if not _same_policy(wanted, asked, known):
        found.append("policy")
    return found


def _same_policy(wanted: Wanted, asked: Alarm, known: Alarm) -> bool:
    said = wanted.fields.get("policy", DEFAULT_POLICY)
    if _is_alike(said, asked.policy, known.policy):
        return True
    # "For the next six weeks" is the same request a minute later.
    then = _at_that_time(wanted, known)
    return then is not None and _is_alike(said, _bounded(said, then), known.policy)


def _is_alike(said: Policy, asked: Policy, known: Policy) -> bool:
    """Compare what somebody said; what wakeful itself put in counts from when that was."""
    if asked.renew_for is not None and known.renew_for is not None:
        asked = replace(asked, ends_at=said.ends_at)
        known = replace(known, ends_at=said.ends_at)
    wakefuls_own = dict.fromkeys(WAKEFULS_OWN)
    if known.on_silence is None:  # stored before there was this field: the same request does not differ in it
        wakefuls_own["on_silence"] = None
    return replace(asked, **wakefuls_own) == replace(known, **wakefuls_own)


def _at_that_time(wanted: Wanted, known: Alarm) -> Timing | None:
    """The time as it was understood when the known alarm was made; None if it made no sense then."""
    try:
        return understand(wanted.time, now=known.created_at, date_order=wanted.date_order, bare_day=wanted.bare_day)
    except InvalidSchedule:
        return None


def _same_time(wanted: Wanted, asked: Alarm, known: Alarm) -> bool:
    if asked.kind != known.kind:
        return False
    if asked.timezone != known.timezone:
        return False
    if asked.kind == "cron":
        if asked.cron_expr.split() == known.cron_expr.split():
            return True
        then = _at_that_time(wanted, known) if wanted.time.when else None  # "every day except tomorrow", said today
        return then is not None and then.cron_expr.split() == known.cron_expr.split()
    if asked.fire_at == known.fire_at:
        return True
    then = _at_that_time(wanted, known)
    if then is None:
        return False
    # Changed since, or put in the place of an older one: when its time was understood is not on record any more.
    return then.fire_at == known.fire_at or (then.fire_at != asked.fire_at and known.version > 1)


def _same_json(one: str, other: str) -> bool:
    return one == other or _canonical(one) == _canonical(other)


def _canonical(payload: str) -> bytes | str:
    """Return JSON with sorted keys and no spaces: 1, 1.0 and true stay different, unlike in Python."""
    try:
        return msgspec.json.encode(msgspec.json.decode(payload), order="sorted")
    except (ValueError, OverflowError, RecursionError):  # it can be kept, but not be written again
        return payload


def timed(alarm: Alarm, timing: Timing) -> Alarm:
    """With its time as it was understood."""
    return replace(
        alarm,
        kind=timing.kind,
        fire_at=timing.fire_at,
        cron_expr=timing.cron_expr,
        timezone=timing.timezone,
        wall_time=timing.wall_time,
    )


def planned(alarm: Alarm, *, now: datetime, field: str) -> Alarm:
    """Return the alarm at its first occurrence after now. `field`: which of a request's is wrong if there is none."""
    if alarm.kind == "once":
        assert alarm.fire_at is not None
        return at_occurrence(alarm, alarm.fire_at)
    if counts_from_start(alarm.cron_expr) and alarm.policy.anchor is None:
        # A start in the past counts as well: "every 3 days since Monday" keeps to Monday's days.
        anchor = alarm.policy.starts_at or anchor_now(alarm.cron_expr, alarm.timezone, now)
        alarm = replace(alarm, policy=replace(alarm.policy, anchor=anchor))
    first = following(alarm, now)
    if first is None:
        raise InvalidSchedule(
            f"{alarm.cron_expr!r} has no fire after {now.isoformat()} within its bounds",
            field=field,
            fix="Give an expression that fires, or a wider range of starts_at, ends_at and max_fires.",
        )
    return at_occurrence(alarm, first)


def understand(said: GivenTime, *, now: datetime, date_order: str = "", bare_day: clock_time = clock_time(9)) -> Timing:
    """What somebody says about time, with exactly one way of saying it, and of the kind they said."""
    timing = _understood(said, now=now, date_order=date_order, bare_day=bare_day)
    if said.kind not in ("", timing.kind):
        what = "one moment" if timing.kind == "once" else "a series"
        raise InvalidSchedule(
            f"the time that was given is {what}, and the kind is {said.kind!r}",
            field="kind",
            fix="Leave one of them out.",
        )
    return timing


def _understood(said: GivenTime, *, now: datetime, date_order: str, bare_day: clock_time) -> Timing:
    if bool(said.when) + bool(said.cron_expr) + (said.fire_at is not None) + (said.delay is not None) != 1:
        given = [name for field, name in _TIMES.items() if getattr(said, field) not in (None, "")]
        what = "no time was given" if not given else f"{' and '.join(given)} were all given"
        raise InvalidSchedule(what, field="when", fix="Give exactly one of when, fire_at, delay_seconds and cron_expr.")
    if said.when:
        understood = _phrase_at(said.when, said.timezone, now, date_order, bare_day)
        at = None if understood.fire_at is None else _future(understood.fire_at, "when", now)
        return Timing(
            "cron" if at is None else "once",
            at,
            understood.cron_expr,
            understood.timezone,
            SaidBounds(understood.starts_at, understood.ends_at, understood.max_fires),
            understood.wall_time,
        )
    zone(said.timezone)
    if said.cron_expr:
        schedule(said.cron_expr, said.timezone, anchor=now)
        if is_rule(said.cron_expr):  # in its one way of writing, and in the zone it names
            expr, name = split_zone(said.cron_expr, said.timezone)
            return Timing("cron", None, expr, zone(name).key)
        return Timing("cron", None, zone_in_its_case(said.cron_expr), said.timezone)
    return Timing("once", _moment(said, now), "", said.timezone)


@by_zone_rules(maxsize=256)
def _phrase_at(text: str, timezone: str, now: datetime, date_order: str, bare_day: clock_time) -> Understood:
    """What a text means at a moment: the alarms of one call are set at one, and many of them say the same."""
    return parse(text, timezone=timezone, now=now, default_time=bare_day, date_order=date_order)


def _moment(time: GivenTime, now: datetime) -> datetime:
    if time.delay is not None:
        if not _NO_WAIT < time.delay <= LONGEST_WAIT:
            raise InvalidSchedule(
                f"{time.delay} is not a wait",
                field="delay_seconds",
                fix="Give more than 0 seconds and less than 100 years.",
            )
        return _up_to_ms(now + time.delay)
    assert time.fire_at is not None
    return _future(time.fire_at, "fire_at", now)


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
    return whole_ms(moment + _ALMOST_MS if moment.microsecond % 1000 else moment)


def check(alarm: Alarm) -> None:
    """Everything about an alarm but its time."""
    check_texts(alarm)
    check_payload(alarm.payload_json)
    check_policy(alarm.policy)
    if not 0 <= alarm.max_failures <= FAILURES_LIMIT:
        raise InvalidRequest(
            f"{alarm.max_failures} retries are not possible",
            field="max_failures",
            fix=f"Give a number from 0 to {FAILURES_LIMIT}.",
        )


def check_texts(alarm: Alarm) -> None:
    if not alarm.wake_message.strip():
        raise InvalidRequest("it is empty", field="wake_message", fix="Say what the wake should tell its reader.")
    check_text("wake_message", alarm.wake_message, MESSAGE_LIMIT)
    if not alarm.owner_did.strip():
        raise InvalidRequest("it is empty", field="owner_did", fix="Name the owner of the alarm.")
    together = "".join(_names(alarm))
    if len(together) <= TEXT_LIMIT and together.isascii() and "\x00" not in together:
        return  # nearly always: all of them at one look
    for name in _NAMES:
        check_text(name, getattr(alarm, name), TEXT_LIMIT)


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
    if "\\u0000" in payload and _ESCAPED_NUL.search(payload):
        raise InvalidRequest("it holds an escaped NUL character", field="payload", fix="Remove it.")


def check_policy(policy: Policy) -> None:
    if policy is DEFAULT_POLICY or policy == NEW_POLICY:
        return  # nearly always: compared at once
    for name in POLICY_LENGTHS:
        value = getattr(policy, name)
        least = 0.001 if name in _OPTIONAL_LENGTHS else 0
        if value is not None and not least <= value <= LONGEST_WAIT.total_seconds():
            raise InvalidRequest(
                f"{value} is not a valid length of time",
                field=f"policy.{name}",
                fix=f"Give seconds from {least} up to 100 years.",
            )
    for name in POLICY_COUNTS:
        value = getattr(policy, name)
        if value is not None and value < 1:
            raise InvalidRequest(
                f"{value} is too small", field=f"policy.{name}", fix="Give 1 or more, or leave it out."
            )
    for name in POLICY_MOMENTS:
        _check_bound(f"policy.{name}", getattr(policy, name))
    check_signals(policy)


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
