"""Tokens: who is let in, as whom, and for how long."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from tests.interfaces.world import serving
from wakeful.errors import Forbidden, InvalidRequest, Unauthorized
from wakeful.http.security.auth import PRINCIPAL, SCOPES, Auth, AuthMiddleware, Principal, mint
from wakeful.model.alarm import Event
from wakeful.settings import Settings
from wakeful.store import Store, Token
from wakeful.store.sqlite import SqliteStore
from wakeful.testing import ManualClock, store_of


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Store]:
    store = SqliteStore(str(tmp_path / "wakeful.db"), clock=clock)
    await store.migrate()
    yield store
    await store.close()


def an_auth(store: Store, clock: ManualClock, **settings: Any) -> Auth:
    return Auth(store, Settings(**settings), clock)


async def a_token(store: Store, clock: ManualClock, owner: str = "ada", *scopes: str, **more: Any) -> tuple[str, str]:
    """What goes into the header, and the token's id."""
    text, token = mint(owner, scopes or ("read", "write"), now=clock.now(), **more)
    assert await store.access.add_token(token)
    return f"Bearer {text}", token.id


# What a token is


def test_a_token_is_random_and_only_its_hash_is_kept(clock: ManualClock) -> None:
    text, token = mint("ada", ["write", "read"], now=clock.now(), lasts=timedelta(days=30))
    again, _ = mint("ada", ["read"], now=clock.now())
    prefix, id, secret = text.split("_", 2)
    assert (prefix, id, len(secret)) == ("wk", token.id, 43)
    assert again != text
    assert token.scopes == ("read", "write")
    assert token.expires_at == clock.now() + timedelta(days=30)
    assert secret.encode() not in token.hash


@pytest.mark.parametrize(
    ("owner", "scopes", "field"),
    [("ada", ["root"], "scopes"), ("ada", [], "scopes"), ("ada", [""], "scopes"), (" ", ["read"], "owner")],
)
def test_what_makes_no_token_is_refused(clock: ManualClock, owner: str, scopes: list[str], field: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        mint(owner, scopes, now=clock.now())
    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("has", "needs", "may"),
    [
        ("read", "read", True),
        ("read", "write", False),
        ("write", "read", True),
        ("write", "admin", False),
        ("admin", "read", True),
        ("admin", "write", True),
        ("admin", "admin", True),
    ],
)
def test_admin_implies_write_implies_read(has: str, needs: str, may: bool) -> None:
    principal = Principal("ada", frozenset({has}))
    if may:
        principal.need(needs)
    else:
        with pytest.raises(Forbidden, match=needs):
            principal.need(needs)


# Who is let in


async def test_without_any_token_whoever_comes_by_loopback_is_the_one_owner(store: Store, clock: ManualClock) -> None:
    auth = an_auth(store, clock, owner="me")
    assert await auth.principal(None) == Principal("me", frozenset(SCOPES), local=True)


async def test_the_owner_and_the_scopes_come_from_the_token(store: Store, clock: ManualClock) -> None:
    bearer, id = await a_token(store, clock, "did:matrix:ada:0011223344556677", "admin")
    auth = an_auth(store, clock)
    expected = Principal("did:matrix:ada:0011223344556677", frozenset({"admin"}), id)
    assert await auth.principal(bearer) == expected
    assert await auth.principal(bearer.replace("Bearer ", "bearer  ")) == expected


async def test_whoever_has_no_good_token_is_not_let_in(store: Store, clock: ManualClock) -> None:
    bearer, id = await a_token(store, clock)
    other = mint("eve", ["admin"], now=clock.now())[0].split("_", 2)[2]
    auth = an_auth(store, clock)
    wrong = [
        None,
        "",
        "Bearer",
        "Bearer ",
        bearer.removeprefix("Bearer "),
        bearer.replace("Bearer", "Basic"),
        bearer[:-1],
        bearer + "A",
        f"Bearer wk_{id}_{other}",
        f"Bearer wk_{'0' * 16}_{other}",
        f"Bearer wk__{other}",
        "Bearer wk_\x00_\ud800",
    ]
    for authorization in wrong:
        with pytest.raises(Unauthorized):
            await auth.principal(authorization)


async def test_a_revoked_token_is_useless_within_two_seconds(store: Store, clock: ManualClock) -> None:
    bearer, id = await a_token(store, clock)
    await a_token(store, clock, "eve")
    auth = an_auth(store, clock)
    principal = await auth.principal(bearer)
    assert await auth.is_alive(principal)
    await store.access.update_token(id, revoked_at=clock.now())
    await clock.advance(2)
    with pytest.raises(Unauthorized, match="revoked"):
        await auth.principal(bearer)
    assert not await auth.is_alive(principal)


async def test_a_token_ends_at_its_very_moment(store: Store, clock: ManualClock) -> None:
    bearer, _ = await a_token(store, clock, lasts=timedelta(seconds=60))
    await a_token(store, clock, "eve")
    auth = an_auth(store, clock)
    await clock.advance(59.9)
    principal = await auth.principal(bearer)
    await clock.advance(0.1)  # what is remembered does not outlive it
    with pytest.raises(Unauthorized, match="expired"):
        await auth.principal(bearer)
    assert not await auth.is_alive(principal)


async def test_the_first_token_closes_the_door_within_two_seconds(store: Store, clock: ManualClock) -> None:
    auth = an_auth(store, clock)
    local = await auth.principal(None)
    assert await auth.is_alive(local)
    await a_token(store, clock)
    await clock.advance(2)
    with pytest.raises(Unauthorized):
        await auth.principal(None)
    assert not await auth.is_alive(local)


@pytest.mark.parametrize("settings", [{}, {"host": "::1"}, {"host": "0.0.0.0"}, {"did_auth": True}])
@pytest.mark.parametrize("end", ["expired", "revoked", "purged"])
async def test_the_end_of_the_last_token_opens_nothing(
    store: Store, clock: ManualClock, settings: dict[str, Any], end: str
) -> None:
    bearer, id = await a_token(store, clock, lasts=timedelta(seconds=60))
    auth = an_auth(store, clock, **settings)
    assert not (await auth.principal(bearer)).local
    if end == "revoked":
        await store.access.update_token(id, revoked_at=clock.now())
    await clock.advance(60)
    if end == "purged":
        assert await store.maintenance.purge(clock.now() + timedelta(days=1)) == 1
    for presented in (None, bearer):
        with pytest.raises(Unauthorized):
            await auth.principal(presented)
        with pytest.raises(Unauthorized):  # nor after a restart
            await an_auth(store, clock, **settings).principal(presented)


async def test_behind_a_public_address_it_is_closed_before_the_first_token(store: Store, clock: ManualClock) -> None:
    with pytest.raises(Unauthorized):
        await an_auth(store, clock, public_url="https://clock.example").principal(None)


@pytest.mark.parametrize("settings", [{}, {"public_url": "https://clock.example"}])
async def test_the_operator_opens_it_until_the_next_token(
    store: Store, clock: ManualClock, settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    ended, _ = await a_token(store, clock, "ada", "read", lasts=timedelta(seconds=60))
    auth = an_auth(store, clock, **settings)
    await store.access.open_auth(Event(at=clock.now(), what="opened"))
    with pytest.raises(Unauthorized):  # there is a token that is good
        await auth.principal(None)
    await clock.advance(60)
    assert (await auth.principal(None)).local
    assert "opened by `wakeful token open`" in caplog.text
    with pytest.raises(Unauthorized, match="expired"):
        await auth.principal(ended)
    for closed in ({"host": "0.0.0.0"}, {"did_auth": True}):
        with pytest.raises(Unauthorized):
            await an_auth(store, clock, **settings, **closed).principal(None)
    await a_token(store, clock, lasts=timedelta(seconds=1))
    await clock.advance(2)
    with pytest.raises(Unauthorized):
        await auth.principal(None)


@pytest.mark.parametrize("bad", ["Bearer", "Bearer ", "bearer nonsense", f"Bearer wk_{'0' * 16}_{'A' * 43}", "wk_x"])
async def test_a_bad_token_is_refused_also_where_none_is_needed(store: Store, clock: ManualClock, bad: str) -> None:
    auth = an_auth(store, clock)
    assert (await auth.principal(None)).local
    assert (await auth.principal("Basic YWRhOng=")).local  # a proxy's
    with pytest.raises(Unauthorized):
        await auth.principal(bad)


async def test_its_last_use_is_noted_once_a_minute(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bearer, id = await a_token(store, clock)
    touched = []
    touch = store.access.update_token

    async def counted(id: str, *, last_used_at: Any) -> None:
        touched.append(last_used_at)
        await touch(id, last_used_at=last_used_at)

    monkeypatch.setattr(store.access, "update_token", counted)
    auth = an_auth(store, clock)
    begun = clock.now()
    for _ in range(100):
        await auth.principal(bearer)
        await clock.advance(1)
    assert touched == [begun, begun + timedelta(minutes=1)]
    kept = await store.access.token(id)
    assert kept is not None
    assert kept.last_used_at == begun + timedelta(minutes=1)


async def test_lookups_are_remembered_but_not_without_bound(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bearer, _ = await a_token(store, clock)
    asked: list[str] = []
    find = store.access.token

    async def counted(id: str) -> Token | None:
        asked.append(id)
        return await find(id)

    monkeypatch.setattr(store.access, "token", counted)
    monkeypatch.setattr("wakeful.http.security.auth.REMEMBERED", 10)
    auth = an_auth(store, clock)
    for _ in range(50):
        await auth.principal(bearer)
    assert len(asked) == 1
    for number in range(50):
        with pytest.raises(Unauthorized):
            await auth.principal(f"Bearer wk_{number:016x}_{'A' * 43}")
    assert len(auth._seen) <= 10


# The middleware


async def seen(auth: Auth, method: str, path: str, authorization: str = "", **more: Any) -> Any:
    """The principal a request would have; the status where it is refused."""
    found: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        found.append(scope[PRINCIPAL])

    async def send(message: Message) -> None:
        if "status" in message or "code" in message:
            found.append(message.get("status") or message.get("code"))

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    headers = [(b"authorization", authorization.encode())] if authorization else []
    scope = {"type": "http", "method": method, "path": path, "headers": headers, "query_string": b""} | more
    await AuthMiddleware(app, auth)(scope, receive, send)
    [one] = found
    return one


async def test_every_request_under_v1_and_mcp_needs_a_token(store: Store, clock: ManualClock) -> None:
    bearer, id = await a_token(store, clock)
    auth = an_auth(store, clock)
    principal = Principal("ada", frozenset({"read", "write"}), id)
    for method, path in [
        ("GET", "/v1/alarms"),
        ("POST", "/v1/alarms"),
        ("GET", "/v1"),
        ("GET", "/v1/auth/challenge"),
        ("POST", "/v1/fires/a@1/report"),
        ("GET", "/v1/fires/a@1/report"),
        ("POST", "/v1/fires/a/b/report"),
        ("POST", "/v1/authority"),
        ("POST", "/mcp"),
        ("GET", "/mcp/x"),
    ]:
        assert await seen(auth, method, path, bearer) == principal
        assert await seen(auth, method, path) == 401
        assert await seen(auth, method, f"/clock{path}", root_path="/clock") == 401
        assert await seen(auth, method, path, root_path="/v") == 401


async def test_some_routes_are_open(store: Store, clock: ManualClock) -> None:
    await a_token(store, clock)
    auth = an_auth(store, clock)
    for method, path in [
        ("GET", "/healthz"),
        ("GET", "/readyz"),
        ("GET", "/openapi.json"),
        ("POST", "/v1/auth/challenge"),
        ("POST", "/v1/auth/verify"),
    ]:
        assert await seen(auth, method, path) is None
    assert await seen(auth, "POST", "/v1/fires/a@1/report", "Bearer abc123") is None
    assert await seen(auth, "POST", "/v1/fires/a@1/report", "Bearer wk_abc123") == 401
    assert await seen(auth, "POST", "/v1/alarms", "Bearer abc123") == 401


async def test_metrics_are_for_admins(store: Store, clock: ManualClock) -> None:
    auth = an_auth(store, clock)
    assert (await seen(auth, "GET", "/metrics")).local
    bearer, _ = await a_token(store, clock)
    admin, _ = await a_token(store, clock, "ops", "admin")
    await clock.advance(2)
    assert await seen(auth, "GET", "/metrics") == 401
    assert await seen(auth, "GET", "/metrics", bearer) == 403
    assert (await seen(auth, "GET", "/metrics", admin)).owner == "ops"


async def test_a_socket_without_a_token_is_closed_before_it_opens(store: Store, clock: ManualClock) -> None:
    bearer, _ = await a_token(store, clock)
    auth = an_auth(store, clock)
    socket: dict[str, Any] = {"type": "websocket"}
    assert await seen(auth, "", "/v1/ws", **socket) == 4401
    assert (await seen(auth, "", "/v1/ws", bearer, **socket)).owner == "ada"
    answers: dict[str, Any] = {"extensions": {"websocket.http.response": {}}}
    assert await seen(auth, "", "/v1/ws", **socket, **answers) == 401


# Over HTTP


async def test_each_token_sees_its_owners_alarms_and_nothing_else(tmp_path: Path) -> None:
    db = str(tmp_path / "w.db")
    async with serving(db) as visit:
        await visit.set(label="local")
        tokens = {}
        for owner, scopes in (("ada", ["read", "write"]), ("eve", ["write"]), ("guest", ["read"])):
            text, token = mint(owner, scopes, now=await store_of(visit.alarms).now())
            await store_of(visit.alarms).access.add_token(token)
            tokens[owner] = {"authorization": f"Bearer {text}"}
    async with serving(db) as visit:
        refused = await visit("GET", "/v1/alarms")
        assert refused.told == (401, "unauthorized", "Authorization")
        assert refused.headers["www-authenticate"] == "Bearer"
        assert (await visit("GET", "/healthz")).status == 200
        body = {"wake_message": "hello", "when": "in 1 hour"}
        made = await visit("POST", "/v1/alarms", body, headers=tokens["ada"])
        assert (made.status, made.json["owner_did"]) == (201, "ada")
        place = f"/v1/alarms/{made.json['id']}"
        assert (await visit("GET", place, headers=tokens["ada"])).status == 200
        assert (await visit("GET", place, headers=tokens["eve"])).told == (404, "not_found", "id")
        assert (await visit("DELETE", place, headers=tokens["eve"])).told == (404, "not_found", "id")
        assert (await visit("GET", "/v1/alarms", headers=tokens["eve"])).json["alarms"] == []
        assert (await visit("POST", "/v1/alarms", body, headers=tokens["guest"])).told[:2] == (403, "forbidden")
        wake = await visit.fired("ada")
        report = f"/v1/fires/{wake.fire_id}/report"
        done = {"outcome": "completed"}
        assert (await visit("POST", report, done)).status == 401
        assert (await visit("POST", report, done, headers={"authorization": "Bearer nonsense"})).status == 401
        assert (await visit("POST", report, done, headers=tokens["eve"])).status == 404
        assert (await visit("POST", report, done, headers=tokens["guest"])).status == 403
        mine = {"authorization": f"Bearer {wake.report_token}"}
        assert (await visit("POST", report, done, headers=mine)).status == 200
        assert (await visit("POST", "/v1/alarms", body, headers=mine)).status == 401


async def test_with_a_token_it_serves_to_the_outside_too(tmp_path: Path) -> None:
    db = str(tmp_path / "w.db")
    async with serving(db) as visit:
        text, token = mint("ada", ["read"], now=await store_of(visit.alarms).now())
        await store_of(visit.alarms).access.add_token(token)
    async with serving(db, host="0.0.0.0") as visit:
        visit.url = visit.url.replace("0.0.0.0", "127.0.0.1")
        assert (await visit("GET", "/v1/alarms")).status == 401
        assert (await visit("GET", "/v1/alarms", headers={"authorization": f"Bearer {text}"})).status == 200


async def test_a_server_that_lets_nobody_in_says_so_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(str(tmp_path / "w.db"), public_url="https://clock.example") as visit:
        assert (await visit("GET", "/v1/alarms")).told == (401, "unauthorized", "Authorization")
    assert "every request is refused" in caplog.text


def contents(place: Path) -> list[bytes]:
    return [file.read_bytes() for file in place.iterdir()]


async def test_no_token_is_ever_in_the_database_or_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    db = str(tmp_path / "w.db")
    async with serving(db) as visit:
        text, token = mint("ada", SCOPES, now=await store_of(visit.alarms).now())
        await store_of(visit.alarms).access.add_token(token)
    async with serving(db) as visit:
        for given in (text, text[:-1] + "x", "wk_0000000000000000_" + text[-43:]):
            await visit("GET", "/v1/alarms", headers={"authorization": f"Bearer {given}"})
            await visit("POST", "/v1/alarms", b"{", headers={"authorization": f"Bearer {given}"})
    secret = text.split("_", 2)[2]
    assert not any(secret.encode() in content for content in contents(tmp_path))
    assert secret not in caplog.text
    assert secret not in repr(token)


async def test_limits_hold_for_a_token_and_tell_when_to_come_again(tmp_path: Path) -> None:
    db = str(tmp_path / "w.db")
    async with serving(db, creates_per_minute=2) as visit:
        for _ in range(3):
            await visit.set()  # the owner of the machine has none
        text, token = mint("ada", ["write"], now=await store_of(visit.alarms).now())
        await store_of(visit.alarms).access.add_token(token)
    async with serving(db, creates_per_minute=2) as visit:
        ada = {"authorization": f"Bearer {text}"}
        body = {"wake_message": "hello", "when": "in 1 hour"}
        wake = await visit.fired("ada")
        child = await visit("POST", "/v1/alarms", body | {"parent_fire": wake.fire_id}, headers=ada)
        assert (child.status, child.json["root_id"]) == (201, wake.fire_id.partition("@")[0])
        foreign = body | {"parent_fire": "01a1dfba-b761-7000-8856-d5f2b52e48f7@1893456000000"}
        assert (await visit("POST", "/v1/alarms", foreign, headers=ada)).told == (404, "not_found", "parent_fire")
        often = {"wake_message": "hello", "cron_expr": "* * * * * *"}
        assert (await visit("POST", "/v1/alarms", often, headers=ada)).told == (400, "invalid_schedule", "cron_expr")
        assert (await visit("POST", "/v1/alarms", body, headers=ada)).status == 201
        refused = await visit("POST", "/v1/alarms", body, headers=ada)
        assert refused.told == (429, "too_many", "creates_per_minute")
        assert 0 < int(refused.headers["retry-after"]) <= 60
