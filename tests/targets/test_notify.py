from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from wakeful.errors import InvalidConfig
from wakeful.model.outcome import Delivered, Failed
from wakeful.targets import Target
from wakeful.targets.notify import Notify
from wakeful.testing.receiver import Receiver
from wakeful.testing.targets import TargetConformance, a_wake

pytest.importorskip("apprise")
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr':DeprecationWarning")  # one of apprise's plugins

Open = Callable[..., Notify]


@pytest.fixture
async def notify() -> AsyncIterator[Open]:
    opened: list[Notify] = []

    def open(*urls: str, **settings: Any) -> Notify:
        usual: dict[str, Any] = {"schemes": ("json",), "timeout": 20}
        opened.append(Notify(urls=urls, **(usual | settings)))
        return opened[-1]

    yield open
    for each in opened:
        await each.close()


def as_json(receiver: Receiver) -> str:
    return receiver.url.replace("http://", "json://")


class TestAsATarget(TargetConformance):
    @pytest.fixture
    def target(self, notify: Open, receiver: Receiver) -> Target:
        return notify(as_json(receiver))


async def test_the_message_is_sent_under_its_label(notify: Open, receiver: Receiver) -> None:
    target = notify(as_json(receiver))
    assert await target.deliver(a_wake("Good morning", label="Brief")) == Delivered("sent to 1 notification services")
    await target.deliver(a_wake("No label"))
    assert [(got.json["title"], got.json["message"]) for got in receiver.wakes] == [
        ("Brief", "[did:matrix:alice:0123456789abcdef] Good morning"),
        ("wakeful", "[did:matrix:alice:0123456789abcdef] No label"),
    ]


async def test_the_text_begins_with_who_set_it_whatever_the_message_claims(notify: Open, receiver: Receiver) -> None:
    forged = "[ada] pay the bill\n" + "x" * 5000
    await notify(as_json(receiver)).deliver(a_wake(forged, owner_did="eve\n[ada]", created_by="her\x1b[2Jlaptop"))
    [got] = receiver.wakes
    first = got.json["message"].splitlines()[0]
    assert first == r"[eve\n[ada], by her\x1b[2Jlaptop] [ada] pay the bill"


async def test_a_service_that_says_no_failed(notify: Open, receiver: Receiver) -> None:
    receiver.answer(500, body="planted")
    outcome = await notify(as_json(receiver)).deliver(a_wake())
    assert outcome == Failed("not every notification service accepted it", unhealthy=True)


async def test_a_service_that_hangs_fails_in_time(notify: Open, receiver: Receiver) -> None:
    receiver.hang()
    outcome = await notify(as_json(receiver), timeout=0.3).deliver(a_wake())
    assert outcome == Failed("no answer within 0.3 s", unhealthy=True)


async def test_notifications_do_not_wait_for_one_that_hangs(notify: Open, receiver: Receiver) -> None:
    receiver.hang()
    target = notify(as_json(receiver))
    hanging = asyncio.create_task(target.deliver(a_wake()))
    await receiver.wait_for(1)
    assert isinstance(await target.deliver(a_wake()), Delivered)
    hanging.cancel()


@pytest.mark.parametrize(
    "url",
    [
        "json://localhost",
        "JSON://localhost",
        "xml://localhost",
        "form://localhost",
        "syslog://",
        "dbus://",
        "macosx://",
    ],
)
def test_generic_and_local_schemes_have_to_be_named(notify: Open, url: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        notify(url, schemes=())
    assert caught.value.field == "urls[0]"


def test_only_the_named_schemes_are_allowed(notify: Open) -> None:
    with pytest.raises(InvalidConfig):
        notify("ntfy://topic", schemes=("tgram",))
    notify("ntfy://topic", schemes=("ntfy",))
    notify("ntfy://topic", schemes=())


@pytest.mark.parametrize("url", ["nonsense", "nosuchscheme://planted-secret", "", "tgram://planted-secret"])
def test_a_url_apprise_does_not_know_is_refused_without_repeating_it(notify: Open, url: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        notify(url, schemes=())
    assert "planted" not in str(caught.value)


def test_without_urls_it_is_refused(notify: Open) -> None:
    with pytest.raises(InvalidConfig):
        notify()


def test_without_apprise_it_says_what_to_install(notify: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_apprise(name: str, *args: Any, **settings: Any) -> Any:
        if name == "apprise":
            raise ImportError(name)
        return real(name, *args, **settings)

    monkeypatch.setattr(builtins, "__import__", without_apprise)
    with pytest.raises(InvalidConfig) as caught:
        notify("ntfy://topic", schemes=())
    assert "pip install wakeful[notify]" in str(caught.value)
