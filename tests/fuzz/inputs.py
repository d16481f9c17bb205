"""Inputs: what is right, what is nearly right, and what is neither. The middle is where parsers break."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from wakeful.model.requests import CreateRequest, PolicyRequest

ODD: Final = (
    *("", " ", "\0", "\n", "\t", "\x1b[31m", "\ufeff", "\u202e"),
    *("\u00a0", "\ud800", "İ", "ß", "𝟗", "٣", "²", "½", "e\u0301"),
    *("-", "--", "+", "/", "//", "*", "?", ",", ":", ".", "@"),
    *("#", "%", "$", "\\", '"', "'", "{", "}", "[", "]", "(", ")"),
    *("0", "-1", "00", "1e9", "1e999", "nan", "inf", "0x10", "1_000", "9" * 19, "9" * 400, "313020271h30m"),
)  # fmt: skip
WORDS: Final = (
    *("in", "at", "on", "every", "each", "other", "next"),
    *("this", "last", "first", "second", "day", "days", "week", "weeks"),
    *("month", "months", "year", "hour", "hours", "minute", "minutes", "s"),
    *("min", "h", "d", "w", "and", "a", "an", "half"),
    *("monday", "mon", "tuesday", "friday", "fri", "weekday"),
    *("weekdays", "weekend", "january", "jan", "feb", "may", "december"),
    *("noon", "midnight", "tomorrow", "today", "tonight", "morning", "evening"),
    *("am", "pm", "9am", "9", "15:00", "25:61", "12"),
    *("31st", "1st", "29", "of", "the", "from", "now", "until"),
    *("after", "before", "end", "1", "2", "30", "90", "2026-02-30"),
    *("2026-12-24", "T", "Z", "+14:00", "-12:00"),
    *("Europe/Berlin", "America/New_York", "UTC", "@every", "@daily", "CRON_TZ="),
    *("except", "through", "to", "-", ",", "quarter"),
    *("biweekly", "twice", "1.5", "0.0000001", "24:00", "9999-12-31", "1767225600"),
)  # fmt: skip
PHRASES: Final = (
    *("in 20 minutes", "tomorrow at 9am", "every weekday at 9am"),
    *("every 2 hours", "next friday at 15:00", "in an hour and a half"),
    *("every monday and friday at 8:30", "on the 1st of every month at noon"),
    *("2026-12-24T18:00:00+01:00", "1767225600", "+90m"),
    *("@every 90m", "@daily", "0 9 * * 1-5"),
    *("*/5 * * * *", "CRON_TZ=Asia/Tokyo 0 9 L * *", "0 0 9 ? * MON#2", "every other week"),
    *("last day of the month", "24 December at 6pm, Europe/Berlin"),
    *("every day at 9am until friday", "tonight", "in 2 weeks"),
    *("every 3 days at 9am", "RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=TU;BYHOUR=9"),
)  # fmt: skip
CRONS: Final = (
    *("* * * * *", "*/5 0-6,9 1,15 JAN-JUN MON-FRI", "0 0 9 ? * MON#2"),
    *("0 9 L * *", "0 9 15W * *", "0 0 29 2 *", "0 0 31 2 *"),
    *("@every 1s", "@every 90m30s", "@hourly"),
    *("RRULE:FREQ=MONTHLY;BYDAY=-1FR,2MO;COUNT=9", "DTSTART;TZID=Europe/Berlin:20270105T090000 RRULE:FREQ=DAILY"),
    *("FREQ=HOURLY;BYSETPOS=-1;BYMINUTE=0,30", "RDATE:20990101T090000Z EXDATE:20990101"),
    *("@yearly", "TZ=Europe/London 30 1 * * 7", "59 59 23 31 12 *", "0-59/7 */3 L-3 */2 5L"),
)  # fmt: skip
SPANS: Final = (
    "30s",
    "15m",
    "2h30m",
    "90d",
    "1w",
    "1.5h",
    "500ms",
    "PT1H30M",
    "P1DT2H",
    "0",
    "12",
    "1h 30m",
    "90 minutes",
)
MOMENTS: Final = (
    *("2026-12-24T18:00:00Z", "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"),
    *(
        "2026-02-30T00:00:00Z",
        "2026-W10-3",
        "20261224T180000+0100",
        "2026-12-24 18:00:00.123456789+01:00",
        "2026-12-24T24:00Z",
    ),
)
ZONES: Final = (
    "UTC",
    "Europe/Berlin",
    "America/St_Johns",
    "Asia/Kathmandu",
    "Nowhere/Land",
    "../../etc/passwd",
    "posixrules",
    "",
    "EST",
)

any_text: SearchStrategy[str] = st.one_of(
    st.text(max_size=40),
    st.sampled_from(ODD),
    st.builds(
        lambda piece, times: piece * times, st.sampled_from((*ODD, *WORDS, "a", "1 ", ", ")), st.integers(2, 400)
    ),
)


@st.composite
def near(draw: DrawFn, good: Sequence[str]) -> str:
    """A right one with a few things changed: left out, put in, doubled, swapped."""
    text = draw(st.sampled_from(tuple(good)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(text)))
        to = draw(st.integers(at, min(len(text), at + 6)))
        put = draw(st.one_of(st.just(""), st.sampled_from((*ODD, *WORDS)), st.characters(), st.just(text[at:to] * 3)))
        text = text[:at] + put + text[to:]
    return text


@st.composite
def mostly(draw: DrawFn, usual: SearchStrategy[Any], other: SearchStrategy[Any], of: int = 4) -> Any:
    """The other once in so many: an input of many parts, each of them odd, gets no further than the first."""
    return draw(other if draw(st.integers(1, of)) == of else usual)


def texts(*good: str, joined: Sequence[str] = WORDS) -> SearchStrategy[str]:
    """Right, nearly right, made of the right words in any order, and wild."""
    loose = st.lists(st.one_of(st.sampled_from(joined), st.sampled_from(ODD)), max_size=12)
    wild = st.one_of(near(good), near(good), st.builds(" ".join, loose), st.builds("".join, loose), any_text)
    return mostly(st.sampled_from(good), wild, of=2)


phrases = texts(*PHRASES)
crons = texts(
    *CRONS,
    joined=("*", "*/", "0", "59", "60", "-", ",", "/", "L", "W", "#", "?", "MON", "JAN", "7", "@every", "1s", " "),
)
spans = texts(*SPANS, joined=("1", "9", ".", "h", "m", "s", "ms", "d", "w", "P", "T", "-", "e", "hours"))
moments = texts(*MOMENTS, joined=("2026", "-", "12", "24", "T", ":", "Z", "+", "W", "."))
zones = texts(*ZONES, joined=("Europe", "/", "Berlin", "..", "UTC", "+1", "Etc", "GMT", "-"))
numbers: SearchStrategy[Any] = st.one_of(
    st.integers(-3, 100),
    st.sampled_from(
        (2**31, 2**53, 2**63, 2**64, 10**30, -(2**63), 0.0, -0.0, 1e-300, 1e308, 0.001, 1e10, 253402300800)
    ),
    st.floats(allow_nan=False, allow_infinity=False),
)
some_json: SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, phrases, spans, moments, zones, any_text),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(any_text, inner, max_size=4)),
    max_leaves=8,
)
RIGHT: Final[dict[str, SearchStrategy[Any]]] = {  # by the name of a field: what belongs there, nearly
    "when": phrases,
    "cron_expr": crons,
    "timezone": zones,
    "fire_at": st.one_of(moments, numbers),
    "starts_at": st.one_of(moments, numbers),
    "ends_at": st.one_of(moments, numbers),
    "since": st.one_of(moments, numbers),
    "kind": st.sampled_from(("once", "cron", "never")),
    "on_conflict": st.sampled_from(("return", "replace", "error", "")),
    "outcome": st.sampled_from(("completed", "failed", "working", "snooze", "done")),
    "catch_up": st.sampled_from(("one", "skip", "all")),
    "overlap": st.sampled_from(("skip", "allow", "")),
    "wake_message": mostly(st.just("hello"), any_text),
    "label": any_text,
    "id": mostly(st.sampled_from(("ID0", "ID1", "ID2", "ID3")), any_text),  # see House.filled
    "alarm_id": mostly(st.sampled_from(("ID0", "ID1")), any_text),
    "fire_id": mostly(st.sampled_from(("FIRE0", "FIRE1", "FIRE2", "FIRE3")), any_text),
    "conversation_id": any_text,
    "idempotency_key": st.one_of(st.sampled_from(("k", "l")), any_text),
    "key": st.one_of(st.sampled_from(("k", "l")), any_text),
    "target": mostly(st.just("inbox"), any_text),
    "parent_fire": mostly(st.just(""), any_text),
    "reason": any_text,
    "result": any_text,
    "isolated": st.booleans(),
    "max_failures": st.integers(0, 30) | numbers,
    "max_fires": st.integers(1, 9) | numbers,
    "auto_pause_after": st.integers(1, 9) | numbers,
    "payload": some_json,
    "delay_seconds": st.floats(0.001, 1e9) | numbers,
}
_SPANS: Final = {
    "for",
    "wait",
    "delay_seconds",
    "backoff_base",
    "backoff_cap",
    "grace",
    "expires",
    "report_within",
    "jitter",
}


def field(name: str, known: Mapping[str, SearchStrategy[Any]]) -> SearchStrategy[Any]:
    right = known.get(name) or RIGHT.get(name) or (st.one_of(spans, numbers) if name in _SPANS else some_json)
    return mostly(right, some_json, of=16)


@st.composite
def objects(
    draw: DrawFn,
    names: Sequence[str],
    known: Mapping[str, SearchStrategy[Any]] | None = None,
    always: Sequence[str] = (),
) -> dict[str, Any]:
    """An object with some of these fields, and now and then with one that there is not. `known`: what goes where."""
    chosen = [*always, *draw(st.lists(st.sampled_from(tuple(names)), max_size=5))]
    if draw(st.integers(0, 9)) == 0:
        chosen.append(draw(any_text))
    return {name: draw(field(name, known or {})) for name in dict.fromkeys(chosen)}


@st.composite
def written(draw: DrawFn, values: SearchStrategy[Any]) -> bytes:
    """JSON, or what was JSON before somebody got at its bytes."""
    try:
        said = msgspec.json.encode(draw(values))
    except UnicodeEncodeError:  # half a character, which JSON can name all the same
        said = b'{"wake_message": "\\ud800", "when": "\\udfff in 1 hour"}'
    match draw(st.integers(0, 24)):
        case 0:
            return draw(st.binary(max_size=60))
        case 1:
            return b"[" * draw(st.sampled_from((1, 60, 70, 5000, 100_000))) + said
        case 2:
            at = draw(st.integers(0, len(said)))
            return (
                said[:at] + draw(st.one_of(st.binary(max_size=8), st.just(b'"\\ud800"'), st.just(b"1e999"))) + said[at:]
            )
        case 3:
            return said[: draw(st.integers(0, len(said)))]
        case 4:
            return said.replace(b'"', b'"' + draw(st.sampled_from((b"\\u0000", b"\xff", b"\\", b"\xed\xa0\x80"))), 1)
    return said


def fields(kind: Any) -> tuple[str, ...]:
    return tuple(one.encode_name for one in msgspec.structs.fields(kind))


POLICY: Final = st.one_of(objects(fields(PolicyRequest)), objects(fields(PolicyRequest)), st.none(), some_json)
RIGHT["policy"] = POLICY
_TIMES: Final = ("when", "delay_seconds", "fire_at", "cron_expr")
_BESIDE: Final = tuple(name for name in fields(CreateRequest) if name not in (*_TIMES, "kind"))
CREATE: Final = st.one_of(
    *(objects(_BESIDE, always=("wake_message", name)) for name in ("when", *_TIMES)),
    objects(fields(CreateRequest), always=("wake_message",)),
)
