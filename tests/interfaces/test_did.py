"""A token for whoever proves a DID's key."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from tests.interfaces.world import serving
from wakeful.errors import InvalidConfig, InvalidRequest, TooMany, Unauthorized
from wakeful.http import did
from wakeful.http.did import Challenge, Proof, VerifyBody, has_small_order
from wakeful.http.security.auth import Auth
from wakeful.http.security.limits import Newcomers
from wakeful.model.alarm import Event
from wakeful.process.application import build
from wakeful.settings import Settings
from wakeful.store import Store
from wakeful.store.sqlite import SqliteStore
from wakeful.testing import ManualClock
from wakeful.testing.conformance.making import an_alarm

SERVER = "https://clock.example"


class Agent:
    def __init__(self, user: str = "7d444840-9dc0-11d1-b245-5ffdce74fad2") -> None:
        self._key = Ed25519PrivateKey.generate()
        self.public_key = self._key.public_key().public_bytes_raw().hex()
        self.did = f"did:matrix:{user}:{self.public_key[:16]}"

    def sign(self, message: str) -> str:
        return self._key.sign(message.encode()).hex()

    def answer(self, challenge: Challenge, **different: str) -> VerifyBody:
        said = VerifyBody(
            did=challenge.did,
            public_key=self.public_key,
            nonce=challenge.nonce,
            signature=self.sign(challenge.message),
        )
        return replace(said, **different)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Store]:
    store = SqliteStore(str(tmp_path / "wakeful.db"), clock=clock)
    await store.migrate()
    yield store
    await store.close()


@pytest.fixture
def proof(store: Store, clock: ManualClock) -> Proof:
    return a_proof(store, clock)


def a_proof(store: Store, clock: ManualClock, server: str = SERVER, per_address: int = 100, total: int = 100) -> Proof:
    return Proof(store, clock, did._ed25519(), server=server, newcomers=Newcomers(per_address, total))


async def test_a_signature_gets_a_token_for_a_day(proof: Proof, store: Store, clock: ManualClock) -> None:
    agent = Agent()
    challenge = await proof.challenge(agent.did)
    assert challenge.message == f"wakeful-auth:{SERVER}:{agent.did}:{challenge.nonce}"
    assert challenge.server == SERVER
    assert challenge.expires_in == 120
    verified = await proof.verify(agent.answer(challenge))
    assert (verified.owner, verified.expires_in) == (agent.did, 86400)
    auth = Auth(store, Settings(did_auth=True), clock)
    principal = await auth.principal(f"Bearer {verified.token}")
    assert (principal.owner, principal.scopes) == (agent.did, frozenset({"read", "write"}))
    await clock.advance(86400)
    with pytest.raises(Unauthorized):
        await auth.principal(f"Bearer {verified.token}")


async def test_a_nonce_is_good_once_also_at_several_processes_at_once(store: Store, clock: ManualClock) -> None:
    processes = [a_proof(store, clock, f"http://127.0.0.1:{port}") for port in range(4747, 4753)]
    agent = Agent()
    said = agent.answer(await processes[0].challenge(agent.did))
    answers = await asyncio.gather(*(process.verify(said) for process in processes), return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, Unauthorized)]
    assert len(refused) == 5
    assert {refusal.field for refusal in refused} == {"nonce"}
    assert len(await store.access.tokens()) == 1


async def test_asking_for_challenges_keeps_nothing(proof: Proof, store: Store) -> None:
    agent = Agent()
    nonces = {(await proof.challenge(agent.did)).nonce for _ in range(100)}
    assert len(nonces) == 100
    assert await store.access.tokens() == []


async def test_a_nonce_ends_after_two_minutes(proof: Proof, clock: ManualClock) -> None:
    agent = Agent()
    early, late = await proof.challenge(agent.did), await proof.challenge(agent.did)
    await clock.advance(119.9)
    await proof.verify(agent.answer(early))
    await clock.advance(0.1)
    with pytest.raises(Unauthorized) as refusal:
        await proof.verify(agent.answer(late))
    assert refusal.value.field == "nonce"


async def test_a_change_of_the_key_between_the_two_steps_is_nobodys_fault(
    proof: Proof, store: Store, clock: ManualClock
) -> None:
    agent = Agent()
    challenge = await proof.challenge(agent.did)
    await store.access.rotate_report_key(clock.now(), Event(at=clock.now(), what="rotated"))
    elsewhere = a_proof(store, clock)  # a process that has never seen the old one
    assert (await elsewhere.verify(agent.answer(challenge))).owner == agent.did
    assert await proof.verify(agent.answer(await elsewhere.challenge(agent.did)))


async def test_a_nonce_is_bound_to_its_did(proof: Proof) -> None:
    agent, eve = Agent(), Agent()
    challenge = await proof.challenge(agent.did)
    stolen = replace(challenge, did=eve.did, message=f"wakeful-auth:{SERVER}:{eve.did}:{challenge.nonce}")
    with pytest.raises(Unauthorized) as refusal:
        await proof.verify(eve.answer(stolen))
    assert refusal.value.field == "nonce"


async def test_only_the_dids_own_key_proves_it(proof: Proof) -> None:
    agent, eve = Agent(), Agent()
    challenge = await proof.challenge(agent.did)
    wrong = {
        "public_key": agent.answer(challenge, public_key=eve.public_key, signature=eve.sign(challenge.message)),
        "signature": agent.answer(challenge, signature=eve.sign(challenge.message)),
        "nonce": agent.answer(challenge, nonce=challenge.nonce[:-8] + "AAAAAAAA"),
    }
    for field, said in wrong.items():
        with pytest.raises(Unauthorized) as refusal:
            await proof.verify(said)
        assert refusal.value.field == field
    with pytest.raises(Unauthorized):
        await proof.verify(agent.answer(challenge, signature=agent.sign(challenge.nonce)))
    await proof.verify(agent.answer(challenge))  # none of it used the nonce up


@pytest.mark.parametrize("nonce", ["", "A", "é", "====", "A" * 10, "A" * 86, "\ud800", "a b", "A" * 10_000])
async def test_what_is_no_nonce_is_refused(proof: Proof, nonce: str) -> None:
    agent = Agent()
    with pytest.raises(Unauthorized) as refusal:
        await proof.verify(agent.answer(await proof.challenge(agent.did), nonce=nonce))
    assert refusal.value.field == "nonce"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "local",
        "did:key:z6Mk",
        "did:matrix:a:b",
        "did:matrix::0011223344556677",
        "did:matrix:a:00112233445566zz",
        "did:matrix:a:0011223344556677\n",
        "did:matrix:a\x00:0011223344556677",
        "did:matrix:\ud800:0011223344556677",
        f"did:matrix:{'a' * 2000}:0011223344556677",
    ],
)
async def test_what_is_no_did_is_refused(proof: Proof, name: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        await proof.challenge(name)
    assert refusal.value.field == "did"


@pytest.mark.parametrize("field", ["public_key", "signature"])
@pytest.mark.parametrize("value", ["", "zz", "00", "é" * 64, "00" * 65])
async def test_keys_and_signatures_are_hexadecimal(proof: Proof, field: str, value: str) -> None:
    agent = Agent()
    with pytest.raises(InvalidRequest) as refusal:
        await proof.verify(agent.answer(await proof.challenge(agent.did), **{field: value}))
    assert refusal.value.field == field


async def test_one_key_is_one_owner_however_its_did_is_spelled(proof: Proof) -> None:
    agent = Agent()
    loud = agent.did[:-16] + agent.did[-16:].upper()
    said = agent.answer(await proof.challenge(loud), public_key=f"0x{agent.public_key.upper()}")
    assert (await proof.verify(said)).owner == agent.did


@pytest.mark.parametrize("server", ["", "https://elsewhere.example", f"{SERVER}/"])
async def test_a_signature_that_names_another_server_or_none_is_good_nowhere(proof: Proof, server: str) -> None:
    agent = Agent()
    challenge = await proof.challenge(agent.did)
    said = f"wakeful-auth:{server}:{agent.did}:{challenge.nonce}".replace("auth::", "auth:")
    with pytest.raises(Unauthorized) as refusal:
        await proof.verify(agent.answer(challenge, signature=agent.sign(said)))
    assert refusal.value.field == "signature"


# Every way to write a point of small order: y = 1, -1, 0, the two of order 8, and the same ones as y + p.
SMALL = [
    *("01" + "00" * 31, "01" + "00" * 30 + "80", "ec" + "ff" * 30 + "7f", "ec" + "ff" * 30 + "ff"),
    *("00" * 32, "00" * 31 + "80", "ed" + "ff" * 30 + "7f", "ed" + "ff" * 30 + "ff"),
    *("ee" + "ff" * 30 + "7f", "ee" + "ff" * 30 + "ff"),
    *("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc" + last for last in ("05", "85")),
    *("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03" + last for last in ("7a", "fa")),
]


@pytest.mark.parametrize("key", SMALL)
def test_keys_everyone_can_sign_for_are_known(key: str) -> None:
    assert has_small_order(bytes.fromhex(key))


def test_other_keys_are_not_taken_for_such() -> None:
    assert not any(has_small_order(bytes.fromhex(Agent().public_key)) for _ in range(100))


async def test_a_key_everyone_can_sign_for_proves_nothing(proof: Proof, store: Store) -> None:
    """The neutral element, and the signature that fits it whatever is signed."""
    key = SMALL[0]
    challenge = await proof.challenge(f"did:matrix:ada:{key[:16]}")
    forged = VerifyBody(did=challenge.did, public_key=key, nonce=challenge.nonce, signature=key + "00" * 32)
    with pytest.raises(Unauthorized) as refusal:
        await proof.verify(forged)
    assert refusal.value.field == "public_key"
    assert await store.access.tokens() == []


async def prove(proof: Proof, agent: Agent, address: str) -> None:
    await proof.verify(agent.answer(await proof.challenge(agent.did)), address)


async def test_new_owners_are_let_in_so_many_an_hour(store: Store, clock: ManualClock) -> None:
    proof = a_proof(store, clock, per_address=2, total=5)
    first = Agent()
    for agent in (first, Agent()):
        await prove(proof, agent, "192.0.2.1")
    with pytest.raises(TooMany) as refusal:
        await prove(proof, Agent(), "192.0.2.1")
    assert (refusal.value.field, refusal.value.retry_after) == ("did_owners_per_address", 3600)
    await prove(proof, first, "192.0.2.1")  # is not new
    for host in ("2001:db8::1", "2001:db8::2"):
        await prove(proof, Agent(), host)
    with pytest.raises(TooMany):  # of the same network
        await prove(proof, Agent(), "2001:db8::3")
    await prove(proof, Agent(), "192.0.2.2")
    with pytest.raises(TooMany) as refusal:
        await prove(proof, Agent(), "192.0.2.3")
    assert refusal.value.field == "did_owners_per_hour"
    assert len(await store.access.tokens()) == 6
    await clock.advance(3600)
    await prove(proof, Agent(), "192.0.2.1")


async def test_who_has_alarms_is_not_new(store: Store, clock: ManualClock) -> None:
    proof = a_proof(store, clock, total=1)
    ada = Agent()
    await store.add([an_alarm(clock, owner_did=ada.did)])
    await prove(proof, Agent(), "192.0.2.1")
    await prove(proof, ada, "192.0.2.1")
    with pytest.raises(TooMany):
        await prove(proof, Agent(), "192.0.2.1")


# Over HTTP


async def test_an_agent_proves_its_key_and_sets_its_own_alarms(tmp_path: Path) -> None:
    agent = Agent()
    async with serving(str(tmp_path / "w.db"), did_auth=True) as visit:
        assert (await visit("GET", "/v1/alarms")).status == 401
        given = (await visit("POST", "/v1/auth/challenge", {"did": agent.did})).json
        assert given["server"] == visit.url
        said: dict[str, Any] = {
            "did": agent.did,
            "public_key": agent.public_key,
            "nonce": given["nonce"],
            "signature": agent.sign(given["message"]),
        }
        verified = await visit("POST", "/v1/auth/verify", said)
        assert verified.status == 200, verified.text
        assert (await visit("POST", "/v1/auth/verify", said)).told == (401, "unauthorized", "nonce")
        mine = {"authorization": f"Bearer {verified.json['token']}"}
        body = {"wake_message": "hello", "when": "in 1 hour"}
        made = await visit("POST", "/v1/alarms", body, headers=mine)
        assert (made.status, made.json["owner_did"]) == (201, agent.did)
        assert (await visit("POST", "/v1/auth/challenge", {"did": "me"})).told == (400, "invalid_request", "did")
        assert (await visit("POST", "/v1/auth/verify", {"did": agent.did})).told[0] == 400


async def test_it_is_off_unless_asked_for(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db")) as visit:
        assert (await visit("POST", "/v1/auth/challenge", {"did": Agent().did})).status == 404


async def test_without_the_package_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    async with build(Settings(db=str(tmp_path / "w.db"), did_auth=True)) as alarms:
        with pytest.raises(InvalidConfig, match=r"wakeful\[did\]") as refusal:
            alarms.asgi()
        assert refusal.value.field == "did_auth"


def test_newcomers_who_overtake_each_other_are_all_counted() -> None:
    """Each was asked for at its own moment, and others were let in between."""
    newcomers, now = Newcomers(3, 100), ManualClock().now()
    for number, ago in enumerate((0, 5, 1)):
        newcomers.admit(f"owner {number}", "192.0.2.1", now - timedelta(milliseconds=ago))
    with pytest.raises(TooMany):
        newcomers.admit("one more", "192.0.2.1", now - timedelta(milliseconds=9))
    newcomers.admit("one more", "192.0.2.1", now - timedelta(hours=2))  # the clock was set back
