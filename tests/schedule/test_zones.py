"""Time zones by name."""

from __future__ import annotations

import pytest

from wakeful.errors import InvalidSchedule
from wakeful.schedule import parse, schedule, zone

from .helpers import NOW


def test_a_zone_is_known_by_its_iana_name_and_shared() -> None:
    assert zone("Europe/Berlin").key == "Europe/Berlin"
    assert zone("Europe/Berlin") is zone("Europe/Berlin")


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "Mars/Olympus",
        "../etc/passwd",
        "/etc/localtime",
        "localtime",
        "Europe",
        "Europe/",
        "posix/UTC",
        "Europe\x00",
        "x" * 5000,
        "Ünited/Kingdom",
        "Europe/../Europe/Berlin",
        "right/UTC",
        "UTC\n",
    ],
)
def test_anything_else_is_refused(name: str) -> None:
    for ask in (lambda: zone(name), lambda: schedule("@daily", name), lambda: parse("at 5", timezone=name, now=NOW)):
        with pytest.raises(InvalidSchedule) as refused:
            ask()
        assert refused.value.field == "timezone"
