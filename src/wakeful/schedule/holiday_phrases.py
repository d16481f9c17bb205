"""What a phrase says of holidays: "every day at 9am except public holidays", "every working day at 9am"."""

from __future__ import annotations

import re
from typing import Final

from wakeful.schedule.working_days import DAY_NAMES, USUAL_DAYS, days_of, days_text

EXCEPT_HOLIDAYS: Final = "except public holidays"
_EXCEPT: Final = re.compile(
    r"[\s,;(]*\b(?:except(?: for)?|excluding|but not|not|skipping|other than)\s+(?:on\s+)?(?:the\s+|any\s+)?"
    r"(?:public\s+|bank\s+|national\s+|legal\s+)?holidays?\b[\s,;)]*",
    re.IGNORECASE,
)
_WORKING_DAY: Final = re.compile(
    r"\b(?:(every|each)\s+working\s+day|(?:on\s+)?(?<![0-9] )working\s+days)\b", re.IGNORECASE
)


def without_holidays(text: str) -> tuple[str, bool]:
    """A phrase without what it says of holidays, and whether it says that they are left out."""
    if "OLIDAY" not in text.upper():  # nearly always
        return text, False
    rest, found = _EXCEPT.subn(" ", text)
    return rest.strip(), found > 0


def with_working_days(text: str, days: str = USUAL_DAYS) -> str:
    """A phrase in which "every working day" is said by its days, with holidays left out."""
    if "ORKING" not in text.upper() or _WORKING_DAY.search(text) is None:
        return text
    named = (
        "weekday" if days_text(days) == USUAL_DAYS else " and ".join(DAY_NAMES[day] for day in sorted(days_of(days)))
    )
    said = _WORKING_DAY.sub(f"every {named}", text)
    return said if without_holidays(said)[1] else f"{said} {EXCEPT_HOLIDAYS}"
