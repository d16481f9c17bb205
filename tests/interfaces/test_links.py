"""The links of a message: opening one changes nothing, its button reports, and only the fire's own token opens it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.world import Answer, Visitor, serving
from wakeful.clock import SystemClock
from wakeful.testing.receiver import Receiver

PUBLIC = "https://wakeful.example"
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture
async def slack() -> AsyncIterator[Receiver]:
    async with Receiver() as slack:
        yield slack


@pytest.fixture
async def visit(tmp_path: Path, slack: Receiver) -> AsyncIterator[Visitor]:
    team = {"kind": "slack", "url": slack.url, "allow_private": True}
    async with serving(str(tmp_path / "w.db"), targets={"team": team}, public_url=PUBLIC) as visit:
        yield visit


async def told(visit: Visitor, slack: Receiver, message: str = "Water the plants", **more: Any) -> dict[str, str]:
    """What a message in the chat leads to: the paths of its links, once its fire is on record."""
    count = len(slack.wakes)
    alarm = await visit.alarms.set(delay=0.01, wake_message=message, target="team", **more)
    text = (await slack.wait_for(count + 1, timeout=60))[-1].json["text"]
    links = {action: f"/r/{path}" for path, action in re.findall(rf"<{PUBLIC}/r/(\S+)\|(\w+)>", text)}
    async with asyncio.timeout(60):
        while await status(visit, alarm.id) != "delivered":
            await SystemClock().sleep(0.01)
    return {"alarm": alarm.id, **links}


async def status(visit: Visitor, alarm: str) -> str:
    fires = await visit.alarms.fires(alarm)
    return fires[0].status if fires else ""


async def press(visit: Visitor, path: str, form: str = "", **headers: str) -> Answer:
    return await visit("POST", path, data=form.encode(), headers=FORM | headers)


async def test_opening_a_link_shows_the_message_and_changes_nothing(visit: Visitor, slack: Receiver) -> None:
    link = await told(visit, slack, "Water <b>the</b> plants & herbs")
    before = await visit.alarms.why(link["alarm"])
    for action in ("Done", "Snooze"):
        for method in ("GET", "HEAD", "GET"):
            answer = await visit(method, link[action])
            assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "Water &lt;b&gt;the&lt;/b&gt; plants &amp; herbs" in answer.text
        assert '<form method="post">' in answer.text
    assert await status(visit, link["alarm"]) == "delivered"
    assert (await visit.alarms.why(link["alarm"])).summary == before.summary


async def test_the_button_reports_and_once_more_does_no_harm(visit: Visitor, slack: Receiver) -> None:
    link = await told(visit, slack)
    for _ in range(2):
        answer = await press(visit, link["Done"])
        assert (answer.status, "Done." in answer.text) == (200, True)
    assert await status(visit, link["alarm"]) == "completed"
    assert "the fire is completed" in (await visit("GET", link["Done"])).text
    assert "<button" not in (await visit("GET", link["Snooze"])).text
    refused = await press(visit, link["Snooze"], "for=1+hour")
    assert refused.status == 409
    assert await status(visit, link["alarm"]) == "completed"


async def test_a_browser_may_send_the_form_of_its_own_page_and_no_other(visit: Visitor, slack: Receiver) -> None:
    link = await told(visit, slack)
    host = visit.url.removeprefix("http://")
    assert (await press(visit, link["Done"], Origin="https://evil.example")).status == 403
    assert await status(visit, link["alarm"]) == "delivered"
    assert (await press(visit, link["Done"], Origin=f"http://{host}")).status == 200


async def test_snoozed_it_comes_again(visit: Visitor, slack: Receiver) -> None:
    link = await told(visit, slack)
    answer = await press(visit, link["Snooze"], "for=15+minutes")
    assert (answer.status, "Again in 15 minutes." in answer.text) == (200, True)
    alarm = await visit.alarms.get(link["alarm"])
    assert await status(visit, alarm.id) == "snoozed"
    assert 890 < (alarm.next_fire_at - await visit.alarms.service.now()).total_seconds() <= 900


@pytest.mark.parametrize(
    "form", ["", "for=never", "for=" + "x" * 5000, "&".join("for=1" for _ in range(50)), "\xff=%ff"]
)
async def test_a_time_that_no_button_offers_is_refused(visit: Visitor, slack: Receiver, form: str) -> None:
    link = await told(visit, slack)
    assert (await press(visit, link["Snooze"], form)).status in (400, 413)
    assert await status(visit, link["alarm"]) == "delivered"


async def test_without_a_press_the_message_comes_again(visit: Visitor, slack: Receiver) -> None:
    alarm = await visit.alarms.set(
        delay=0.01,
        wake_message="Take the pills",
        target="team",
        policy={"report_within": "1s", "backoff_base": "1s", "backoff_cap": "1s"},
    )
    first, again = (await slack.wait_for(2, timeout=60))[:2]
    assert again.body == first.body
    [path] = re.findall(rf"<{PUBLIC}(/r/\S+)\|Done>", again.json["text"])
    assert (await press(visit, path)).status == 200
    assert await status(visit, alarm.id) == "completed"


async def test_another_token_shows_and_reports_nothing(visit: Visitor, slack: Receiver) -> None:
    link, another = await told(visit, slack, "Mine"), await told(visit, slack, "Theirs")
    path = link["Done"].partition("?")[0]
    foreign = another["Done"].partition("?token=")[2]
    api = (await visit.token("local", "read", "write", "admin"))["authorization"].partition(" ")[2]
    for token in ("", "x", foreign, api, "é" * 64):
        for answer in (await visit("GET", path, params={"token": token}), await press(visit, f"{path}?token={token}")):
            assert answer.status == 401
            assert "Mine" not in answer.text
    assert (await visit("GET", path)).status == 401
    assert await status(visit, link["alarm"]) == "delivered"


async def test_a_fire_that_there_is_not_is_no_error_of_the_server(visit: Visitor) -> None:
    for fire in ("x", "x@1", "%00@1", "..%2F@1"):
        assert (await visit("GET", f"/r/{fire}/done?token=x")).status in (400, 401, 404)


async def test_no_page_is_kept_framed_or_named_to_others(visit: Visitor, slack: Receiver) -> None:
    link = await told(visit, slack)
    for answer in (
        await visit("GET", link["Done"]),
        await visit("GET", "/r/x@1/done?token=x"),
        await press(visit, link["Done"]),
    ):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["x-frame-options"] == "DENY"
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy


async def test_only_where_a_target_can_have_links_are_there_pages(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db")) as visit:
        assert (await visit("GET", "/r/x@1/done?token=x")).status == 404
        assert "/r/{fire_id}/done" not in (await visit("GET", "/openapi.json")).json["paths"]
