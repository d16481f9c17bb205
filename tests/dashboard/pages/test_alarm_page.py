"""`/alarms/{id}`: what it did step by step, what its reader is told, and the ways to change it."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from datetime import timedelta
from html import unescape
from itertools import pairwise
from typing import Any

from tests.dashboard.pages.desk import Desk
from wakeful import __version__
from wakeful.alarm.model import Alarm, Attempt, Fire
from wakeful.clock import SystemClock
from wakeful.dashboard.wake_shown import TOKEN, WAKE_TOKEN, curl_of
from wakeful.dashboard.waterfall import WIDTH, waterfall
from wakeful.targets.signing import verify
from wakeful.testing import NEW_YEAR

SECOND = timedelta(seconds=1)


def tried() -> Fire:
    log = (Attempt(NEW_YEAR + SECOND, 500, "HTTP 503"), Attempt(NEW_YEAR + 4 * SECOND, 20, "HTTP 200"))
    return Fire(
        alarm_id="a",
        scheduled_for=NEW_YEAR,
        owner_did="me",
        target="web",
        status="completed",
        log=log,
        completed_at=NEW_YEAR + 10 * SECOND,
        updated_at=NEW_YEAR,
    )


def test_a_fire_is_its_waits_its_attempts_and_its_report() -> None:
    steps = waterfall(tried(), NEW_YEAR + 60 * SECOND)
    assert [(step.kind, step.ms) for step in steps] == [
        ("late", 1000),
        ("failed", 500),
        ("wait", 2500),
        ("attempt", 20),
        ("report", 5980),
    ]
    assert [step.x for step in steps] == [0, 100, 150, 400, 402]
    assert all(step.x + step.width <= WIDTH for step in steps)


def test_a_fire_that_was_not_tried_has_no_steps() -> None:
    skipped = Fire(
        alarm_id="a", scheduled_for=NEW_YEAR, owner_did="me", target="web", status="skipped", updated_at=NEW_YEAR
    )
    assert waterfall(skipped, NEW_YEAR) == []


async def test_the_curl_of_an_attempt_is_signed_as_the_attempt_was() -> None:
    moments: dict[str, Any] = dict.fromkeys(("next_fire_at", "created_at", "updated_at", "occurrence_at"), NEW_YEAR)
    found = Alarm(id="a", owner_did="me", user_id="me", wake_message="it's $HOME `x`", **moments)
    script = curl_of(found, tried(), report_url="https://x/{fire_id}", attempt=2)
    shell = shutil.which("sh")
    assert shell is not None
    for secret in ("plain words", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"):
        shown = 'curl() { for one in "$@"; do printf "%s\\0" "$one"; done; }\n' + script
        env = {"SECRET": secret, "URL": "https://hooks.example/x", "PATH": "/usr/bin:/bin"}
        process = await asyncio.create_subprocess_exec(shell, "-c", shown, stdout=asyncio.subprocess.PIPE, env=env)
        out = (await process.communicate())[0].decode().split("\0")
        headers = dict(line.split(": ", 1) for flag, line in pairwise(out) if flag == "-H")
        body = out[out.index("--data-binary") + 1]
        assert json.loads(body)["message"] == "it's $HOME `x`"
        assert headers["wakeful-attempt"] == "2"
        assert verify(secret, headers, body.encode(), now=SystemClock().now()) == tried().id


async def test_the_page_shows_the_wake_and_no_secret(desk: Desk) -> None:
    wake = await desk.visit.fired()
    page = unescape(await desk.get(f"/alarms/{wake.alarm_id}"))
    told = json.loads(re.search(r"as it is sent.*?<pre>(.*?)</pre>", page, re.DOTALL)[1])  # type: ignore[index]
    sent = json.loads(wake.body)
    assert told.pop("report") == {"url": sent.pop("report")["url"], "token": TOKEN}
    assert (told.pop("token"), sent.pop("token")) == (WAKE_TOKEN, wake.token)
    assert told == sent
    assert wake.report_token not in page
    assert wake.token not in page
    assert 'class="step attempt"' in page
    assert "webhook-signature: v1,$SIGNATURE" in page


async def test_an_edit_shows_what_would_change_before_it_is_saved(desk: Desk) -> None:
    found = await desk.alarms.set("every day at 9am", "old words", label="old")
    assert f"wakeful {__version__}</span>" in await desk.get(f"/alarms/{found.id}/edit")
    fields = [("version", "1"), ("wake_message", "new words"), ("label", ""), ("target", "inbox"), ("timezone", "UTC")]
    fields += [("payload", "{}"), ("conversation_id", ""), ("when", "every day at 8am")]
    shown = await desk.post(f"/alarms/{found.id}/edit", [*fields, ("step", "preview")])
    assert "<del>old words</del> → <ins>new words</ins>" in shown.text
    assert "<del>0 9 * * *</del> → <ins>0 8 * * *</ins>" in shown.text
    assert (await desk.alarms.get(found.id)).version == 1
    saved = await desk.post(f"/alarms/{found.id}/edit", [*fields, ("step", "save")])
    assert saved.status == 303
    after = await desk.alarms.get(found.id)
    assert (after.wake_message, after.label, after.cron_expr) == ("new words", "", "0 8 * * *")


async def test_an_edit_over_somebody_else_s_change_keeps_both(desk: Desk) -> None:
    found = await desk.alarms.set("every day at 9am", "old words", label="old")
    await desk.alarms.update(found.id, target="inbox", label="theirs")
    fields = [("version", "1"), ("wake_message", "mine"), ("label", "old"), ("target", "inbox"), ("timezone", "UTC")]
    fields += [
        ("payload", "{}"),
        ("conversation_id", ""),
        ("when", ""),
        ("was_label", "old"),
        ("was_wake_message", "old words"),
        ("step", "save"),
    ]
    answer = await desk.post(f"/alarms/{found.id}/edit", fields)
    assert answer.status == 412
    assert "Somebody changed this alarm meanwhile" in answer.text
    assert ">mine</textarea>" in answer.text
    assert 'name="version" value="2"' in answer.text
    assert 'name="label" value="theirs"' in answer.text  # a field I did not touch does not undo their change
    assert (await desk.alarms.get(found.id)).wake_message == "old words"


async def test_a_wrong_time_is_said_beside_the_form(desk: Desk) -> None:
    found = await desk.alarms.set("every day at 9am", "words")
    fields = [("version", "1"), ("wake_message", "words"), ("target", "inbox"), ("timezone", "UTC"), ("payload", "{}")]
    answer = await desk.post(f"/alarms/{found.id}/edit", [*fields, ("when", "blursday"), ("step", "save")])
    assert answer.status == 400
    assert "blursday" in answer.text
    assert (await desk.alarms.get(found.id)).version == 1


async def test_a_series_becomes_a_one_shot_only_where_that_is_chosen(desk: Desk) -> None:
    found = await desk.alarms.set("every day at 9am", "words")
    fields = [("version", "1"), ("wake_message", "words"), ("target", "inbox"), ("timezone", "UTC"), ("payload", "{}")]
    fields += [("when", "in 2 hours"), ("step", "save")]
    answer = await desk.post(f"/alarms/{found.id}/edit", fields)
    assert answer.status == 400
    assert "is one moment, and the alarm is a series" in answer.text
    assert '<option value="once">' in answer.text
    assert (await desk.alarms.get(found.id)).version == 1
    shown = await desk.post(f"/alarms/{found.id}/edit", [*fields[:-1], ("kind", "once"), ("step", "preview")])
    assert '<option value="once" selected>' in shown.text
    assert (await desk.post(f"/alarms/{found.id}/edit", [*fields, ("kind", "once")])).status == 303
    assert (await desk.alarms.get(found.id)).kind == "once"
    answer = await desk.post(f"/alarms/{found.id}/edit", [*fields, ("kind", "never")])
    assert answer.status == 400
    assert "kind" in answer.text


async def test_the_next_fire_of_a_series_is_skipped_and_only_the_one_that_was_shown(desk: Desk) -> None:
    found = await desk.alarms.set("every day at 9am", "words")
    page = await desk.get(f"/alarms/{found.id}")
    assert "Skip next" in page
    shown = re.search(r'name="at" form="skip-next" value="([^"]+)"', page)
    assert shown
    fields = [("at", unescape(shown[1]))]
    assert (await desk.post(f"/alarms/{found.id}/skip", fields)).status == 303
    assert (await desk.alarms.get(found.id)).next_fire_at == found.next_fire_at + timedelta(days=1)
    assert "skipped on request by" in await desk.get(f"/alarms/{found.id}")
    assert (await desk.post(f"/alarms/{found.id}/skip", fields)).status == 409
    assert (await desk.alarms.get(found.id)).next_fire_at == found.next_fire_at + timedelta(days=1)


async def test_only_a_series_has_a_next_one_to_skip(desk: Desk) -> None:
    once = await desk.alarms.set("in 1 hour", "words")
    series = await desk.alarms.set("every day at 9am", "words")
    await desk.alarms.pause(series.id)
    for found in (once, series):
        page = await desk.get(f"/alarms/{found.id}")
        assert "Skip next" not in page
        assert 'form="skip-next"' not in page


async def test_snooze_until_a_phrase_and_pause_with_a_reason(desk: Desk) -> None:
    found = await desk.alarms.set("in 1 hour", "words")
    assert (await desk.post(f"/alarms/{found.id}/snooze", [("until", "in 3 hours")])).status == 303
    later = await desk.alarms.get(found.id)
    assert later.next_fire_at - found.next_fire_at > timedelta(hours=1.9)
    await desk.post(f"/alarms/{found.id}/pause", [("reason", "on holiday")])
    assert (await desk.alarms.get(found.id)).paused_reason == "on holiday"
    assert "on holiday" in await desk.get(f"/alarms/{found.id}")
