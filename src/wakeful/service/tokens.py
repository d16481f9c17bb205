"""Tokens: who may speak for an owner, and what they may do. Made, listed and revoked by whoever runs the server.

A token is `wk_<id>_<secret>`: the id finds its row, the secret is 256 random bits of which only the SHA-256 is kept.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.errors import InvalidRequest, NotFound, Unauthorized
from wakeful.model.alarm import Alarm, Fire, parse_fire_id
from wakeful.moments import whole_ms
from wakeful.rules.create import TEXT_LIMIT, check_text
from wakeful.rules.lineage import CHAIN_CANCELLED
from wakeful.rules.wake import begun_at, fire_named, is_wake_token_of, reports_under, why_not_good
from wakeful.service.caller import WakeOrigin
from wakeful.store import EventQuery, ReportKeys, Store, Token

SCOPES: Final = ("read", "write", "admin")  # each implies the ones before it
CALENDAR: Final = "calendar"  # a scope apart: only the calendar feed, and only as a part of its address
PREFIX: Final = "wk_"
FETCHED: Final = "fetched"  # the event of a wake that somebody took from an inbox with a token
MOST_WAKES: Final = 1000  # that are listed of a revoked token


class Revoked(Struct, frozen=True, kw_only=True):
    """A token that is revoked, what ended with it, and what did not."""

    id: str
    links: tuple[str, ...] = ()  # ids of the calendar links that it made, which ended with it
    tokens: tuple[str, ...] = ()  # ids of other tokens that it made, which are still good
    wakes: tuple[str, ...] = ()  # ids of the fires that it fetched lately: each came with a token for its chain


def recorded_name(owner: str, token_id: str) -> str:
    """Return who is on record for what is done with a token."""
    return f"{owner} (token {token_id})" if token_id else owner


class TokenVerbs:
    """The verbs of the operator on tokens."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def new(
        self,
        owner: str,
        scopes: Iterable[str],
        *,
        lasts: timedelta | None = None,
        label: str = "",
        made_by: str = "",
    ) -> tuple[str, Token]:
        """Make a token for an owner; the text is returned this once. From the first on, every request needs one.

        `made_by`: the id of the token with which that is asked. One that is revoked meanwhile makes none.
        """
        text, token = mint(owner, scopes, now=await self._store.now(), lasts=lasts, label=label)
        token = replace(token, made_by=made_by)
        await self._store.access.add_token(token)
        maker = await self._store.access.token(made_by) if made_by else None
        # Read behind the write: whoever revokes the maker lists what it made behind theirs, so one of the two sees it.
        if maker is not None and maker.revoked_at is not None:
            await self._store.access.update_token(token.id, revoked_at=await self._store.now())
            raise Unauthorized("this token was revoked", field="Authorization")
        return text, token

    async def all(self) -> list[Token]:
        """Every token on record, the oldest first, also revoked and expired ones."""
        return await self._store.access.tokens()

    async def revoke(self, id: str, *, wakes_within: timedelta = timedelta(days=1)) -> Revoked:
        """Make a token and the calendar links that it made useless, for good. The whole text is understood too.

        The answer names what outlives it: other tokens that it made, and the wakes that it fetched `wakes_within`.
        """
        id = id.removeprefix(PREFIX).partition("_")[0]
        now = await self._store.now()
        # Ids are letters and digits: what is not might be something a database does not even take.
        if not (id.isascii() and id.isalnum() and await self._store.access.update_token(id, revoked_at=now)):
            raise NotFound(f"there is no token {id!r}", field="id", fix="`wakeful token ls` lists them.")
        tokens = await self._store.access.tokens()
        made = [token for token in tokens if token.made_by == id and token.is_live(now)]
        links = [token.id for token in made if token.scopes == (CALENDAR,)]
        for link in links:
            await self._store.access.update_token(link, revoked_at=now)
        [owner] = (token.owner_did for token in tokens if token.id == id)
        fetching = EventQuery(by=recorded_name(owner, id), what=FETCHED, since=now - wakes_within, limit=MOST_WAKES)
        fetched = [event for _, event in await self._store.events(fetching)]
        return Revoked(
            id=id,
            links=tuple(links),
            tokens=tuple(token.id for token in made if token.id not in links),
            wakes=tuple(dict.fromkeys(event.fire_id for event in fetched)),
        )


def outlived(revoked: Revoked) -> list[str]:
    """Tell what ended with a token and what is still good, each in a sentence; nothing if it did neither."""
    count = f"{MOST_WAKES:,} or more" if len(revoked.wakes) == MOST_WAKES else str(len(revoked.wakes))
    said = {
        f"Calendar links ended with it: {', '.join(revoked.links)}.": revoked.links,
        f"Tokens that it made are still good: {', '.join(revoked.tokens)}.": revoked.tokens,
        f"Wakes that it fetched: {count}; the token of each sets alarms in its chain until it expires, its alarm is "
        "cancelled, or `wakeful token rotate-reports` ends it.": revoked.wakes,
    }
    return [text for text, ids in said.items() if ids]


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


# Who acts with the token of a wake: found in the alarm and the fire that it names; nothing is kept for it.

_FIX: Final = "Use the token of a wake that came since, or a token of the owner."


async def wake_behind(store: Store, token: str, *, lasts: timedelta) -> tuple[str, WakeOrigin]:
    """Return the owner and the wake that a token speaks for, or raise Unauthorized."""
    fire_id, keys = fire_named(token), await store.access.report_keys()
    is_current = bool(fire_id) and is_wake_token_of(token, keys.current, fire_id)
    retired_at = None if is_current else _retired_at(keys, token, fire_id)
    if not is_current and retired_at is None:
        raise Unauthorized("this is not the token of a wake", field="Authorization", fix=_FIX)
    # Only now is anything looked up: who makes a token up learns nothing of what there is.
    key = alarm_id, occurrence = parse_fire_id(fire_id)
    alarm = await store.get(alarm_id)
    fire = (await store.fires_at([key])).get(key)
    now = await store.now()
    if alarm is None:
        raise _ended("the alarm of its wake is gone")
    if retired_at is not None and not reports_under(retired_at, fire, now=now):
        raise _ended("the key it was made with was replaced")
    if why := why_not_good(alarm, fire, occurrence, lasts=lasts, now=now):
        raise _ended(why)
    if why := await _why_chain_ended(store, alarm, fire):
        raise _ended(why)
    return alarm.owner_did, WakeOrigin(fire_id, alarm.root_id or alarm.id)


async def check_chain(store: Store, fire_id: str) -> None:
    """Raise Unauthorized where the chain of a wake was cancelled, or the alarm of that wake."""
    key = alarm_id, _ = parse_fire_id(fire_id)
    alarm = await store.get(alarm_id)
    if alarm is None or alarm.status == "cancelled":
        raise _ended("the alarm of its wake was cancelled")
    if why := await _why_chain_ended(store, alarm, (await store.fires_at([key])).get(key)):
        raise _ended(why)


async def _why_chain_ended(store: Store, alarm: Alarm, fire: Fire | None) -> str:
    """Return why a wake sets no more alarms in its chain; nothing if it does.

    Who cancels a chain also means the wakes of it that somebody is working on. Wakes that begin after that come from an
    alarm that its owner has set, replaced or retried since: these are not meant.
    """
    root_id = alarm.root_id or alarm.id
    root = await store.get(root_id) if alarm.root_id else None
    if root is not None and root.status == "cancelled":
        return "the alarm that its chain began with was cancelled"
    cancelled = await store.events(EventQuery(alarm_id=root_id, what=CHAIN_CANCELLED, latest=True, limit=1))
    return "its chain was cancelled" if cancelled and begun_at(alarm, fire) <= cancelled[0][1].at else ""


def _retired_at(keys: ReportKeys, token: str, fire_id: str) -> datetime | None:
    """When the earlier key was replaced that a token was made with; None if it was made with none of them."""
    made = (old.retired_at for old in keys.retired if fire_id and is_wake_token_of(token, old.key, fire_id))
    return next(made, None)


def _ended(why: str) -> Unauthorized:
    return Unauthorized(f"this token of a wake is not good any more: {why}", field="Authorization", fix=_FIX)
