"""What chat services get, in the shapes that they document, and what their answers mean."""

from __future__ import annotations

import re
import tomllib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from wakeful.clock import SystemClock
from wakeful.errors import InvalidConfig
from wakeful.model.outcome import Delivered, Failed
from wakeful.process.application import build_targets
from wakeful.settings import load
from wakeful.settings.values import users_of
from wakeful.targets import Target, chat
from wakeful.targets.chat import Chat
from wakeful.testing.receiver import Receiver
from wakeful.testing.targets import TargetConformance, a_wake

PUBLIC = "https://wakeful.example"
TOKEN = "123456:ABC-def_ghi"
GIVEN: dict[str, dict[str, Any]] = {
    "slack": {},
    "discord": {},
    "telegram": {"token": TOKEN, "chat_id": -100},
    "ntfy": {"topic": "my-topic"},
}
Open = Callable[..., Chat]


@pytest.fixture
async def open_chat(receiver: Receiver) -> AsyncIterator[Open]:
    opened: list[Chat] = []

    def open(kind: str, **more: Any) -> Chat:
        usual = {"url": receiver.url, "clock": SystemClock(), "allow_private": True, "operator": "local", "timeout": 20}
        opened.append(getattr(chat, kind)(**usual | GIVEN[kind] | more))
        return opened[-1]

    yield open
    for each in opened:
        await each.close()


class _AsATarget(TargetConformance):
    @pytest.fixture(params=GIVEN)
    def target(self, request: pytest.FixtureRequest, open_chat: Open) -> Target:
        return open_chat(request.param, public_url=PUBLIC)


class TestAsATarget(_AsATarget):
    pass


def own(message: str = "Tea", **more: Any) -> Any:
    return a_wake(message, owner_did="local", created_by="local", **more)


def link(action: str) -> str:
    return f"{PUBLIC}/r/{own().fire_id}/{action}?token={own().report_token}"


class TestWhatIsSent:
    @pytest.mark.parametrize(
        ("kind", "path", "body"),
        [
            ("slack", "/wake", {"text": "Tea", "unfurl_links": False}),
            ("discord", "/wake", {"content": "Tea", "allowed_mentions": {"parse": []}, "flags": 4}),
            (
                "telegram",
                f"/wake/bot{TOKEN}/sendMessage",
                {"chat_id": -100, "text": "Tea", "link_preview_options": {"is_disabled": True}},
            ),
            ("ntfy", "/wake/", {"topic": "my-topic", "title": "Kitchen", "message": "Tea"}),
        ],
    )
    async def test_the_body_each_service_documents(
        self, open_chat: Open, receiver: Receiver, kind: str, path: str, body: dict[str, Any]
    ) -> None:
        assert await open_chat(kind).deliver(own(label="Kitchen")) == Delivered("HTTP 200")
        [got] = receiver.wakes
        assert (got.path, got.json) == (path, body)
        assert got.headers["content-type"] == "application/json"

    async def test_links_where_people_reach_this_server(self, open_chat: Open, receiver: Receiver) -> None:
        for kind in GIVEN:
            await open_chat(kind, public_url=PUBLIC).deliver(own())
        slack, discord, telegram, ntfy = (got.json for got in receiver.wakes)
        assert slack["text"] == f"Tea\n<{link('done')}|Done> · <{link('snooze')}|Snooze>"
        assert discord["content"] == f"Tea\n[Done](<{link('done')}>) · [Snooze](<{link('snooze')}>)"
        [row] = telegram["reply_markup"]["inline_keyboard"]
        assert row == [{"text": "Done", "url": link("done")}, {"text": "Snooze", "url": link("snooze")}]
        assert ntfy["actions"] == [
            {"action": "view", "clear": True, "label": "Done", "url": link("done")},
            {"action": "view", "clear": True, "label": "Snooze", "url": link("snooze")},
        ]

    async def test_an_access_token_goes_into_a_header(self, open_chat: Open, receiver: Receiver) -> None:
        await open_chat("ntfy", token="tk_1").deliver(own())
        assert receiver.wakes[0].headers["authorization"] == "Bearer tk_1"

    async def test_a_message_alerts_nobody_else(self, open_chat: Open, receiver: Receiver) -> None:
        await open_chat("slack").deliver(own("<!channel> & <https://evil.example|bank>"))
        assert receiver.wakes[0].json["text"] == "&lt;!channel&gt; &amp; &lt;https://evil.example|bank&gt;"

    async def test_others_words_say_whose_they_are(self, open_chat: Open, receiver: Receiver) -> None:
        wake = a_wake("Tea", owner_did="ada", created_by="laptop")
        for kind in GIVEN:
            await open_chat(kind).deliver(wake)
        texts = [got.json.get("text") or got.json.get("content") or got.json["message"] for got in receiver.wakes]
        assert texts == ["[ada, by laptop] Tea"] * 4

    @pytest.mark.parametrize("sign", ["é", "€", "😀", "&"])
    async def test_the_longest_message_fits(self, open_chat: Open, receiver: Receiver, sign: str) -> None:
        wake = a_wake(sign * 32_768, owner_did="\u202e" * 300, created_by="\u202e" * 300, label=sign * 300)
        for kind in GIVEN:
            await open_chat(kind, public_url=PUBLIC).deliver(wake)
        slack, discord, telegram, ntfy = (got.json for got in receiver.wakes)
        assert len(slack["text"]) <= 40_000
        assert len(discord["content"].encode("utf-16-le")) <= 2 * 2000
        assert len(telegram["text"].encode("utf-16-le")) <= 2 * 4096
        assert len(ntfy["message"].encode()) <= 4096


class TestAnswers:
    async def test_what_the_body_says_about_waiting_counts(self, open_chat: Open, receiver: Receiver) -> None:
        telegram = '{"ok": false, "error_code": 429, "description": "Too Many", "parameters": {"retry_after": 35}}'
        receiver.answer(429, body=telegram)
        receiver.answer(
            429, headers={"retry-after": "2"}, body='{"message": "slow", "retry_after": 1.5, "global": false}'
        )
        receiver.answer(429, headers={"retry-after": "30"}, body="rate_limited")
        found = [await open_chat(kind).deliver(own()) for kind in ("telegram", "discord", "slack")]
        assert [failed.retry_after for failed in found if isinstance(failed, Failed)] == [35, 1.5, 30]
        assert all(isinstance(failed, Failed) and failed.retryable and failed.answered for failed in found)

    @pytest.mark.parametrize("asked", ["true", '"9"', "-1", "1e300", "null", "[]"])
    async def test_a_time_that_is_none_is_not_waited_for(self, open_chat: Open, receiver: Receiver, asked: str) -> None:
        receiver.answer(429, body=f'{{"retry_after": {asked}}}')
        outcome = await open_chat("discord").deliver(own())
        assert isinstance(outcome, Failed)
        assert outcome.retry_after is None

    @pytest.mark.parametrize(
        ("status", "again"),
        [(400, False), (410, False), (413, False), (401, True), (403, True), (404, True), (503, True)],
    )
    async def test_what_would_be_refused_again_is_final(
        self, open_chat: Open, receiver: Receiver, status: int, again: bool
    ) -> None:
        receiver.answer(status, body="channel_is_archived")
        outcome = await open_chat("slack").deliver(own())
        assert isinstance(outcome, Failed)
        assert (outcome.retryable, outcome.error) == (again, f"slack returned {status}: channel_is_archived")

    async def test_a_refusal_that_comes_as_a_200_is_one(self, open_chat: Open, receiver: Receiver) -> None:
        receiver.answer(200, body='{"ok": false, "description": "chat not found"}')
        assert isinstance(await open_chat("telegram").deliver(own()), Failed)

    async def test_nothing_secret_turns_up_in_an_error(self, open_chat: Open, receiver: Receiver) -> None:
        for kind in ("telegram", "ntfy"):
            said = f"bot{TOKEN} {TOKEN} {own().report_token} {link('done')}"
            receiver.answer(500, body=said)
            outcome = await open_chat(kind, token=TOKEN, public_url=PUBLIC).deliver(own())
            assert isinstance(outcome, Failed)
            assert "[hidden]" in outcome.error
            assert not any(secret in outcome.error for secret in (TOKEN, own().report_token))


class TestSettings:
    def test_the_page_s_settings_build_targets_that_only_the_operator_may_use(self, tmp_path: Path) -> None:
        page = (Path(__file__).parents[2] / "docs/targets/chat.md").read_text()
        token = tmp_path / "token"
        token.write_text(TOKEN)
        blocks = [block for block in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if "notify" not in block]
        text = "\n".join(blocks).replace("/etc/wakeful/telegram-token", str(token))
        config = tmp_path / "wakeful.toml"
        config.write_text(text)
        addresses = {
            "SLACK_WEBHOOK": "https://hooks.example/services/T/B/x",
            "DISCORD_WEBHOOK": "https://d.example/1/x",
        }
        settings = load(config, environ=addresses)
        served = build_targets(settings)
        kinds = {str(target["kind"]): name for name, target in tomllib.loads(text)["targets"].items()}
        assert set(kinds) == set(GIVEN)
        assert all(isinstance(served[name].target, Chat) for name in kinds.values())
        assert all(users_of(settings, name, kind).owners == {"local"} for kind, name in kinds.items())

    @pytest.mark.parametrize(
        ("kind", "given", "field", "says"),
        [
            ("slack", {"url": ""}, "url", "slack needs a url"),
            ("telegram", {"chat_id": ""}, "chat_id", "telegram needs a chat_id"),
            ("telegram", {"topic": "x"}, "topic", "a telegram target has no setting 'topic'"),
            ("ntfy", {"topic": ""}, "topic", "ntfy needs a topic"),
            ("ntfy", {"token": "a\r\nb: c"}, "token", "printable"),
            ("discord", {"url": "discord.com/x"}, "url", "does not begin with http"),
        ],
    )
    def test_what_is_missing_or_too_much_is_said_at_the_start(
        self, open_chat: Open, kind: str, given: dict[str, Any], field: str, says: str
    ) -> None:
        with pytest.raises(InvalidConfig, match=says) as refused:
            open_chat(kind, **given)
        assert refused.value.field == field
