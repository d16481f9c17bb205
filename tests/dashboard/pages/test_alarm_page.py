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

from msgspec import Raw
from msgspec.structs import replace

from tests.dashboard.pages.desk import Desk, form_in, rows
from wakeful import __version__
from wakeful.clock import SystemClock
from wakeful.dashboard.alarm import TOKEN, WAKE_TOKEN, WIDTH, curl_of, waterfall
from wakeful.model.alarm import Alarm, Attempt, Fire
from wakeful.targets.signing import verify
from wakeful.testing import NEW_YEAR
from wakeful.testing.conformance.making import new_id

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


async def test_the_last_change_is_taken_back_by_a_button(desk: Desk) -> None:
    found = await desk.alarms.set("every day at 9am", "words")
    path = f"/alarms/{found.id}"
    assert ">Undo " not in await desk.get(path)
    await desk.alarms.update(found.id, wake_message="other words")
    assert ">Undo edit<" in await desk.get(path)
    assert (await desk.post(f"{path}/undo")).status == 303
    assert (await desk.alarms.get(found.id)).wake_message == "words"
    for change, verb in ((desk.alarms.cancel, "cancel"), (desk.alarms.pause, "pause"), (desk.alarms.skip, "skip")):
        await change(found.id)
        assert f">Undo {verb}<" in await desk.get(path)
        assert (await desk.post(f"{path}/undo")).status == 303
        after = await desk.alarms.get(found.id)
        assert (after.status, after.next_fire_at) == ("active", found.next_fire_at)
    assert ">Undo " not in await desk.get(path)
    assert (await desk.post(f"{path}/undo")).status == 409


async def test_undo_asks_for_a_new_time_where_the_old_one_has_passed(desk: Desk) -> None:
    paused = (await desk.alarms.pause((await desk.alarms.set("in 1 hour", "words")).id)).alarm
    passed = paused.next_fire_at - timedelta(hours=2)
    times = {"fire_at": passed, "occurrence_at": passed, "next_fire_at": passed}
    [added] = await desk.visit.alarms.service.store.add([replace(paused, id=new_id(), **times)])
    found = added.alarm
    await desk.alarms.cancel(found.id)
    path = f"/alarms/{found.id}"
    page = await desk.get(path)
    assert re.search(r'action="[^"]*/undo" class="row">.*?<input name="when" required', page, re.DOTALL)
    assert (await desk.post(f"{path}/undo")).status == 400
    assert (await desk.post(f"{path}/undo", [("when", "in 1 hour")])).status == 303
    assert (await desk.alarms.get(found.id)).next_fire_at > found.next_fire_at + timedelta(hours=2)


async def test_a_manual_fire_stands_among_the_fires_of_its_alarm(desk: Desk) -> None:
    found = await desk.alarms.set("every day at 9am", "words", target="agent")
    sent = await desk.post(f"/alarms/{found.id}/fire")
    assert (sent.status, sent.headers["location"].partition("?")[0]) == (303, f"/alarms/{found.id}")
    async with asyncio.timeout(30):
        wake = await desk.visit.agent.wakes.get()
        await desk.visit.alarms.dispatcher._all_down()
    page = await desk.get(f"/alarms/{found.id}")
    assert 'title="manual, delivered' in page
    assert "· manual</h3>" in page
    assert wake.alarm_id in await desk.get(f"/alarms/{found.id}/raw/curl?fire={wake.fire_id}")
    assert "It was fired by hand at" in page
    assert f'href="/alarms/{found.id}"' in await desk.get(f"/alarms/{wake.alarm_id}")
    assert len(rows(await desk.get("/alarms"))) == 1


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


# Long texts


def bomb(size: int = 131_072, depth: int = 97) -> str:
    """JSON that a page would indent to a hundred times its size."""
    return "[" * depth + "1" + ",1" * ((size - 2 * depth) // 2 - 1) + "]" * depth


async def test_a_long_payload_is_shown_in_part_and_sent_whole(desk: Desk) -> None:
    """The guard of the event loop watches: no callback of the server uses 50 ms for it."""
    alarm = await desk.alarms.set("in 1 hour", "x" * 32_000, payload=Raw(bomb().encode()))
    page = await desk.get(f"/alarms/{alarm.id}")
    assert len(page) < 400_000
    for what, part in (("payload", bomb()), ("wake", f'"payload":{bomb()}')):
        assert f"/alarms/{alarm.id}/raw/{what}?" in page
        answer = await desk.visit("GET", f"/alarms/{alarm.id}/raw/{what}")
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        assert answer.headers["content-disposition"].startswith("attachment")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert part in answer.text
    for nothing in ("message", "curl"):
        assert (await desk.visit("GET", f"/alarms/{alarm.id}/raw/{nothing}")).status == 404


async def test_a_short_payload_has_no_link_to_the_rest(desk: Desk) -> None:
    alarm = await desk.alarms.set("in 1 hour", "hello", payload={"page": 3})
    assert "/raw/" not in await desk.get(f"/alarms/{alarm.id}")


async def test_the_whole_of_another_owners_alarm_is_not_sent(desk: Desk) -> None:
    alarm = await desk.visit.alarms.for_owner("eve").set("in 1 hour", "hers", payload={"secret": 1})
    assert (await desk.visit("GET", f"/alarms/{alarm.id}/raw/payload")).status == 404


async def test_a_long_alarm_can_be_duplicated(desk: Desk) -> None:
    """Its fields are not in the address of the page, where a long payload would be refused."""
    alarm = await desk.alarms.set("every day at 9am", "hello", payload=Raw(bomb().encode()), key="once")
    assert f"/new?like={alarm.id}" in await desk.get(f"/alarms/{alarm.id}")
    form = unescape(await desk.get(f"/new?like={alarm.id}"))
    assert bomb() in form
    assert 'value="0 9 * * *"' in form
    assert 'value="once"' not in form


async def test_a_payload_is_changed_on_the_page(desk: Desk) -> None:
    alarm = await desk.alarms.set("in 1 hour", "hello", payload={"page": 3})
    path = f"/alarms/{alarm.id}/edit"
    fields = [*form_in(await desk.get(path), path), ("wake_message", "hello"), ("payload", '{"page": 4}')]
    fields += [("target", alarm.target), ("timezone", alarm.timezone)]
    shown = await desk.post(path, [*fields, ("step", "preview")])
    assert shown.status == 200, shown.text
    assert '<dt>Payload</dt><dd><del>{"page":3}</del> → <ins>{"page": 4}</ins>' in unescape(shown.text)
    saved = await desk.post(path, [*fields, ("step", "save")])
    assert saved.status == 303, saved.text
    assert (await desk.alarms.get(alarm.id)).payload == {"page": 4}


async def test_an_alarm_with_a_long_payload_is_edited_and_keeps_it(desk: Desk) -> None:
    alarm = await desk.alarms.set("in 1 hour", "hello", payload=Raw(bomb().encode()))
    path = f"/alarms/{alarm.id}/edit"
    form = await desk.get(path)
    assert len(form) < 64_000
    assert f'href="/alarms/{alarm.id}/raw/payload"' in form
    assert 'name="payload"' not in form
    fields = [*form_in(form, path), ("wake_message", "changed"), ("target", alarm.target), ("timezone", alarm.timezone)]
    assert (await desk.post(path, [*fields, ("step", "save")])).status == 303
    after = await desk.alarms.get(alarm.id)
    assert (after.wake_message, after.payload_json) == ("changed", bomb())


async def test_a_payload_that_fits_the_form_is_sent_in_it_once(desk: Desk) -> None:
    """Each of its signs is three in a form, of which at most 256 kB are read."""
    before, longer = '"' + "," * 60_000 + '"', bomb(65_000)
    alarm = await desk.alarms.set("in 1 hour", "hello", payload=Raw(before.encode()))
    path = f"/alarms/{alarm.id}/edit"
    others = [("wake_message", "mine"), ("target", alarm.target), ("timezone", alarm.timezone)]
    fields = [*form_in(await desk.get(path), path), *others]
    await desk.alarms.update(alarm.id, payload={"their": "change"})
    untouched = await desk.post(path, [*fields, ("payload", before), ("step", "save")])
    assert untouched.status == 412, "somebody changed it, and the form has their payload now"
    assert "their" in untouched.text
    fields = [*form_in(untouched.text, path), *others, ("payload", longer)]
    shown = await desk.post(path, [*fields, ("step", "preview")])
    assert "Only the first 64 kB are shown" in shown.text
    assert (await desk.post(path, [*fields, ("step", "save")])).status == 303
    assert (await desk.alarms.get(alarm.id)).payload_json == longer
