"""`at tomorrow at 5pm call mum`: where the time ends and the message begins, when a shell has taken the quotes away."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Final

from wakeful.errors import InvalidRequest, InvalidSchedule

LONGEST: Final = 20  # words of a time that are looked at
SUFFIX: Final = 6  # words at the end of a message that may be a time
# What a text means as a time; empty where it is not one.
Meaning = Callable[[str], str]
_GOING_ON: Final = ("at", "on", "in", "from", "next", "every", "until")  # with these a time would go on
_PARTS_OF_A_DAY: Final = ("morning", "afternoon", "evening", "night")


def split(words: Sequence[str], command: str, meaning: Meaning) -> tuple[str, str]:
    """The time and the message. InvalidSchedule, with both ways to quote it, where there are two readings.

    A word with a space in it was quoted: it is a whole time or a whole part of the message, never a piece of one.
    """
    if not words:
        raise InvalidRequest("a time and a message are needed", field="WHEN", fix=_example(command))
    if _was_quoted(words[0]):
        return words[0], _message(words[1:], words[0], command)
    loose = next((at for at, word in enumerate(words) if _was_quoted(word)), len(words))
    lengths = [count for count in range(1, min(loose, LONGEST) + 1) if meaning(" ".join(words[:count]))]
    if not lengths:
        return words[0], " ".join(words[1:])  # it is refused as it is read, with the forms that work
    lengths = _without_echo(words, lengths, meaning)
    longest = lengths[-1]
    time, rest = " ".join(words[:longest]), words[longest:]
    message = _message(rest, time, command)
    if other := _other_reading(words[:loose], lengths):
        _refuse(command, (time, message), other)
    if loose == len(words) and len(rest) > 1:
        _check_message(command, time, rest, meaning)
    return time, message


def _was_quoted(word: str) -> bool:
    return len(word.split()) != 1


def _message(words: Sequence[str], time: str, command: str) -> str:
    if not words:
        example = f'For example: wakeful {command} {shlex.quote(time)} "Look at the mail"'
        raise InvalidRequest(f"{time!r} is the time, and nothing is left to say", field="MESSAGE", fix=example)
    return " ".join(words)


def _without_echo(words: Sequence[str], lengths: list[int], meaning: Meaning) -> list[int]:
    """`weekday at 9am morning brief`: what only says again that 9am is in the morning is left to the message."""
    *shorter, longest = lengths
    if not shorter or shorter[-1] != longest - 1 or words[longest - 1].lower() not in _PARTS_OF_A_DAY:
        return lengths
    before, after = " ".join(words[: longest - 1]), " ".join(words[:longest])
    has_clock = any(sign.isdigit() for sign in before)
    return shorter if has_clock and meaning(before) == meaning(after) else lengths


def _other_reading(words: Sequence[str], lengths: Sequence[int]) -> tuple[str, str] | None:
    """`july 4 2090 budget`: a year, or a budget's? A bare number at the end of a time may belong to the message."""
    longest = lengths[-1]
    is_bare = words[longest - 1].isdigit() and longest > 1 and words[longest - 2].lower() not in ("at", "in", "on")
    if not is_bare or len(lengths) < 2 or longest == len(words):
        return None
    shorter = lengths[-2]
    return " ".join(words[:shorter]), " ".join(words[shorter:])


def _check_message(command: str, time: str, rest: Sequence[str], meaning: Meaning) -> None:
    """Refuse a message that begins or ends with what could belong to the time."""
    for at in range(max(1, len(rest) - SUFFIX), len(rest)):
        later = " ".join(rest[at:])
        if meaning(f"{time} {later}"):
            _refuse(command, (time, " ".join(rest)), (f"{time} {later}", " ".join(rest[:at])))
    goes_on = rest[0].lower() in _GOING_ON or any(sign.isdigit() for sign in rest[0])
    for count in range(min(len(rest) - 1, SUFFIX) if goes_on else 0, 0, -1):
        first = " ".join(rest[:count])
        if meaning(first):
            _refuse(command, (time, " ".join(rest)), (first, " ".join(rest[count:])))


def _refuse(command: str, *readings: tuple[str, str]) -> None:
    shown = [f"wakeful {command} {_quoted(time)} {_quoted(message)}" for time, message in readings]
    raise InvalidSchedule(
        "this can be read in two ways",
        field="when",
        fix=f"Put quotes around the time and the message: {' or '.join(shown)}",
    )


def _quoted(text: str) -> str:
    return f'"{text}"' if text.isprintable() and not set(text) & set('"\\$`!') else shlex.quote(text)


def _example(command: str) -> str:
    time = "tomorrow at 9am" if command == "at" else "weekday at 9am"
    return f'For example: wakeful {command} "{time}" "Look at the mail"'
