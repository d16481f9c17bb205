"""What a Python program gives in place of a request's fields: its own types, and its own names for them. Pure.

Nothing is guessed: what a value cannot mean is refused by the name of the argument that holds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, Final, TypeVar, get_args, get_type_hints

from wakeful.errors import InvalidRequest, InvalidSchedule, WakefulError, nearest
from wakeful.model.requests import CreateRequest, When
from wakeful.rules.wanted import json_of, policy_of

E = TypeVar("E", bound=WakefulError)
# Where an argument of `set` and `update` has another name than its field of a request.
FIELDS: Final = {"at": "fire_at", "delay": "delay_seconds", "cron": "cron_expr", "key": "idempotency_key"}
_ARGUMENTS: Final = {field: argument for argument, field in FIELDS.items()}
_TIMES: Final = ("when", "at", "delay", "cron")
_WORDS: Final = {str: "a text", bool: "True or False", int: "a whole number"}
# What these must be: the other fields have more than one type, and are read one by one.
_KINDS: Final = {
    name: plain
    for name, hint in get_type_hints(CreateRequest).items()
    for plain in _WORDS
    if name != "when" and {plain} == {one for one in get_args(hint) or (hint,) if one is not type(None)}
}
# Empty texts that say nothing: an alarm is the same without them.
_MAY_BE_EMPTY: Final = frozenset({"cron", "target", "timezone", "key", "label", "conversation_id", "parent_fire"})
_NONE: Final[frozenset[str]] = frozenset()
# What `set` says where its caller does not: with a key it is compared with what the alarm has.
_SET: Final[Mapping[str, Any]] = {
    _ARGUMENTS.get(field, field): kind()
    for field, kind in _KINDS.items()
    if kind in (str, bool) and field != "wake_message"
}


def set_arguments(when: Any, wake_message: Any, fields: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, str]]:
    """The arguments of `set` with what it says by itself; and for whom and through what it is set."""
    said = {"wake_message": wake_message, "when": when, **_SET, **fields}
    origin = said.pop("created_by", None) or "", said.pop("created_via", None) or ""
    if said.get("payload") is not None:
        said["payload"] = json_of(said["payload"])
    if said.get("policy") is not None:
        said["policy"] = policy_of(said["policy"])
    return said, origin


def request_fields(arguments: Mapping[str, Any], *, creates: bool = False) -> dict[str, Any]:
    """The fields of a request that these arguments give; None gives nothing, and of the times an empty text neither."""
    if creates:  # `update` leaves what is None as it is
        _check_given(arguments)
    _check_times([name for name in _TIMES if arguments.get(name) not in (None, "")], creates=creates)
    # With a key they count: what is said is compared with the alarm that has it. In an edit they empty a field.
    needless = _MAY_BE_EMPTY if creates and arguments["key"] == "" else _NONE
    given: dict[str, Any] = {}
    for name, value in arguments.items():
        if value is None or (value == "" and name in needless):
            continue
        field = FIELDS.get(name, name)
        if (kind := _KINDS.get(field)) is not None and type(value) is not kind:
            _check_kind(field, value, kind)
        given[field] = value
    if (when := given.pop("when", "")) != "":
        field, value = read_when(when)
        given[field] = value
    return given


def _check_times(named: list[str], *, creates: bool) -> None:
    if len(named) > 1 or (creates and not named):
        what = f"{' and '.join(named)} were all given" if named else "no time was given"
        raise InvalidSchedule(what, field="when", fix="Give exactly one of when, at, delay and cron.")


def _check_given(arguments: Mapping[str, Any]) -> None:
    if arguments["when"] is None:
        read_when(None)
    if arguments["wake_message"] is None:
        _check_kind("wake_message", None, str)


def _check_kind(name: str, value: Any, kind: type[Any]) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        argument, words = _ARGUMENTS.get(name, name), _WORDS[kind]
        raise InvalidRequest(f"{_shown(value)} is not {words}", field=argument, fix=f"Give {words}.")


def read_when(when: When | None) -> tuple[str, Any]:
    """The field of a request that says what `when` says, and what it says there.

    A datetime is that moment, a timedelta is from now on, and a time of day is the next one in the alarm's zone.
    """
    match when:
        case str():
            return "when", when
        case timedelta():
            return "delay_seconds", when
        case datetime():
            if when.tzinfo is None:
                raise InvalidSchedule(
                    f"{when!r} has no time zone", field="when", fix="Add one: tzinfo=ZoneInfo(…), or datetime.UTC."
                )
            return "fire_at", when
        case time():
            return "when", _time_of_day(when)
        case int() | float() if not isinstance(when, bool):
            return "when", str(when)
    what = f"{when} is a day without a time of day" if isinstance(when, date) else f"{_shown(when)} is not a time"
    raise InvalidSchedule(
        what,
        field="when",
        fix='Give a text ("tomorrow at 9am"), a datetime, a timedelta, a time of day, or unix seconds.',
    )


def _time_of_day(when: time) -> str:
    if when.tzinfo is not None:
        raise InvalidSchedule(
            f"{when!r} has a time zone of its own", field="when", fix="Leave it out, and give the zone as timezone."
        )
    return f"at {when.isoformat()}"


def accepted(argument: str, given: str | Iterable[str] | None, known: Sequence[str]) -> tuple[str, ...]:
    """The words of a filter, each one of those that are known; none of them means all."""
    words = () if not given else (given,) if isinstance(given, str) else tuple(given)
    for word in words:
        if word not in known:
            meant = nearest(word, known) if isinstance(word, str) else ""
            fix = f"{meant} Accepted: {', '.join(known)}.".strip()
            raise InvalidRequest(f"{_shown(word)} is not a {argument}", field=argument, fix=fix)
    return words


def argument_named(error: E, arguments: Mapping[str, Any]) -> E:
    """The error by the name that its caller used: `at`, not `fire_at`; or `when`, where that held it."""
    if (argument := _ARGUMENTS.get(error.field)) is not None:
        is_given = argument not in _TIMES or arguments.get(argument) not in (None, "")
        error.field = argument if is_given else "when"
    return error


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
