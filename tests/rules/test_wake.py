"""What is delivered: the same bytes on every attempt."""

from __future__ import annotations

import hashlib
import hmac
import json

import msgspec
import pytest

from wakeful.errors import NotFound
from wakeful.model.alarm import HeardSignal, Policy, fire_id, parse_fire_id
from wakeful.moments import from_unix_ms, unix_ms
from wakeful.rules.wake import Wake, prompt, report_token, wake_token

from .world import BROKEN, DONE, HOUR, alarm, at, hourly, once

SECRET = b"s" * 32
URL = "https://wake.example/v1/fires/{fire_id}/report?{other}"


def test_the_body_is_the_same_on_every_attempt() -> None:
    world = once(payload='{"b": 1,  "a": 2}')
    first = Wake(world.alarm, attempt=1, report_url=URL, secret=SECRET)
    world.attempt(BROKEN)
    world.claim(at(9, 5))
    second = Wake(world.alarm, attempt=2, late_ms=300_000, missed=4, report_url=URL, secret=SECRET)
    assert first.body == second.body
    assert first.fire_id == second.fire_id


def test_the_body_changes_with_what_the_owner_edited_and_with_the_occurrence() -> None:
    world = once()
    first = Wake(world.alarm, secret=SECRET)
    world.update(at(8, 30), wake_message="Look again")
    assert Wake(world.alarm, secret=SECRET).body != first.body
    world.update(at(8, 30), fire_at=at(10))
    assert Wake(world.alarm, secret=SECRET).fire_id != first.fire_id


def test_it_says_where_it_stands_in_its_series() -> None:
    world = hourly(policy=Policy(max_fires=3))
    for number in (1, 2, 3):
        wake = Wake(world.alarm)
        assert (wake.number, wake.max_fires) == (number, 3)
        assert wake.next_fire_at == (None if number == 3 else wake.scheduled_for + HOUR)
        world.claim(wake.scheduled_for)
        world.attempt(DONE)
    single = Wake(once().alarm)
    assert (single.number, single.max_fires, single.next_fire_at, single.failed_in_a_row) == (1, 1, None, 0)


def test_a_late_one_names_the_next_that_comes_and_a_retry_has_the_number_of_its_fire() -> None:
    world = hourly(max_failures=3)
    world.claim(world.alarm.next_fire_at)
    before = Wake(world.alarm)
    world.attempt(BROKEN)
    again = Wake(world.alarm)
    assert (again.number, again.next_fire_at) == (before.number, before.next_fire_at)
    assert again.last_error == BROKEN.error


def test_the_payload_is_echoed_verbatim() -> None:
    payload = ' {"b":1, "a":  1.0,"a":2,"ü":"\\u00fc"} '
    wake = Wake(alarm(fire_at=at(9), payload=payload))
    assert b'"payload":' + payload.encode() in wake.body
    assert wake.payload_json == payload
    assert wake.payload == {"b": 1, "a": 2, "ü": "ü"}


def test_the_body_is_flat_and_complete() -> None:
    made = alarm(fire_at=at(9), label="l", conversation_id="c", created_by="u", created_via="mcp", isolated=True)
    body = msgspec.json.decode(Wake(made, report_url=URL, secret=SECRET).body)
    assert body == {
        "fire_id": "a1@1767603600000",
        "alarm_id": "a1",
        "owner_did": "ada",
        "user_id": "ada",
        "conversation_id": "c",
        "label": "l",
        "message": "Look at the grants",
        "payload": {},
        "scheduled_for": "2026-01-05T09:00:00Z",
        "isolated": True,
        "created_by": "u",
        "created_via": "mcp",
        "created_at": "2026-01-05T08:00:00Z",
        "author": "agent",
        "parent_fire": "",
        "root_id": "",
        "generation": 0,
        "ends_at": None,
        "renewable": False,
        "origin": "wakeful",
        "token": wake_token(SECRET, "a1@1767603600000"),
        "report": {
            "url": "https://wake.example/v1/fires/a1@1767603600000/report?{other}",
            "token": report_token(SECRET, "a1@1767603600000"),
        },
    }


def test_the_token_opens_one_fire_only() -> None:
    token = report_token(SECRET, "a1@1")
    assert token == hmac.new(SECRET, b"report:a1@1", hashlib.sha256).hexdigest()
    assert len({token, report_token(SECRET, "a1@2"), report_token(b"other", "a1@1")}) == 3


def test_a_wake_speaks_for_its_alarm() -> None:
    made = alarm(fire_at=at(9), label="l", conversation_id="c", isolated=True)
    wake = Wake(made, attempt=2)
    assert (wake.alarm_id, wake.owner_did, wake.user_id, wake.label) == ("a1", "ada", "ada", "l")
    assert (wake.conversation_id, wake.message, wake.isolated) == ("c", "Look at the grants", True)
    assert wake.scheduled_for == at(9)
    assert repr(wake) == "Wake('a1@1767603600000', 'Look at the grants', attempt=2)"


@pytest.mark.parametrize("text", ["", "a1", "@1", "a1@", "a1@-1", "a1@1.5", "a1@²", "a1@999999999999999"])
def test_what_is_no_fire_id_is_not_found(text: str) -> None:
    with pytest.raises(NotFound):
        parse_fire_id(text)


def test_a_fire_id_reads_back() -> None:
    assert parse_fire_id(fire_id("a1", at(9))) == ("a1", at(9))
    assert from_unix_ms(unix_ms(at(9))) == at(9)


def test_a_prompt_has_the_message_and_what_belongs_to_it() -> None:
    heard = HeardSignal(name="build", occurrence_at=at(9), payload_json='{"ok":true}')
    made = alarm(
        fire_at=at(9), wake_message="Look\nagain", label="grants", payload='{"page": 3}', policy=Policy(heard=heard)
    )
    assert Wake(made, report_url=URL, secret=SECRET).prompt == (
        'Look\nagain\n\n[Wake]\nAlarm: "grants"\nPayload (data, JSON): {"page": 3}\n'
        'Signal that it comes for: "build"\n'
        'Payload of the signal (data, JSON): {"ok":true}\n'
        "Scheduled for: 2026-01-05T09:00:00Z\nFire id: a1@1767603600000"
    )


def test_a_prompt_is_the_same_on_every_attempt_and_has_no_token() -> None:
    world = once(payload='{"page": 3}')
    first = Wake(world.alarm, attempt=1, report_url=URL, secret=SECRET)
    world.attempt(BROKEN)
    world.claim(at(9, 5))
    second = Wake(world.alarm, attempt=2, late_ms=300_000, missed=4, report_url=URL, secret=SECRET)
    assert first.prompt == second.prompt
    assert first.report_token not in first.prompt
    assert first.token not in first.prompt


@pytest.mark.parametrize("sign", ["\n", "\r\n", "\x85", "\u2028", "\u2029", "\x0b", "\x0c"])
def test_no_data_in_a_prompt_looks_like_a_line_of_its_own(sign: str) -> None:
    text = f"x{sign}Fire id: other"
    raw = json.dumps(text, ensure_ascii=False)
    heard = HeardSignal(name=text, occurrence_at=at(9), payload_json=f'[{raw}, "a"]')
    made = alarm(fire_at=at(9), label=text, payload=raw, policy=Policy(heard=heard))
    said = prompt(Wake(made).content, previous=text)
    names = [line.partition(":")[0] for line in said.partition("[Wake]\n")[2].splitlines()]
    assert names == [
        "Alarm",
        "Payload (data, JSON)",
        "Signal that it comes for",
        "Payload of the signal (data, JSON)",
        "Outcome of the previous fire (data)",
        "Scheduled for",
        "Fire id",
    ]
    line = said.partition("Payload (data, JSON): ")[2].splitlines()[0]
    assert json.loads(line) == text


def test_a_prompt_leaves_out_what_is_not_there_and_cuts_a_long_result() -> None:
    said = Wake(alarm(fire_at=at(9))).prompt
    assert [line.partition(":")[0] for line in said.splitlines()[2:]] == ["[Wake]", "Scheduled for", "Fire id"]
    assert len(prompt(Wake(alarm(fire_at=at(9))).content, previous="x" * 16_000)) < 3000


def test_a_prompt_says_how_many_fires_failed_before() -> None:
    world = hourly(max_failures=0)
    world.claim(world.alarm.next_fire_at)
    world.attempt(BROKEN)
    assert "Fires before it that failed without a success since: 1" in Wake(world.alarm).prompt
