"""Somebody's tests of their own program, with the fixture `wakeful_alarms`."""

from __future__ import annotations

from collections.abc import Callable

import wakeful
from wakeful.testing.alarms_for_tests import SteppedWakeful


def sends(sent: list[str]) -> Callable[[wakeful.Wake], None]:
    def send(wake: wakeful.Wake) -> None:
        sent.append(wake.message)

    return send


def test_the_brief_is_sent_once_a_day(wakeful_alarms: SteppedWakeful) -> None:
    sent: list[str] = []
    wakeful_alarms.handler("brief")(sends(sent))
    alarm = wakeful_alarms.set("every day at 9am", "Morning brief", target="brief", policy={"max_fires": 2})
    wakeful_alarms.advance("3d")
    assert sent == ["Morning brief", "Morning brief"]
    status: wakeful.AlarmStatus = wakeful_alarms.get(alarm.id).status
    assert status == "fired"
    assert [fire.status for fire in wakeful_alarms.fires(alarm.id)] == ["completed", "completed"]
