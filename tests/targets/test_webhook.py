from __future__ import annotations

import asyncio
import base64
import re
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
import standardwebhooks

from wakeful.errors import InvalidConfig
from wakeful.model.outcome import Completed, Delivered, Failed, Snoozed
from wakeful.targets import Target
from wakeful.targets.sending import Sender
from wakeful.targets.sending.addresses import check_url
from wakeful.testing.receiver import Receiver
from wakeful.testing.targets import TargetConformance, a_wake

from .conftest import Open, RawServer

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode()
OLD = "whsec_" + base64.b64encode(b"the secret before it....").decode()
JSON = {"content-type": "application/json"}


class TestAsATarget(TargetConformance):
    @pytest.fixture
    def target(self, webhook: Open, receiver: Receiver) -> Target:
        return webhook(receiver.url, secret=SECRET)


class TestWhatIsSent:
    async def test_the_body_is_the_wake_byte_for_byte_on_every_attempt(self, webhook: Open, receiver: Receiver) -> None:
        target = webhook(receiver.url)
        payload = '{"b": 1,  "a": [1.50, "é"], "b": 2}'
        for attempt in (1, 2):
            await target.deliver(a_wake(payload_json=payload, attempt=attempt, late_ms=attempt * 7, missed=3))
        first, again = receiver.wakes
        assert first.body == again.body == a_wake(payload_json=payload).body
        assert payload.encode() in first.body
        assert [wake.headers["wakeful-attempt"] for wake in receiver.wakes] == ["1", "2"]
        assert [wake.headers["wakeful-late-ms"] for wake in receiver.wakes] == ["7", "14"]
        assert first.headers["wakeful-missed"] == "3"
        assert (first.headers["wakeful-number"], first.headers["wakeful-failed-in-a-row"]) == ("1/1", "0")
        assert "wakeful-next" not in first.headers

    async def test_id_and_idempotency_key_are_the_fire_id(self, webhook: Open, receiver: Receiver) -> None:
        await webhook(receiver.url, headers={"X-Team": "night"}).deliver(a_wake())
        headers = receiver.wakes[0].headers
        assert headers["webhook-id"] == headers["idempotency-key"] == a_wake().fire_id
        assert headers["content-type"] == "application/json"
        assert headers["user-agent"].startswith("wakeful/")
        assert headers["x-team"] == "night"

    async def test_an_unsigned_webhook_carries_no_signature(self, webhook: Open, receiver: Receiver) -> None:
        await webhook(receiver.url).deliver(a_wake())
        assert "webhook-signature" not in receiver.wakes[0].headers

    async def test_signatures_satisfy_the_reference_library_also_during_rotation(self, webhook: Open) -> None:
        async with Receiver(secret=SECRET) as receiver:
            await webhook(receiver.url, secret=SECRET, previous_secret=OLD).deliver(a_wake("é"))
            [wake] = receiver.wakes
        assert wake.verified
        assert wake.headers["webhook-signature"].count("v1,") == 2
        for secret in (SECRET, OLD):
            decoded = standardwebhooks.Webhook(secret).verify(wake.body, dict(wake.headers))
            assert decoded["message"] == "é"

    async def test_an_id_cannot_break_out_of_its_header(self, webhook: Open, raw: RawServer) -> None:
        await webhook(raw.url).deliver(a_wake(id="x\r\nevil: 1\r\n\r\né"))
        assert b"\r\nevil" not in raw.heads[0]
        assert b"webhook-id: x%0D%0Aevil:%201%0D%0A%0D%0A%C3%A9@" in raw.heads[0]

    async def test_nor_can_any_other_value(self, raw: RawServer) -> None:
        sender = Sender(raw.url, timeout=5, allow_private=True)
        for value in ("a\r\nevil: 1", "a\nevil: 1", "a\revil: 1", "a\0"):
            reply = await sender.post({"x": value}, b"{}")
            assert (reply.status, reply.trouble) == (0, "the request failed: ValueError")
        await sender.close()
        assert raw.connections == 0

    async def test_each_attempt_has_a_trace_of_its_own_and_no_other(self, webhook: Open, raw: RawServer) -> None:
        target = webhook(raw.url, headers={"Traceparent": "x"})
        for _ in range(2):
            await target.deliver(a_wake())
        traces = [
            re.findall(rb"(?i)\r\ntraceparent: 00-([0-9a-f]{32})-[0-9a-f]{16}-01\r\n", head) for head in raw.heads
        ]
        assert all(len(each) == 1 for each in traces)
        assert traces[0] != traces[1]
        assert all(head.lower().count(b"traceparent") == 1 for head in raw.heads)

    async def test_what_is_sent_is_one_request_after_the_other_over_one_connection(
        self, webhook: Open, raw: RawServer
    ) -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = raw.heads[-1]
            while True:
                length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
                assert await reader.readexactly(length) == a_wake().body
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"POST /a%20b?c=d HTTP/1.1\r\nHost: 127.0.0.1:")

        raw.talk = answer
        target = webhook(raw.url + "a%20b?c=d")
        for _ in range(3):
            assert await target.deliver(a_wake()) == Delivered("HTTP 200")
        assert raw.connections == 1

    async def test_no_cookie_is_kept_and_nothing_asks_for_compression(self, webhook: Open, receiver: Receiver) -> None:
        receiver.always(200, headers={"set-cookie": "session=1; path=/"})
        target = webhook(receiver.url.replace("127.0.0.1", "localhost"))
        await target.deliver(a_wake())
        await target.deliver(a_wake())
        assert "cookie" not in receiver.wakes[1].headers
        assert receiver.wakes[1].headers["accept-encoding"] == "identity"

    async def test_a_proxy_in_the_environment_is_not_used(
        self, webhook: Open, receiver: Receiver, raw: RawServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, raw.url)
        assert await webhook(receiver.url).deliver(a_wake()) == Delivered("HTTP 200")
        assert raw.connections == 0


class TestAnswers:
    @pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
    async def test_any_2xx_is_delivered(self, webhook: Open, receiver: Receiver, status: int) -> None:
        receiver.answer(status)
        assert await webhook(receiver.url).deliver(a_wake()) == Delivered(f"HTTP {status}")

    async def test_a_target_that_reports_is_waited_for(self, webhook: Open, receiver: Receiver) -> None:
        receiver.answer(202)
        assert await webhook(receiver.url, reports=True).deliver(a_wake()) == Delivered("HTTP 202", awaits_report=True)

    @pytest.mark.parametrize(
        ("body", "outcome"),
        [
            ('{"outcome": "completed", "result": "3 new grants"}', Completed("3 new grants")),
            ('{"outcome": "completed"}', Completed()),
            ('{"outcome": "completed", "result": {"n": 3}}', Completed('{"n":3}')),
            ('{"outcome": "completed", "result": "a\\u0000b"}', Completed("a\\x00b")),
            ('{"outcome": "failed", "reason": "portal\\nclosed"}', Failed("portal\\nclosed", answered=True)),
            ('{"outcome": "failed"}', Failed("the receiver answered: failed", answered=True)),
            ('{"snooze": "15m"}', Snoozed(timedelta(minutes=15))),
            ('{"snooze": 90}', Snoozed(timedelta(seconds=90))),
            ('{"ok": true}', Delivered("HTTP 200")),
            ("[1]", Delivered("HTTP 200")),
            ("", Delivered("HTTP 200")),
        ],
    )
    async def test_a_json_body_can_say_how_it_went(
        self, webhook: Open, receiver: Receiver, body: str, outcome: object
    ) -> None:
        receiver.answer(200, headers=JSON, body=body)
        assert await webhook(receiver.url).deliver(a_wake()) == outcome

    @pytest.mark.parametrize(
        "body",
        [
            '{"outcome": "perhaps"}',
            '{"outcome": 7}',
            '{"snooze": "soon"}',
            '{"snooze": {}}',
            '{"snooze": -1}',
            '{"outcome": "completed"',
            "{" * 60000,
            "[" * 60000,
            "ÿ{",
        ],
    )
    async def test_a_body_that_makes_no_sense_takes_nothing_from_the_yes(
        self, webhook: Open, receiver: Receiver, body: str
    ) -> None:
        receiver.answer(200, headers=JSON, body=body)
        outcome = await webhook(receiver.url).deliver(a_wake())
        assert isinstance(outcome, Delivered)
        assert outcome.detail.startswith("HTTP 200; ")
        assert len(outcome.detail) < 300

    async def test_gone_ends_it_at_once(self, webhook: Open, receiver: Receiver) -> None:
        receiver.answer(410, body="unsubscribed")
        outcome = await webhook(receiver.url).deliver(a_wake())
        assert outcome == Failed("HTTP 410: unsubscribed", retryable=False, answered=True)

    @pytest.mark.parametrize("status", [429, 503])
    async def test_retry_after_in_seconds_is_honoured(self, webhook: Open, receiver: Receiver, status: int) -> None:
        receiver.answer(status, headers={"retry-after": "120"})
        outcome = await webhook(receiver.url).deliver(a_wake())
        assert outcome == Failed(f"HTTP {status}", retry_after=120.0, unhealthy=True, answered=True)

    async def test_retry_after_as_a_date_is_honoured(self, webhook: Open, receiver: Receiver) -> None:
        class Noon:
            def now(self) -> datetime:
                return datetime(2030, 1, 1, 12, 0, tzinfo=UTC)

            async def sleep(self, seconds: float) -> None: ...

        date = format_datetime(datetime(2030, 1, 1, 12, 5, tzinfo=UTC), usegmt=True)
        receiver.answer(503, headers={"retry-after": date})
        outcome = await webhook(receiver.url, clock=Noon()).deliver(a_wake())
        assert outcome == Failed("HTTP 503", retry_after=300.0, unhealthy=True, answered=True)

    @pytest.mark.parametrize("value", ["soon", "-5", "1e9", "9" * 30, "Mon, 99 Foo 2030 99:99:99 GMT", "²"])
    async def test_a_strange_retry_after_is_ignored(self, webhook: Open, raw: RawServer, value: str) -> None:
        raw.reply = f"HTTP/1.1 503 No\r\nretry-after: {value}\r\ncontent-length: 0\r\n\r\n".encode()
        outcome = await webhook(raw.url).deliver(a_wake())
        assert outcome == Failed("HTTP 503", unhealthy=True, answered=True)

    @pytest.mark.parametrize(("status", "unhealthy"), [(400, False), (404, False), (500, True), (502, True)])
    async def test_everything_else_failed_and_is_quoted_in_one_line(
        self, webhook: Open, receiver: Receiver, status: int, unhealthy: bool
    ) -> None:
        receiver.answer(status, body="no\r\n\x1b[31m" + "x" * 1000)
        outcome = await webhook(receiver.url).deliver(a_wake())
        assert isinstance(outcome, Failed)
        assert outcome.error.startswith(f"HTTP {status}: no\\r\\n\\x1b[31mxxx")
        assert len(outcome.error) < 330
        assert outcome.retryable
        assert outcome.unhealthy is unhealthy
        assert outcome.answered

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    async def test_a_redirect_is_not_followed(
        self, webhook: Open, receiver: Receiver, raw: RawServer, status: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        receiver.redirect(raw.url + "?token=planted", status)
        outcome = await webhook(receiver.url).deliver(a_wake())
        assert isinstance(outcome, Failed)
        assert outcome.error == f"HTTP {status}: redirects are not followed"
        assert f"{outcome.error} (it points to http://127.0.0.1)" in caplog.text  # for the operator alone
        assert raw.connections == 0


class TestAddresses:
    # Every way to write this machine's address; the host part of a URL.
    SPELLINGS = (
        "127.0.0.1",
        "127.1",
        "0x7f000001",
        "0177.0.0.1",
        "2130706433",
        "0",
        "0.0.0.0",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[::]",
        "①②⑦.⓪.⓪.①",
        "127。0。0。1",
        "LOCALHOST",
        "localhost.",
        "127.0.0.1.",
    )

    @pytest.mark.parametrize("host", SPELLINGS)
    async def test_no_spelling_of_this_machine_is_connected_to(self, webhook: Open, raw: RawServer, host: str) -> None:
        outcome = await webhook(f"http://{host}:{raw.port}/", allow_private=False).deliver(a_wake())
        assert isinstance(outcome, Failed)
        assert raw.connections == 0

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"])
    async def test_a_refused_address_is_named_to_the_operator_and_not_tried_again(
        self, webhook: Open, raw: RawServer, host: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        outcome = await webhook(f"http://{host}:{raw.port}/", allow_private=False).deliver(a_wake())
        assert isinstance(outcome, Failed)
        assert not outcome.retryable
        assert outcome.error == "the target's address is private and is not allowed by allow_private"
        assert "127.0.0.1" in caplog.text

    async def test_a_name_is_judged_by_what_it_means_when_it_is_used(
        self, webhook: Open, raw: RawServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """DNS rebinding: the name was public when somebody looked, and is this machine now."""
        import socket

        def lookup(host: str, port: int, *args: Any) -> list[Any]:
            assert host == "rebound.example"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

        monkeypatch.setattr(socket, "getaddrinfo", lookup)
        outcome = await webhook(f"http://rebound.example:{raw.port}/", allow_private=False).deliver(a_wake())
        assert isinstance(outcome, Failed)
        assert outcome.error == "the target's address is private and is not allowed by allow_private"
        assert "not sent: address 127.0.0.1 is private" in caplog.text  # for the operator alone
        assert raw.connections == 0

    async def test_the_address_that_was_judged_is_the_one_that_is_used(
        self, webhook: Open, raw: RawServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A name that means another address each time it is looked up."""
        import socket

        looked_up: list[str] = []

        def lookup(host: str, port: int, *args: Any) -> list[Any]:
            looked_up.append("127.0.0.2" if not looked_up else "127.0.0.1")
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (looked_up[-1], port))]

        monkeypatch.setattr(socket, "getaddrinfo", lookup)
        target = webhook(f"http://turning.example:{raw.port}/", allow_private=("127.0.0.2/32",))
        assert isinstance(await target.deliver(a_wake()), Failed)  # nobody listens at the address that was allowed
        assert looked_up == ["127.0.0.2"]
        assert raw.connections == 0

    async def test_one_good_address_among_refused_ones_is_used(
        self, webhook: Open, raw: RawServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import socket

        def lookup(host: str, port: int, *args: Any) -> list[Any]:
            addresses = ["10.0.0.1", "169.254.169.254", "127.0.0.1"]
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

        monkeypatch.setattr(socket, "getaddrinfo", lookup)
        target = webhook(f"http://some.example:{raw.port}/", allow_private=("127.0.0.0/8",))
        assert await target.deliver(a_wake()) == Delivered("HTTP 200")

    async def test_a_named_network_is_allowed(self, webhook: Open, raw: RawServer) -> None:
        outcome = await webhook(raw.url, allow_private=("127.0.0.0/8",)).deliver(a_wake())
        assert outcome == Delivered("HTTP 200")

    async def test_metadata_services_stay_closed_even_where_private_addresses_are_allowed(self, webhook: Open) -> None:
        outcome = await webhook("http://169.254.169.254/latest/meta-data", allow_private=True).deliver(a_wake())
        assert isinstance(outcome, Failed)
        assert not outcome.retryable


class TestSecrets:
    async def test_nothing_secret_turns_up_in_an_error_text(self, webhook: Open, receiver: Receiver) -> None:
        """A receiver can echo whatever it was sent."""
        secrets = ["hunter2-header", "planted-query", "planted-old-secret", SECRET]
        wake = a_wake()
        settings: dict[str, Any] = {
            "secret": SECRET,
            "previous_secret": "planted-old-secret",
            "headers": {"authorization": "Bearer hunter2-header"},
            "timeout": 0.5,
        }
        target = webhook(receiver.url + "?token=planted-query", **settings)
        for padding in (0, 290):
            echo = "x" * padding + " ".join([*secrets, wake.report_token, wake.token, "token=planted-query"])
            receiver.answer(400, body=echo)
        receiver.redirect("http://planted-query@example.com/planted-query?token=planted-query")
        receiver.hang()
        receiver.reset()
        errors = [await target.deliver(wake) for _ in range(5)]
        errors.append(await webhook("http://nowhere.invalid/?token=planted-query", **settings).deliver(wake))
        for outcome in errors:
            assert isinstance(outcome, Failed)
            for secret in (*secrets, "hunter2", "planted-q", wake.report_token, wake.token, wake.token[-43:]):
                assert secret not in outcome.error


class TestSettings:
    @pytest.mark.parametrize(
        "url",
        [
            "",
            "example.com",
            "ftp://example.com/",
            "file:x",
            "http://",
            "http:///path",
            "https://:80/",
            "http://user:pw@example.com/",
            "http://@example.com/",
            "http://example.com/#x",
            "http://example.com:99999/",
            "http://example.com/\r\nx: y",
            "http://exa mple.com/",
            "http://[::1/",
            "javascript:alert(1)",
            "//example.com",
            "http:\\\\example.com",
            "http://example.com\x00/",
        ],
    )
    def test_a_url_that_is_not_plain_http_is_refused(self, url: str) -> None:
        with pytest.raises(InvalidConfig) as caught:
            check_url(url)
        assert caught.value.field == "url"
        assert "pw" not in str(caught.value)

    @pytest.mark.parametrize("url", ["http://example.com", "https://example.com:8443/a/b?c=d", "http://[2606::1]:80/"])
    def test_a_plain_url_is_accepted(self, url: str) -> None:
        check_url(url)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("Host", "evil"),
            ("content-LENGTH", "1"),
            ("Transfer-Encoding", "chunked"),
            ("Connection", "close"),
            ("Webhook-Id", "x"),
            ("wakeful-attempt", "1"),
            ("x\r\ny", "z"),
            ("", "x"),
            ("x", "a\r\nb: c"),
            ("x", "a\x00"),
            ("x y", "z"),
        ],
    )
    def test_headers_that_are_ours_or_break_lines_are_refused(self, webhook: Open, name: str, value: str) -> None:
        with pytest.raises(InvalidConfig) as caught:
            webhook("http://example.com", headers={name: value})
        assert caught.value.field == "headers"

    @pytest.mark.parametrize(
        "settings", [{"timeout": 0}, {"timeout": float("nan")}, {"allow_private": ("x",)}, {"secret": "whsec_?"}]
    )
    def test_a_wrong_setting_is_refused(self, webhook: Open, settings: dict[str, Any]) -> None:
        with pytest.raises(InvalidConfig):
            webhook("http://example.com", **settings)
