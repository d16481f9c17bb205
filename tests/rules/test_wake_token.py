"""The token of a wake: which fire it names, who can make one, and how long it is good."""

from __future__ import annotations

import base64
from datetime import timedelta

import pytest
from msgspec.structs import replace

from wakeful.rules.wake import Wake, fire_named, is_wake_token_of, wake_token, why_not_good
from wakeful.runtime.logs import redacted

from .world import AWAITED, BROKEN, DAY, HOUR, World, alarm, at, once

SECRET = b"s" * 32
LASTS = timedelta(days=1)


def said(world: World, now: object, occurrence: object = None) -> str:
    fire = next(iter(world.fires.values()), None)
    return why_not_good(world.alarm, fire, occurrence or at(9), lasts=LASTS, now=now)  # type: ignore[arg-type]


def test_it_names_its_fire_and_opens_no_other() -> None:
    token = wake_token(SECRET, "a1@1")
    assert fire_named(token) == "a1@1"
    assert is_wake_token_of(token, SECRET, "a1@1")
    assert not is_wake_token_of(token, SECRET, "a1@2")
    assert not is_wake_token_of(token, b"other", "a1@1")


@pytest.mark.parametrize("sign", range(len(wake_token(SECRET, "a1@1767603600000"))))
def test_a_token_with_another_sign_is_none(sign: int) -> None:
    token = wake_token(SECRET, "a1@1767603600000")
    other = "A" if token[sign] != "A" else "B"
    changed = token[:sign] + other + token[sign + 1 :]
    named = fire_named(changed)
    assert not named or not is_wake_token_of(changed, SECRET, named)


@pytest.mark.parametrize("text", ["", "wk_wake_", "wk_wake__" + "x" * 43, "wk_wake_!!_" + "x" * 43, "wk_x"])
def test_what_is_not_one_names_nothing(text: str) -> None:
    assert fire_named(text) == ""


@pytest.mark.parametrize("named", [b"\xff\xfe@1", b"a1", b"a\x001@1", b"@1"])
def test_what_names_no_fire_names_nothing(named: bytes) -> None:
    assert fire_named(f"wk_wake_{base64.urlsafe_b64encode(named).rstrip(b'=').decode()}_{'x' * 43}") == ""


def test_a_report_token_is_not_one_and_neither_is_shown() -> None:
    wake = Wake(alarm(fire_at=at(9)), secret=SECRET)
    assert wake.token == wake_token(SECRET, wake.fire_id)
    assert wake.report_token not in wake.token
    for shown in (repr(wake), repr(wake.content), str(wake.content), f"{wake.content.report}"):
        assert wake.token not in shown
        assert wake.report_token not in shown
    assert redacted(f"sent {wake.token}, then") == "sent wk_[hidden], then"


def test_it_is_good_while_the_wake_is_on_its_way_and_a_day_from_when_it_arrived() -> None:
    world = once()
    world.claim(at(9, 30))
    assert said(world, at(9, 31)) == ""
    assert said(world, at(9, 31), occurrence=at(8)) == "its wake is not on record"
    world.settle(AWAITED, at(9, 30), at(9, 40))
    assert said(world, at(9, 40) + DAY - timedelta(seconds=1)) == ""
    assert said(world, at(9, 40) + DAY) == "it has expired"


def test_a_wake_whose_receiver_failed_was_handed_out_all_the_same() -> None:
    world = once(max_failures=0)
    world.attempt(BROKEN, at(9, 30))
    assert said(world, at(9, 30) + DAY - HOUR) == ""
    assert said(world, at(9, 30) + DAY) == "it has expired"


def test_it_ends_with_its_alarm() -> None:
    world = once()
    world.claim(at(9))
    world.settle(AWAITED, at(9), at(9))
    assert said(world, at(10)) == ""
    world.alarm = replace(world.alarm, status="cancelled")
    assert said(world, at(10)) == "the alarm of its wake was cancelled"
    world.alarm = replace(world.alarm, claimed_at=at(9))  # not even while an attempt is under way
    assert said(world, at(10)) == "the alarm of its wake was cancelled"
