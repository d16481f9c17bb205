"""Colour by status, for people: `--color`, then NO_COLOR and TERM decide whether there is any."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

CHOICES: Final = ("auto", "always", "never")
_RESET: Final = "\x1b[0m"
_BOLD, _DIM, _RED, _GREEN, _YELLOW, _CYAN = ("\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m")
PAINTED: Final = ("status", "state")  # the columns and fields that hold a word of the following
_BY_COLOUR: Final = {
    _GREEN: ("active", "delivered", "completed", "ok", "live", "resumed"),
    _CYAN: ("pending", "waiting", "working", "created", "updated", "snoozed", "retried"),
    _YELLOW: ("paused", "retrying", "warn", "held_back", "unserved", "replaced"),
    _RED: ("failed", "timed_out", "fail", "failing", "expired", "revoked"),
    _DIM: ("fired", "cancelled", "skipped"),
}
_COLOURS: Final = {word: colour for colour, words in _BY_COLOUR.items() for word in words}


def is_coloured(choice: str, environ: Mapping[str, str], *, terminal: bool) -> bool:
    """What was said on the command line goes before the environment."""
    if choice != "auto":
        return choice == "always"
    return terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def is_coloured_here(choice: str, *, terminal: bool) -> bool:
    return is_coloured(choice, os.environ, terminal=terminal)


def painted(text: str, word: str = "") -> str:
    """A text in the colour of a status; as it is where the word is none."""
    colour = _COLOURS.get(word or text.strip(), "")
    return f"{colour}{text}{_RESET}" if colour and text else text


def heading(text: str) -> str:
    return f"{_BOLD}{text}{_RESET}"
