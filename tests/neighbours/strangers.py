"""Whoever should not be let in, or asks for what is another's: tokens, ids, cursors, pages of other sites, new keys."""

from __future__ import annotations

import base64
import time
from collections import Counter
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.faults.records import read

from . import quiet
from .attack import attack, over_and_over, summed, tried, unless
from .house import House, Reply, Visitor
from .records import Asked, Tried

SMALL: Final = "01" + "00" * 31  # a key everybody can sign for
NEWCOMERS: Final = 60  # the setting did_owners_per_address, as it is by default


def _bad_tokens(house: House) -> dict[str, str]:
    good = house.tokens[quiet.NAME]
    return {
        "expired": f"Bearer {house.ended_tokens['expired']}",
        "revoked": f"Bearer {house.ended_tokens['revoked']}",
        "another secret": f"Bearer {good[:-8]}AAAAAAAA",
        "no token": "Bearer ",
        "long": "Bearer wk_" + "0" * 4000,
        "basic": "Basic cXVpZXQ6cXVpZXQ=",
    }


@attack("expired, revoked and made-up tokens", stage=8)
async def tokens(house: House, until: float) -> Tried:
    came: Counter[str] = Counter()
    through: list[str] = []
    for kind, value in _bad_tokens(house).items():
        async with house.anyone({"authorization": value}) as visitor:
            for method, path in (("GET", "/v1/alarms"), ("DELETE", "/v1/alarms?all=true"), ("POST", "/v1/inbox")):
                reply = await visitor(method, path)
                if reply.status != 401:
                    through.append(f"{kind}: {method} {path} answered {reply.status}")
            came += visitor.came
    async with house.anyone({"authorization": f"Bearer {house.ended_tokens['read-only']}"}) as visitor:
        reply = await visitor("DELETE", "/v1/alarms?all=true")
        if reply.status != 403:
            through.append(f"a token that may only read cancelled: {reply.status}")
        came += visitor.came
    async with house.anyone({"authorization": "Bearer wk_" + "ab" * 8 + "_" + "A" * 43}) as visitor:
        number = await over_and_over(until, 8, lambda: visitor("GET", "/v1/alarms"))
        came += visitor.came
    return tried(f"{6 * 3 + 1} ways, and {number} guesses", came, *through)


@attack("another owner's ids and forged cursors", stage=8)
async def ids(house: House, until: float) -> Tried:
    mine = [asked.alarm for asked in read(house.folder / "asked.jsonl", Asked) if asked.alarm][-5:]
    through: list[str] = []
    async with house.as_owner("eve") as eve:
        for alarm in mine:
            for method, path, body in _at(alarm):
                reply = await eve(method, path, body)
                if not (400 <= reply.status < 500) or "time for tea" in reply.text:
                    through.append(f"{method} {path} answered {reply.status}")
        for forged in _cursors(mine[0]):
            reply = await eve("GET", "/v1/alarms", params={"cursor": forged, "limit": "500"})
            if reply.status >= 500 or "time for tea" in reply.text:
                through.append(f"a forged cursor answered {reply.status}")
        reply = await eve("POST", "/v1/alarms", {"wake_message": "x", "when": "in 1 hour", "target": "private"})
        if reply.status != 400 or "unknown_target" not in reply.text:
            through.append(f"a target of another's answered {reply.status}")
    what = f"{len(mine)} alarms, every verb; 5 cursors; a target that is another's"
    return tried(what, eve.came, *through[:3])


def _at(alarm: str) -> list[tuple[str, str, Any]]:
    fire = f"{alarm}@{time.time_ns() // 1_000_000}"
    return [
        ("GET", f"/v1/alarms/{alarm}", None),
        ("GET", f"/v1/alarms/{alarm}/why", None),
        ("GET", f"/v1/alarms/{alarm}/fires", None),
        ("PATCH", f"/v1/alarms/{alarm}", {"label": "taken"}),
        ("DELETE", f"/v1/alarms/{alarm}", None),
        ("POST", f"/v1/alarms/{alarm}/pause", {}),
        ("POST", f"/v1/alarms/{alarm}/snooze", {"for": "1h"}),
        ("POST", f"/v1/alarms/{alarm}/fire", None),
        ("GET", f"/v1/fires/{fire}", None),
        ("POST", f"/v1/fires/{fire}/report", {"outcome": "completed"}),
        ("POST", "/v1/alarms", {"wake_message": "x", "when": "in 1 hour", "parent_fire": fire}),
    ]


def _cursors(alarm: str) -> list[str]:
    texts = ["9" * 4000, f"99999999999999:{alarm}", f"1 {alarm}", f"0:' or 1=1 --{alarm}", "\x00:\x00"]
    return [base64.urlsafe_b64encode(text.encode()).decode().rstrip("=") for text in texts]


@attack("pages of other sites", stage=8)
async def pages(house: House, until: float) -> Tried:
    """What an <img>, a form or a script of a hostile page makes a browser send: no token, or another origin."""
    browser = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    async with house.anyone(browser) as image, house.as_owner("eve", origin="https://evil.example") as script:
        paths = ("/v1/inbox?wait=0", "/v1/alarms", "/v1/events", "/v1/stats")
        replies = [await image("GET", path) for path in paths]
        replies += [await image("POST", "/v1/inbox"), await script("POST", "/v1/alarms", {"wake_message": "x"})]
        async with house.anyone({"host": "evil.example"}) as rebound:
            replies.append(await rebound("GET", "/v1/alarms"))
    through = [str(reply.status) for reply in replies if reply.status not in (401, 403, 421)]
    return tried(f"{len(replies)} ways", summed(image, script, rebound), unless(not through, f"answered {through}"))


class Newcomer:
    def __init__(self) -> None:
        self._key = Ed25519PrivateKey.generate()
        self.public_key = self._key.public_key().public_bytes_raw().hex()
        self.did = f"did:matrix:mallory:{self.public_key[:16]}"

    async def come_in(self, visitor: Visitor) -> Reply:
        given = await visitor("POST", "/v1/auth/challenge", {"did": self.did})
        if given.status != 200:
            return given
        signature = self._key.sign(given.json["message"].encode()).hex()
        body = {"did": self.did, "public_key": self.public_key, "nonce": given.json["nonce"], "signature": signature}
        return await visitor("POST", "/v1/auth/verify", body)


@attack("DID owners by the thousand", stage=8)
async def newcomers(house: House, until: float) -> Tried:
    let_in = 0
    async with house.anyone({}) as visitor:

        async def once() -> None:
            nonlocal let_in
            reply = await Newcomer().come_in(visitor)
            let_in += reply.status == 200

        number = await over_and_over(until, 8, once)
        did = f"did:matrix:mallory:{SMALL[:16]}"
        given = await visitor("POST", "/v1/auth/challenge", {"did": did})
        body = {"did": did, "public_key": SMALL, "nonce": "", "signature": SMALL + "00" * 32}
        if given.status == 200:
            body["nonce"] = given.json["nonce"]
        small = await visitor("POST", "/v1/auth/verify", body)
    return tried(
        f"{number} new keys, {let_in} of them became owners; a key of small order: {small.status}",
        visitor.came,
        unless(let_in <= NEWCOMERS, f"{let_in} owners were made"),
        unless(small.status == 401, f"the key of small order answered {small.status}"),
    )
