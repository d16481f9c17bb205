"""Tokens: who may speak for an owner, and what they may do. Made, listed and revoked by whoever runs the server.

A token is `wk_<id>_<secret>`: the id finds its row, the secret is 256 random bits of which only the SHA-256 is kept.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from wakeful.alarm.create import TEXT_LIMIT, check_text
from wakeful.errors import InvalidRequest, NotFound
from wakeful.moments import whole_ms
from wakeful.store import Store, Token

SCOPES: Final = ("read", "write", "admin")  # each implies the ones before it
CALENDAR: Final = "calendar"  # a scope apart: only the calendar feed, and only as a part of its address
PREFIX: Final = "wk_"


class TokenVerbs:
    """The verbs of the operator on tokens."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def new(
        self, owner: str, scopes: Iterable[str], *, lasts: timedelta | None = None, label: str = ""
    ) -> tuple[str, Token]:
        """Make a token for an owner; the text is returned this once. From the first on, every request needs one."""
        text, token = mint(owner, scopes, now=await self._store.now(), lasts=lasts, label=label)
        await self._store.add_token(token)
        return text, token

    async def all(self) -> list[Token]:
        """Every token on record, the oldest first, also revoked and expired ones."""
        return await self._store.tokens()

    async def revoke(self, id: str) -> str:
        """Make a token useless, for good; return its id. The whole text of a token is understood too."""
        id = id.removeprefix(PREFIX).partition("_")[0]
        # Ids are letters and digits: what is not might be something a database does not even take.
        if not (id.isascii() and id.isalnum() and await self._store.revoke_token(id, await self._store.now())):
            raise NotFound(f"there is no token {id!r}", field="id", fix="`wakeful token ls` lists them.")
        return id


def token_state(token: Token, now: datetime) -> str:
    if token.revoked_at is not None:
        return "revoked"
    return "live" if token.is_live(now) else "expired"


def mint(
    owner: str,
    scopes: Iterable[str],
    *,
    now: datetime,
    lasts: timedelta | None = None,
    label: str = "",
    id: str = "",
) -> tuple[str, Token]:
    """Create a token; return the secret text, which is shown once, and the record to store."""
    now = whole_ms(now)
    given = _scopes(list(scopes))
    for field, text in (("owner", owner), ("label", label)):
        check_text(field, text, TEXT_LIMIT)
    if not owner.strip():
        raise InvalidRequest("it is empty", field="owner", fix="Name the owner whose alarms the token is for.")
    secret = secrets.token_urlsafe(32)
    token = Token(
        id=id or secrets.token_hex(8),
        owner_did=owner,
        hash=secret_hash(secret),
        scopes=given,
        label=label,
        created_at=now,
        expires_at=None if lasts is None else now + lasts,
    )
    return f"{PREFIX}{token.id}_{secret}", token


def _scopes(asked: list[str]) -> tuple[str, ...]:
    given = tuple(scope for scope in (CALENDAR, *SCOPES) if scope in asked)
    if unknown := [scope for scope in asked if scope not in (CALENDAR, *SCOPES)] or ([] if given else [""]):
        raise InvalidRequest(
            f"{unknown[0]!r} is not a scope",
            field="scopes",
            fix=f"Accepted: {', '.join(SCOPES)}, separated by commas; or {CALENDAR}.",
        )
    if CALENDAR in given and len(given) > 1:
        # It stands in an address, which calendar programs keep and pass on: it must be good for nothing else.
        raise InvalidRequest(
            f"{CALENDAR} does not go with other scopes", field="scopes", fix=f"Make a token for {CALENDAR} alone."
        )
    return given


def secret_hash(secret: str) -> bytes:
    # No slow hash: there is no guessing 256 random bits.
    return hashlib.sha256(secret.encode()).digest()
