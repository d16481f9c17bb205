"""Whatever is asked, no 5xx comes back and nothing the OpenAPI document does not know.

Each operation is asked a few times, and five times as often with --long. WAKEFUL_TEST_SCHEMATHESIS_EXAMPLES=360 is the
longest run: more than 10,000 requests to each store, which it counts.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
import schemathesis
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, Phase, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.acting import acting
from wakeful.http.app import document
from wakeful.http.endpoint import operations_of
from wakeful.http.security.auth import mint
from wakeful.model.requests import ReportRequest
from wakeful.process.application import build
from wakeful.process.server import serve
from wakeful.settings import Settings
from wakeful.testing import store_of

EXAMPLES = int(os.environ.get("WAKEFUL_TEST_SCHEMATHESIS_EXAMPLES", "5"))  # 25 with --long
LONG, ENOUGH = 360, 10_000  # examples of the long run, and the requests it must make
WITHIN = 120  # seconds for an answer: schemathesis gives up after ten, which says nothing about a busy machine
LIMITS = (  # in seconds too: a server on such a machine answers that its database does not
    "wakeful.http.endpoint.ANSWER_WITHIN",
    "wakeful.http.health.ANSWER_WITHIN",
    "wakeful.store.postgres.database.ANSWER_WITHIN",
    "wakeful.store.postgres.database.CONNECT_WITHIN",
    "wakeful.store.postgres.hosts.CONNECT_WITHIN",
)
CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)
ENDS = (
    ReportRequest(outcome="completed"),
    ReportRequest(outcome="failed"),
    ReportRequest(outcome="snooze", wait="5m"),
    None,
)
WHENS = ("in 1 hour", "every weekday at 9am", "@every 90m", "0 9 * * 1-5", "2099-01-01T00:00:00Z")
KNOWN = {
    "POST /v1/alarms": ("wake_message", "when", "label", "payload", "isolated", "idempotency_key", "on_conflict"),
    "PATCH /v1/alarms/{id}": ("when", "label", "payload", "isolated"),
    "POST /v1/preview": ("when", "n"),
}
# All there is, with every limit out of the way: what is wanted here are the answers behind them.
WIDE: dict[str, Any] = {"did_auth": True, "port": 0, "stop_within": timedelta(seconds=2), "owner": "ada"}
WIDE |= {"read_within": timedelta(seconds=WITHIN)}
WIDE |= {"quota_active": 10**6, "creates_per_minute": 10**6, "requests_per_minute": 10**6}
DESCRIBED = document(operations_of(build(Settings(**WIDE)).asgi().routes))
# A stream does not end, and whoever reads it to the end waits for ever: tests/interfaces/test_sse.py tries its answers.
SCHEMA = schemathesis.openapi.from_dict(DESCRIBED).exclude(path="/v1/events")
SCHEMA.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])


class Server:
    """A real server in a thread of its own, with alarms and fires to ask for."""

    def __init__(self, **place: str) -> None:
        self.seen: Counter[int] = Counter()
        self.ids: list[str] = []
        self.fire_ids: list[str] = []
        self.tokens: dict[str, str] = {}
        self._key = Ed25519PrivateKey.generate()
        self._place = place
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="server")

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with build(Settings(**(WIDE | self._place))) as alarms:
            await self._furnish(alarms)

            def ready(url: str) -> None:
                self.url = url
                self._ready.set()

            self._task = asyncio.create_task(serve(alarms, ready=ready))
            await asyncio.wait((self._task,))

    async def _furnish(self, alarms: Any) -> None:
        for scope in ("read", "admin"):
            self.tokens[scope], token = mint("ada", [scope], now=await alarms.service.now())
            assert await store_of(alarms).access.add_token(token)
        for when in ("in 1 hour", "every day at 9am", "@every 90m"):
            self.ids.append((await alarms.set(when, "hello")).id)
        for end in ENDS:
            await alarms.set(delay=0.001, wake_message="now", max_failures=0)
            while not (waiting := await alarms.inbox()):
                await alarms.run_due()
            [(_, fire)] = waiting
            self.fire_ids.append(fire.id)
            if end is not None:
                await acting(alarms.service, "ada").report(fire.id, end)

    def __enter__(self) -> Server:
        self._thread.start()
        assert self._ready.wait(WITHIN)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(WITHIN)

    def ask(self, case: Case[Any]) -> schemathesis.Response:
        """Mostly with a token that may do everything; now and then with one that may not, or with none."""
        scope = {3: "", 7: "read"}.get(self.seen.total() % 16, "admin")
        case.headers.pop("Authorization", None)
        headers = {"authorization": f"Bearer {self.tokens[scope]}"} if scope else {}
        response = case.call(base_url=self.url, headers=headers, timeout=WITHIN)
        self.learn(response)
        if not scope and case.operation.definition.raw.get("security") != []:
            assert response.status_code in (400, 401, 405), "it was let in without a token"
        return response

    def learn(self, response: schemathesis.Response) -> None:
        self.seen[response.status_code] += 1
        if response.status_code == 201 and "root_id" not in response.json():
            self.ids.append(response.json()["id"])

    def place(self, case: Case[Any]) -> None:
        """Three times of four, ask for something that is there."""
        places = case.path_parameters or {}
        real = self.seen.total() % 4
        for name, known in (("id", self.ids), ("fire_id", self.fire_ids)):
            if name in places and real:
                places[name] = known[
                    -1 - self.seen.total() % min(len(known), 5)
                ]  # the latest: not all is cancelled yet
        if isinstance(case.body, dict) and "when" in KNOWN.get(case.operation.label, ()) and self.seen.total() % 2:
            kept = {name: value for name, value in case.body.items() if name in KNOWN[case.operation.label]}
            case.body = kept | {"when": WHENS[self.seen.total() % len(WHENS)]}  # no phrase is hit upon by chance
        query: dict[str, Any] = case.query if isinstance(case.query, dict) else {}
        if case.operation.path == "/v1/inbox" and "wait" in query:
            query["wait"] = 0.01  # nobody has the time
        if case.operation.path == "/v1/auth/verify" and self.seen.total() % 2:
            case.body = self._proof()

    def _proof(self) -> dict[str, Any]:
        key = self._key.public_key().public_bytes_raw().hex()
        did = f"did:matrix:ada:{key[:16]}"
        challenge = SCHEMA["/v1/auth/challenge"]["POST"].Case(body={"did": did}, media_type="application/json")
        given = challenge.call(base_url=self.url, timeout=WITHIN).json()
        signature = self._key.sign(given["message"].encode()).hex()
        return {"did": did, "public_key": key, "nonce": given["nonce"], "signature": signature}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, pg_dsn: str) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("schemathesis")
    on_postgres = request.param == "postgres"
    schema = f"t_{uuid4().hex[:12]}"
    place = {"db": pg_dsn, "schema": schema} if on_postgres else {"db": str(folder / "wakeful.db")}
    with pytest.MonkeyPatch.context() as patch:
        for limit in LIMITS:
            patch.setattr(limit, float(WITHIN))
        with Server(**place) as running:
            yield running
            print(f"\n{request.param}: {running.seen.total()} requests, {dict(sorted(running.seen.items()))}")
            assert EXAMPLES < LONG or running.seen.total() >= ENOUGH


@SCHEMA.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=EXAMPLES <= 25,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
    database=None,
)
def test_no_answer_is_a_surprise(case: Case[Any], server: Server) -> None:
    server.place(case)
    case.validate_response(server.ask(case), checks=list(CHECKS))
