"""Whether a phrase is meant to recur, before anything else is known of it."""

from __future__ import annotations

import re

from wakeful.schedule.names import WEEKDAY_NAMES
from wakeful.schedule.words import WEEKDAY

_PLURALS = "|".join(f"{name.lower()}s" for name in WEEKDAY_NAMES)
_DAY = r"(?:[a-z]+|(?:week|work|working|business) ?day)"
RECURS = re.compile(
    rf"\b(?:every|each|everyday|daily|hourly|weekly|monthly|quarterly|yearly|annually|nightly|fortnightly"
    rf"|(?:{_PLURALS})(?! from now)|weekdays|weekends|(?:work|working|business) ?days(?! from now)"
    rf"|mornings|afternoons|evenings|nights(?! from now)"
    rf"|(?:once|twice|thrice|[0-9]+ ?x|[0-9]+ times) (?:an?|per) (?:day|week|month|year)"
    rf"|(?:[1-9](?:st|nd|rd|th)|last) {_DAY} of the month|through|thru"
    rf"|{WEEKDAY}s? ?(?:to|-) ?{WEEKDAY}s?)\b"
)
EVERY = re.compile(r"\b(?:every|each)\b")
COUNTED_WORKDAYS = re.compile(r"(?:\bin )?\b[0-9]+ (?:week|work|working|business)[ -]?days?\b(?! of )(?: from now)?")
# Days that one moment cannot have: "mon/wed/fri at 8:30" lacks its "every".
SEVERAL_DAYS = re.compile(rf"\b{WEEKDAY}s?(?:,? and |, ?| ?[&/] ?){WEEKDAY}s?\b")
# Not understood, but meant to recur: so that no single moment is suggested for it.
SOUNDS_RECURRING = re.compile(
    rf"\b(?:(?:bi|semi|tri)-?(?:weekly|monthly|yearly|annual(?:ly)?)|twice|thrice|[0-9]+ ?x|times"
    rf"|(?:per|once an?) [a-z]+|alternate|repeat(?:ing|ed|s)?|recurring|{WEEKDAY}s? (?:to|-) {WEEKDAY}s?)\b"
)
