"""Targets have users: what an owner may not use is unknown to them, at every verb and again at delivery."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.acting import Draft, acting, keep, keep_many
from wakeful.dispatcher import ServedTarget
from wakeful.errors import InvalidConfig, InvalidRequest, UnknownTarget
from wakeful.model.alarm import Alarm
from wakeful.model.requests import EditRequest
from wakeful.process.application import build_targets
from wakeful.python.client import LocalWakeful
from wakeful.settings import Settings, load
from wakeful.settings.values import users_of
from wakeful.store import Store, Worker
from wakeful.targets.inbox import Inbox
from wakeful.testing import ManualClock
from wakeful.testing.receiver import RecordingTarget

# Tables are where words are read: only the operator's, and only ada's.
TARGETS: dict[str, tuple[str, Any]] = {
    "router": ("router", None),
    "house": ("table", None),
    "adas": ("table", ["ada"]),
    "phone": ("notify", None),
    "board": ("notify", ["*"]),
    "hook": ("webhook", None),
    "adas_hook": ("webhook", ["ada", "bob"]),
}


class House:
    """A server of many owners: `local` runs it."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.heard = RecordingTarget()
        self.opened()

    def opened(self, *, only: dict[str, tuple[str, Any]] | None = None, **settings: Any) -> None:
        """The process, with these settings from now on."""
        self.settings = Settings(**settings)
        served = {"inbox": ServedTarget(Inbox(), 64)}
        for name, (kind, owners) in (TARGETS if only is None else only).items():
            served[name] = ServedTarget(self.heard, 64, users=users_of(self.settings, name, kind, owners))
        self.wakeful = LocalWakeful(self.store, settings=self.settings, targets=served, clock=self.clock)
        self.service = self.wakeful.service

    def draft(self, owner: str, target: str, **given: Any) -> Draft:
        usual: dict[str, Any] = {"wake_message": "do as I say", "delay": timedelta(minutes=1)}
        return Draft(owner_did=owner, target=target, **usual | given)

    async def set(self, owner: str, target: str, **given: Any) -> Alarm:
        return (await keep(self.service, self.draft(owner, target, **given))).alarm

    async def count(self, owner: str) -> int:
        return (await acting(self.service, owner).stats()).pending


@pytest.fixture
def house(store: Store, clock: ManualClock) -> House:
    return House(store, clock)


@pytest.mark.parametrize(
    ("owner", "may"),
    [
        ("local", {"inbox", "router", "house", "phone", "board", "hook"}),
        ("ada", {"inbox", "router", "adas", "board", "hook", "adas_hook"}),
        ("eve", {"inbox", "router", "board", "hook"}),
    ],
)
async def test_each_owner_has_the_targets_that_are_theirs(house: House, owner: str, may: set[str]) -> None:
    for name in ("inbox", *TARGETS):
        if name in may:
            assert (await house.set(owner, name)).target == name
            continue
        with pytest.raises(UnknownTarget) as refused:
            await house.set(owner, name)
        assert refused.value.field == "target"
        assert refused.value.message == f"there is no target {name!r}"
        assert refused.value.fix == f"Known names: {', '.join(sorted(may))}."
    assert await house.count(owner) == len(may)


async def test_many_at_once_are_refused_for_one(house: House) -> None:
    with pytest.raises(UnknownTarget):
        await keep_many(house.service, [house.draft("eve", "hook"), house.draft("eve", "house")])
    assert await house.count("eve") == 0


async def test_an_edit_does_not_lead_there(house: House) -> None:
    alarm = await house.set("eve", "hook")
    for owner in ("eve", ""):  # nor for whoever edits it in her place
        with pytest.raises(UnknownTarget):
            await acting(house.service, owner).edit(alarm.id, EditRequest(target="house"))
    assert (await acting(house.service, "eve").edit(alarm.id, EditRequest(target="board"))).alarm.target == "board"
    mine = await house.set("local", "hook")
    assert (await acting(house.service, "local").edit(mine.id, EditRequest(target="house"))).alarm.target == "house"


async def test_a_replacement_does_not_lead_there(house: House) -> None:
    alarm = await house.set("eve", "hook", idempotency_key="k")
    with pytest.raises(UnknownTarget):
        await keep(house.service, house.draft("eve", "house", idempotency_key="k"), on_conflict="replace")
    assert (await acting(house.service, "eve").get(alarm.id)).target == "hook"


async def test_what_is_no_longer_theirs_is_not_fired_by_hand(house: House) -> None:
    house.opened(only=TARGETS | {"house": ("table", ["*"])})
    alarm = await house.set("eve", "house")
    assert await acting(house.service, "eve").fire(alarm.id)
    house.opened()
    with pytest.raises(UnknownTarget):
        await acting(house.service, "eve").fire(alarm.id)


@pytest.mark.parametrize("timing", [{"delay": timedelta(minutes=1)}, {"delay": None, "cron_expr": "* * * * *"}])
async def test_what_is_no_longer_theirs_ends_refused_and_undelivered(house: House, timing: dict[str, Any]) -> None:
    house.opened(only=TARGETS | {"house": ("table", ["*"])})
    hers = await house.set("eve", "house", **timing)
    mine = await house.set("local", "house")
    house.opened()
    await house.clock.advance(timedelta(minutes=1))
    await house.wakeful.run_due()
    assert [wake.alarm_id for wake in house.heard.wakes] == [mine.id]
    [fire] = await acting(house.service, "").fires(hers.id)
    assert (fire.status, fire.reason, fire.attempts) == ("failed", "refused", 0)
    assert fire.last_error == "not delivered: its owner is not allowed to use this target"
    after = await acting(house.service, "eve").get(hers.id)
    assert after.status == ("active" if after.kind == "cron" else "failed")
    assert (
        "its owner is not allowed to use this target"
        in (await acting(house.service, "eve", limited=True).why(hers.id)).summary
    )
    with pytest.raises(UnknownTarget):
        await house.set("eve", "house")


async def test_who_names_no_target_is_not_told_the_usual_one(house: House) -> None:
    house.opened(default_target="house")
    with pytest.raises(UnknownTarget) as refused:
        await house.set("eve", "house")
    assert "house" not in str(refused.value)
    assert refused.value.field == "target"


async def test_a_worker_of_the_same_targets_does_not_open_them(house: House) -> None:
    """It tells which targets it serves, for those that are configured elsewhere."""
    now = house.clock.now()
    told: dict[str, Any] = {"targets": ("house", "adas", "far"), "handlers": ("agent",)}
    await house.store.maintenance.beat(
        Worker(id="w", host="h", pid=1, version="0", started_at=now, seen_at=now, **told)
    )
    for name in ("house", "adas", "nowhere"):
        with pytest.raises(UnknownTarget) as refused:
            await house.set("eve", name)
        assert refused.value.fix == "Known names: agent, board, hook, inbox, router."
    assert (await house.set("eve", "agent")).target == "agent"
    with pytest.raises(UnknownTarget, match="adas_hook, agent, board, far, hook"):
        await house.service.targets.pause("nowhere")
    await house.service.targets.pause("house")  # whoever runs it may, also where they do not use it


# Chats

CHATS = {"ada": ["ada@g.us", "ada-*"], "*": ["lobby@g.us"]}


@pytest.mark.parametrize(
    ("owner", "chat", "may"),
    [
        ("ada", "ada@g.us", True),
        ("ada", "ada-family@g.us", True),
        ("ada", "lobby@g.us", True),
        ("ada", "", True),
        ("ada", "Ada@g.us", False),
        ("ada", "eve@g.us", False),
        ("eve", "ada-@g.us", False),
        ("eve", "lobby@g.us", True),
        ("local", "eve@g.us", True),
    ],
)
async def test_an_owner_writes_to_the_chats_that_are_mapped_to_them(
    house: House, owner: str, chat: str, may: bool
) -> None:
    house.opened(only=TARGETS | {"house": ("table", ["*"])}, chats=CHATS)
    alarm = await house.set(owner, "house")
    edit = EditRequest(conversation_id=chat)
    if may:
        assert (await house.set(owner, "house", conversation_id=chat)).conversation_id == chat
        assert (await acting(house.service, owner).edit(alarm.id, edit)).alarm.conversation_id == chat
        return
    for asked in (
        house.set(owner, "house", conversation_id=chat),
        acting(house.service, owner).edit(alarm.id, edit),
        acting(house.service, owner).edit(
            (await house.set(owner, "hook", conversation_id=chat)).id, EditRequest(target="house")
        ),
    ):
        with pytest.raises(InvalidRequest) as refused:
            await asked
        assert refused.value.field == "conversation_id"
        assert "the setting `chats`" in refused.value.fix


async def test_who_is_named_in_the_map_is_held_to_it_whoever_they_are(house: House) -> None:
    house.opened(chats={"local": ["mine@g.us"]})
    with pytest.raises(InvalidRequest):
        await house.set("local", "house", conversation_id="eve@g.us")


async def test_a_chat_that_was_taken_from_its_owner_gets_nothing_more(house: House) -> None:
    open_to_all = TARGETS | {"house": ("table", ["*"])}
    house.opened(only=open_to_all)
    hers = await house.set("eve", "house", conversation_id="ada@g.us")
    await house.set("ada", "house", conversation_id="ada@g.us")
    house.opened(only=open_to_all, chats=CHATS)
    await house.clock.advance(timedelta(minutes=1))
    await house.wakeful.run_due()
    assert [wake.owner_did for wake in house.heard.wakes] == ["ada"]
    [fire] = await acting(house.service, "").fires(hers.id)
    assert (fire.status, fire.reason) == ("failed", "refused")
    assert fire.last_error == "not delivered: its owner is not allowed to write to this chat"


# Settings


@pytest.mark.parametrize("owners", ["*", "ada", [], [""], [1], ["did:*"], ["ada", "**"], {"ada": 1}])
def test_owners_are_a_list_of_names_or_everyone(owners: Any) -> None:
    with pytest.raises(InvalidConfig) as refused:
        users_of(Settings(), "house", "table", owners)
    assert refused.value.field == "targets.house.owners"
    assert '["*"] stands for everyone' in refused.value.fix


def test_the_operator_is_who_the_settings_say() -> None:
    users = users_of(replace(Settings(), owner="me"), "house", "table")
    assert (users.may_use("me"), users.may_use("local"), users.may_use("*")) == (True, False, False)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('chats = "ada"', "chats"),
        ('[chats]\nada = "ada@g.us"', "chats"),
        ('[chats]\n"did:*" = ["a"]', "chats"),
        ('[chats]\nada = ["*a*"]', "chats.ada"),
    ],
)
def test_a_map_that_would_not_hold_stops_the_start(tmp_path: Path, text: str, field: str) -> None:
    (tmp_path / "wakeful.toml").write_text(text)
    with pytest.raises(InvalidConfig) as refused:
        load(tmp_path / "wakeful.toml", environ={})
    assert refused.value.field == field
    assert refused.value.fix


def test_the_map_and_the_owners_are_read_from_the_file(tmp_path: Path) -> None:
    owners = '[targets.gateway]\nkind = "table"\ntable = "messages"\nowners = ["ada"]\n'
    (tmp_path / "wakeful.toml").write_text(owners + '[chats]\nada = ["ada@g.us"]\n"*" = ["lobby@g.us"]\n')
    settings = load(tmp_path / "wakeful.toml", environ={"WAKEFUL_CHATS": "ignored"})
    assert settings.chats == {"ada": ["ada@g.us"], "*": ["lobby@g.us"]}
    users = build_targets(settings)["gateway"].users
    assert [users.may_use(name) for name in ("ada", "eve", "local")] == [True, False, False]
    assert users.may_write("ada", "eve@g.us") is False
