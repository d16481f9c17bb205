"""Log lines: what an operator needs, in either format, and never a secret."""

from __future__ import annotations

import io
import json
import logging
import threading
import time
from collections.abc import Iterator

import pytest

from tests.dispatcher.conftest import World, clock, outbox, place, store, world
from wakeful.dispatcher.observability import shown
from wakeful.errors import InvalidConfig
from wakeful.model.alarm import Row
from wakeful.model.outcome import Delivered, Failed, Outcome
from wakeful.rules.wake import Wake
from wakeful.runtime.logs import FIRST, FORMATS, HIDDEN, SPAN, Summing, log_to_stderr, redacted
from wakeful.settings import Settings, load
from wakeful.targets.handler import Handler
from wakeful.targets.webhook import Webhook
from wakeful.testing.conformance import Outbox
from wakeful.testing.receiver import Receiver

__all__ = ["clock", "outbox", "place", "store", "world"]

TOKEN = "wk_0123456789abcdef_" + "s" * 43
WHSEC = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
REPORT = "9f" * 32
SECRETS = {
    "token": f"Authorization: Bearer {TOKEN}",
    "bare token": f"used {TOKEN}.",
    "another bearer": "authorization: bearer s3cr3t-r0uter",
    "whsec": f"the secret is {WHSEC}",
    "dsn": "cannot reach postgresql://me:hunt/er2@x@db.example:5432/clock now",
    "dsn by parameter": "postgresql://db.example/clock?user=me&password=hunter2&x=1",
    "report token": f'{{"report": {{"token": "{REPORT}"}}}}',
    "bare report token": f"said {REPORT}!",
    "configured": "it was plain-old-secret after all",
}
PLANTED = ("s" * 43, "s3cr3t-r0uter", WHSEC[6:], "hunt", "er2@x", REPORT, "plain-old-secret")


class Page:
    """What was logged."""

    def __init__(self, stream: io.StringIO, format: str) -> None:
        self._stream = stream
        self.format = format

    @property
    def text(self) -> str:
        return self._stream.getvalue()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


@pytest.fixture(params=FORMATS)
def page(request: pytest.FixtureRequest) -> Iterator[Page]:
    root, ours = logging.getLogger(), logging.getLogger("wakeful")
    kept = root.handlers[:], root.level, ours.level
    for handler in kept[0]:
        root.removeHandler(handler)  # else they would be closed
    stream = io.StringIO()
    log_to_stderr("debug", request.param, hide=["plain-old-secret"], stream=stream)
    yield Page(stream, request.param)
    root.handlers[:] = kept[0]
    root.setLevel(kept[1])
    ours.setLevel(kept[2])


@pytest.mark.parametrize("said", SECRETS.values(), ids=SECRETS)
def test_no_secret_is_in_a_line_its_fields_or_its_exception(page: Page, said: str) -> None:
    log = logging.getLogger("wakeful.somewhere")
    log.warning("it said %s", said)
    log.warning(said, extra={"target": said, "reason": said})
    try:
        try:
            raise ValueError(said)
        except ValueError as error:
            raise RuntimeError(f"around {said}") from error
    except RuntimeError:
        log.exception("broke: %s", said, stack_info=True)
    logging.getLogger("somebody.else").error(said)
    assert HIDDEN in page.text
    for secret in PLANTED:
        assert secret not in page.text


def test_what_is_no_secret_stays() -> None:
    for said in (
        "https://ops.example/a?b=c",
        "token new --owner ada",
        "a wk of wks",
        "3 basic facts"[2:3],
        "01900000-0000",
    ):
        assert redacted(said) == said
    assert redacted("postgresql://me:pw@db.example/clock") == f"postgresql://{HIDDEN}@db.example/clock"


def test_a_line_stays_one_line(page: Page) -> None:
    logging.getLogger("wakeful.x").warning("first\nsecond\x1b[31m\u202e %s", "\ud800")
    assert len(page.lines) == 1
    assert "\x1b" not in page.text
    assert "\u202e" not in page.text


def test_a_line_of_json_has_its_fields_and_no_others(page: Page) -> None:
    logging.getLogger("wakeful.x").info("hello %d", 3, extra={"alarm_id": "a", "ms": 12, "payload": "do not show"})
    assert "do not show" not in page.text
    if page.format == "json":
        line = json.loads(page.lines[0])
        assert line.pop("time").endswith("Z")
        assert line == {"level": "info", "logger": "wakeful.x", "message": "hello 3", "alarm_id": "a", "ms": 12}
    else:
        assert page.lines[0].endswith("INFO wakeful.x: hello 3 alarm_id=a ms=12")


def test_an_exception_is_part_of_its_json_line(page: Page) -> None:
    try:
        raise ValueError("x" * 3 + "\ud800")
    except ValueError:
        logging.getLogger("wakeful.x").exception("broke")
    assert "ValueError: xxx" in page.text
    if page.format == "json":
        assert "Traceback" in json.loads(page.lines[0])["exception"]


def test_a_line_with_wrong_arguments_is_still_logged(page: Page) -> None:
    logging.getLogger("wakeful.x").warning("%s and %s", "one")
    assert "%s and %s" in page.text


def test_what_cannot_be_printed_is_written_as_python_would(page: Page) -> None:
    signs = "\n\r\t\x00\x7f\x85\u200b\u2028\ud800\U000e0001"
    logging.getLogger("wakeful.x").warning("a%sb", signs)
    expected = f"a{signs.encode('unicode_escape').decode()}b"
    assert (json.loads(page.lines[0])["message"] if page.format == "json" else page.lines[0]).endswith(expected)


class TestAFlood:
    """The first lines that are alike are written, the others summed up; the sum always comes."""

    @pytest.fixture
    def watch(self) -> list[float]:
        return [100.0]

    @pytest.fixture
    def handler(self, watch: list[float]) -> Iterator[Summing]:
        handler = Summing(io.StringIO(), watch=lambda: watch[0])
        yield handler
        handler.close()

    @staticmethod
    def say(handler: Summing, words: str, *args: object, level: int = logging.WARNING, **extra: object) -> None:
        record = logging.LogRecord("wakeful.x", level, "x.py", 1, words, args, None)
        record.__dict__.update(extra)
        handler.handle(record)

    @staticmethod
    def lines(handler: Summing) -> list[str]:
        assert isinstance(handler.stream, io.StringIO)
        return handler.stream.getvalue().splitlines()

    def test_is_summed_up_with_the_next_line_after_its_span(self, handler: Summing, watch: list[float]) -> None:
        for n in range(1254):
            self.say(handler, "no %d", n)
        first = [f"no {n}" for n in range(FIRST)]
        assert self.lines(handler) == first
        watch[0] += SPAN
        self.say(handler, "something else")
        assert self.lines(handler) == [*first, "no 20 … and 1,234 more like this within 10 s", "something else"]
        self.say(handler, "no %d", 7)  # a new span
        assert self.lines(handler)[-1] == "no 7"

    def test_is_summed_up_at_the_end(self, handler: Summing, watch: list[float]) -> None:
        for _ in range(30):
            self.say(handler, "no")
        watch[0] += 3
        handler.close()
        assert self.lines(handler)[-1] == "no … and 10 more like this within 3 s"

    def test_is_summed_up_also_when_nothing_follows(self) -> None:
        handler = Summing(io.StringIO(), span=0.05)
        for _ in range(30):
            self.say(handler, "no")
        for _ in range(3000):
            if len(self.lines(handler)) > FIRST:
                break
            threading.Event().wait(0.01)
        assert self.lines(handler)[-1] == "no … and 10 more like this within 1 s"
        handler.close()
        assert len(self.lines(handler)) == FIRST + 1

    def test_hides_no_other_line(self, handler: Summing) -> None:
        for _ in range(FIRST + 5):
            self.say(handler, "delivery failed: %s", "HTTP 500", target="ops")
        self.say(handler, "delivery failed: %s", "HTTP 500", target="desk")
        self.say(handler, "delivery failed: %s", "HTTP 500", target="ops", level=logging.ERROR)
        self.say(handler, "no")
        assert self.lines(handler)[FIRST:] == ["delivery failed: HTTP 500"] * 2 + ["no"]

    def test_of_lines_that_differ_in_numbers_is_one(self, handler: Summing) -> None:
        for n in range(100):
            self.say(handler, f"no {n} at {n:#x}")
        assert len(self.lines(handler)) == FIRST

    def test_of_lines_that_all_differ_is_summed_up_too(self, handler: Summing) -> None:
        for n in range(3000):
            self.say(handler, "no " + "x" * n)
        written = len(self.lines(handler))
        assert written < 300
        handler.close()
        assert self.lines(handler)[-1].endswith(f" … and {3000 - written:,} more like this within 1 s")

    def test_of_debug_lines_was_asked_for(self, handler: Summing) -> None:
        for _ in range(100):
            self.say(handler, "request", level=logging.DEBUG)
        assert len(self.lines(handler)) == 100

    def test_keeps_no_secret_in_its_sum(self, page: Page) -> None:
        for _ in range(30):
            logging.getLogger("wakeful.x").warning("used %s", TOKEN, extra={"hide": ("wake up",), "reason": "wake up"})
        logging.getLogger().handlers[0].close()
        assert "10 more like this" in page.text
        assert "s" * 43 not in page.text
        assert "wake up" not in page.text


def test_libraries_do_not_speak_below_info(page: Page) -> None:
    logging.getLogger("mcp.server").debug("here is a whole message")
    logging.getLogger("wakeful.x").debug("ours")
    assert "whole message" not in page.text
    assert "ours" in page.text


async def test_a_failed_delivery_and_its_end_are_logged_without_what_was_said(page: Page, world: World) -> None:
    def broken(_: object) -> Failed:
        raise RuntimeError("I was told: wake up {'page': 'secret-page'}")

    world.desk.answer(Failed("HTTP 500: you sent wake up"), broken)
    alarm = await world.set(1, max_failures=1, payload='{"page": "secret-page"}')
    await world.run_due(1)
    await world.run_due(120)
    assert "delivery failed: HTTP 500" in page.text
    assert "a fire failed for good" in page.text
    assert alarm.fire_id in page.text
    assert "the target broke: RuntimeError in " in page.text
    assert "wake up" not in page.text
    assert "secret-page" not in page.text
    if page.format == "json":
        failed = [json.loads(line) for line in page.lines if "delivery failed" in line]
        assert [(line["level"], line["target"], line["attempt"]) for line in failed] == [
            ("info", "desk", 1),
            ("info", "desk", 2),
        ]


async def test_an_exception_of_a_handler_is_logged_with_its_traceback_and_whose_it_is(page: Page, world: World) -> None:
    async def read_the_page(wake: Wake) -> None:
        raise LookupError(f"page 7 of {wake.message}")

    world.serve("ops", Handler(read_the_page))
    alarm = await world.set(1, max_failures=0, target="ops")
    await world.run_due(1)
    [fire] = await world.fires(alarm)
    assert fire.last_error == "LookupError: page 7 of wake up"  # the fire keeps all of it
    assert "in read_the_page" in page.text
    assert "LookupError: page 7 of" in page.text
    assert "wake up" not in page.text
    if page.format == "json":
        [line] = [told for told in map(json.loads, page.lines) if told["logger"] == "wakeful.handler"]
        assert (line["level"], line["target"]) == ("error", "ops")
        assert (line["alarm_id"], line["fire_id"]) == (alarm.id, alarm.fire_id)
        assert "read_the_page" in line["message"]
        assert line["exception"].startswith("Traceback")
    else:
        [head] = [line for line in page.lines if "wakeful.handler" in line]
        assert "ERROR" in head
        assert "the handler 'ops' (test_an_exception" in head
        assert f"alarm {alarm.id}, fire {alarm.fire_id}, attempt 1" in head


async def test_a_row_its_table_refuses_is_logged_at_once_with_the_databases_reason(
    page: Page, world: World, outbox: Outbox
) -> None:
    class IntoOutbox:
        async def deliver(self, wake: Wake) -> Outcome:
            return Delivered(row=Row(outbox.table, {"fire_id": wake.fire_id, "body": None}, "fire_id"))

        async def close(self) -> None: ...

    world.serve("table", IntoOutbox())
    alarm = await world.set(1, target="table")
    await world.run_due(1)
    [line] = [line for line in page.lines if "delivery failed: the row could not be written: " in line]
    assert "WARNING" in line or '"warning"' in line
    assert alarm.fire_id in line
    assert "outbox" in line
    assert "body" in line
    assert "wake up" not in page.text


SAID_BY_DATABASES = {
    "could not insert: ConstraintError: NOT NULL constraint failed: messages.chat_jid": None,
    "could not insert: SQLError: table messages has no column named topic": None,
    "could not insert: not done within 30 s": None,
    "the row could not be written: messages: CHECK constraint failed: length(content) < 10": None,
    'could not insert: NotNullViolationError: null value in column "x" violates not-null constraint': None,
    'could not insert: InvalidTextRepresentationError: invalid input syntax for type integer: "wake \'me\' "up" now': (
        "could not insert: InvalidTextRepresentationError: invalid input syntax for type integer: …"
    ),
    'could not insert: NumericValueOutOfRangeError: value "99999999999" is out of range for type integer': (
        'could not insert: NumericValueOutOfRangeError: value "…" is out of range for type integer'
    ),
    "could not insert: DataError: invalid input for query argument $1: 'wake up' (expected int)": (
        "could not insert: DataError: invalid input for query argument $1: …"
    ),
    "the row could not be written: PostgreSQL does not take this: no\nDETAIL:  Failing row contains (wake up).": (
        "the row could not be written: PostgreSQL does not take this: no"
    ),
    "HTTP 500: you sent wake up": "HTTP 500",
    "": "no reason given",
}


@pytest.mark.parametrize(("error", "expected"), SAID_BY_DATABASES.items())
def test_what_a_database_says_of_its_columns_is_shown_and_the_values_it_quotes_are_not(
    error: str, expected: str | None
) -> None:
    assert shown(error) == (error if expected is None else expected)


async def test_a_silent_fire_is_logged(page: Page, world: World) -> None:
    alarm = await world.set(1, policy={"report_within": 60, "on_silence": "give_up"})
    await world.run_due(1)
    await world.run_due(61)
    [line] = [line for line in page.lines if "no report came in time" in line]
    assert alarm.id in line
    assert "warning" in line.lower()
    assert "it is sent again" not in line


async def test_a_silent_fire_is_logged_when_it_is_sent_again_and_when_it_ends(page: Page, world: World) -> None:
    alarm = await world.set(1, max_failures=1, policy={"report_within": 60})
    await world.run_due(1)
    await world.run_due(61)
    [again] = [line for line in page.lines if "no report came in time" in line]
    assert "no report came in time, it is sent again" in again
    assert alarm.id in again
    assert "info" in again.lower()
    await world.run_due(60)
    await world.run_due(61)
    [_, end] = [line for line in page.lines if "no report came in time" in line]
    assert alarm.id in end
    assert "warning" in end.lower()
    assert "it is sent again" not in end


async def test_an_attempt_and_its_log_line_share_a_trace(page: Page, world: World) -> None:
    async with Receiver() as receiver:
        receiver.always(500)
        world.serve("hook", Webhook(url=receiver.url, clock=world.clock, allow_private=True, secret=WHSEC))
        await world.set(1, target="hook")
        await world.run_due(1)
        await world.run_due(120)
        await world.served["hook"].target.close()
    sent = [request.headers["traceparent"] for request in receiver.wakes]
    assert len(set(sent)) == 2
    for header in sent:
        version, trace, span, flags = header.split("-")
        assert (version, len(trace), len(span), flags) == ("00", 32, 16, "01")
        assert any(trace in line and "delivery failed" in line for line in page.lines)


def test_the_settings_know_what_they_keep_secret() -> None:
    settings = Settings(
        wake_token="router-token",
        targets={
            "hook": {"kind": "webhook", "url": "https://h.example/T0/x", "secret": "old", "headers": {"x-key": "hk"}},
            "ops": {"kind": "notify", "urls": ["slack://a/b/c"], "concurrency": 3},
        },
    )
    assert {"router-token", "https://h.example/T0/x", "old", "hk", "slack://a/b/c"} == set(settings.secrets)


def test_another_format_is_refused() -> None:
    with pytest.raises(InvalidConfig) as refusal:
        load(environ={"WAKEFUL_LOG_FORMAT": "xml"})
    assert refusal.value.field == "log_format"


@pytest.mark.parametrize(
    "piece", ["a://", "a+b.c-d://", "password ", "password:", "bearer ", "wk_", "token=[hidden", "@://"]
)
def test_a_line_of_any_length_is_looked_through_once(piece: str) -> None:
    """Twice the text, twice the time: a long id must not hold up everybody while it is redacted."""

    def seconds(length: int) -> float:
        text = piece * (length // len(piece))
        began = time.thread_time()
        redacted(text)
        return time.thread_time() - began

    short = max(seconds(20_000) for _ in range(3))
    assert min(seconds(160_000) for _ in range(3)) < 24 * short  # eight times the text; the square would be 64 times


def test_the_password_of_a_url_goes_as_far_as_the_last_at_of_its_word() -> None:
    said = 'to "postgres://a:p@ss/w@db/x" and x://y@z, http://here/there@ but not me@example.org://x or http://plain'
    assert redacted(said) == (
        'to "postgres://[hidden]@db/x" and x://[hidden]@z, http://[hidden]@ but not me@example.org://x or http://plain'
    )
