"""Authentication: tokens, their scopes, and the ASGI middleware that finds the caller before a route runs.

A token is `wk_<id>_<secret>`: the id finds its row, the secret is 256 random bits of which only the SHA-256 is kept.
As long as a database has never had a token, any caller on loopback acts as its owner; see `Auth.is_open`.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import logging
import re
from collections import OrderedDict
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from urllib.parse import parse_qs

from msgspec import Struct
from starlette.types import ASGIApp, Receive, Scope, Send

from wakeful.clock import Clock
from wakeful.errors import Forbidden, StoreUnavailable, Unauthorized, WakefulError
from wakeful.http.security.connection import BELONGS
from wakeful.http.security.guard import OUTGOING, header, refuse_pages, refused
from wakeful.http.security.limits import CpuShares, Outgoing, Rate
from wakeful.rules.create import TEXT_LIMIT, check_text
from wakeful.rules.wake import WAKE_PREFIX
from wakeful.runtime.cpu_time import Account, charged
from wakeful.service.calendar_feed import FEED, FEED_TOKEN
from wakeful.service.caller import Caller, WakeOrigin
from wakeful.service.tokens import CALENDAR, recorded_name, secret_hash, wake_behind
from wakeful.service.tokens import PREFIX as PREFIX
from wakeful.service.tokens import SCOPES as SCOPES
from wakeful.service.tokens import mint as mint
from wakeful.settings import Settings
from wakeful.store import Store, Token

log = logging.getLogger("wakeful.auth")

PRINCIPAL: Final = "wakeful.principal"
GOOD_FOR: Final = timedelta(seconds=2)  # how long a lookup is believed: a revocation takes effect within that
TOUCH_EVERY: Final = timedelta(minutes=1)
REMEMBERED: Final = 4096
UNAUTHORIZED: Final = 4401  # the close code of a WebSocket whose token is not, or no longer, good
_TOKEN: Final = re.compile(r"wk_([0-9a-f]{16,64})_([A-Za-z0-9_-]{43})")
CALLBACKS: Final = "/v1/callbacks/"
_REPORT: Final = re.compile(r"/v1/fires/[^/]+/report")
_GUARDED: Final = re.compile(r"/(v1|mcp|metrics)(/.*)?", re.DOTALL)
_HOW: Final = "Send Authorization: Bearer wk_…; create a token with `wakeful token new`."
_HOW_CALENDAR: Final = "Make one with `wakeful token new --scopes calendar`: it shows the whole address."


class Principal(Struct, frozen=True):
    """The identity behind a request. `local`: no token was needed, and no limits apply."""

    owner: str
    scopes: frozenset[str]
    token_id: str = ""
    local: bool = False
    wake: WakeOrigin | None = None  # the token is that of a wake: it has no scope, only what is meant for it

    @property
    def by(self) -> str:
        """The name to record, with the token: one owner may have several, and one of them may have leaked."""
        if self.wake is not None:
            return f"{self.owner} (wake {self.wake.fire_id})"
        return recorded_name(self.owner, self.token_id)

    def caller(self, via: str) -> Caller:
        """Return the caller for the service."""
        token = self.token_id
        return Caller(owner=self.owner, via=via, by=self.by, token_id=token, limited=not self.local, wake=self.wake)

    def need(self, scope: str, *, for_wakes: bool = False) -> None:
        """Raise Forbidden unless a scope of the token is this one or implies it.

        The token of a wake has none: it opens what is meant `for_wakes`.
        """
        if self.wake is not None:
            if for_wakes:
                return
            raise Forbidden(
                "the token of a wake can set alarms, and list, show, cancel and report on those of its chain; not this",
                field="Authorization",
                fix="Use a token of the owner: wakeful token new --owner ….",
            )
        enough = (CALENDAR, *SCOPES) if scope == CALENDAR else SCOPES[SCOPES.index(scope) :]
        if not self.scopes.intersection(enough):
            has = ", ".join(sorted(self.scopes))
            raise Forbidden(
                f"this token has the scopes {has}; this request needs {scope}",
                field="Authorization",
                fix=f"Use a token with the scope {scope}: wakeful token new --owner … --scopes {scope}.",
            )


class Auth:
    """Finds the principal of a request. Lookups are cached for two seconds."""

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._seen: OrderedDict[str, tuple[datetime, Token | None]] = OrderedDict()
        self._touched: dict[str, datetime] = {}
        self._rate = Rate(settings.requests_per_minute)
        self._cpu = CpuShares(settings.cpu_per_minute, clock)
        self.outgoing = Outgoing(settings.unread_per_owner)
        self._here = Principal(settings.owner, frozenset(SCOPES), local=True)  # whoever asks, where no token is needed
        self._open = False
        self._open_asked: datetime | None = None
        # Nothing opens to the outside, nor where a key is enough to get a token.
        self._may_be_open = is_loopback(settings.host) and not settings.did_auth

    async def principal(self, authorization: str | None) -> Principal:
        """Return the principal of an `Authorization` header, or raise Unauthorized."""
        # Whoever brings a token is who it says, or nobody: one that has ended must not turn into more than it was.
        if not _is_token(authorization) and await self.is_open():
            return self._here
        if authorization is None:
            raise Unauthorized("there is no token", field="Authorization", fix=_HOW)
        if bearer(authorization).startswith(WAKE_PREFIX):
            return await self._woken(bearer(authorization))
        principal = await self._known(bearer(authorization), "Authorization", _HOW)
        if CALENDAR in principal.scopes:
            raise Forbidden(
                "this token is for the calendar feed, and good for nothing else",
                field="Authorization",
                fix=f"Subscribe to {FEED}?{FEED_TOKEN}=…, or make another token with `wakeful token new`.",
            )
        return principal

    async def calendar_reader(self, text: str) -> Principal:
        """Return the principal of a token in the address of the calendar feed. Only tokens made for that are taken."""
        principal = await self._known(text, FEED_TOKEN, _HOW_CALENDAR)
        if principal.scopes != {CALENDAR}:
            # An address is kept, shown and passed on by programs: what is in it must not open anything else.
            raise Forbidden("only a token for the calendar feed goes here", field=FEED_TOKEN, fix=_HOW_CALENDAR)
        return principal

    async def _known(self, text: str, field: str, fix: str) -> Principal:
        found = _TOKEN.fullmatch(text)
        if found is None:
            raise Unauthorized("this is not a wakeful token", field=field, fix=fix)
        token = await self._token(found[1])
        # Compared also where there is none: how long this takes says nothing.
        same = hmac.compare_digest(secret_hash(found[2]), token.hash if token is not None else bytes(32))
        if token is None or not same:
            raise Unauthorized("this token is not known here", field=field, fix=fix)
        now = self._clock.now()
        if not token.is_live(now):
            what = "was revoked" if token.revoked_at is not None else "has expired"
            raise Unauthorized(f"this token {what}", field=field, fix=fix)
        await self._touch(token, now)
        return Principal(token.owner_did, frozenset(token.scopes), token.id)

    async def _woken(self, token: str) -> Principal:
        owner, wake = await wake_behind(self._store, token, lasts=self._settings.chain_token_lasts)
        return Principal(owner, frozenset(), wake=wake)

    def admit(self, principal: Principal) -> None:
        """Count one request of this owner, or raise TooMany."""
        if not principal.local:
            self._rate.admit(principal.owner, self._clock.now())
            self._cpu.admit(principal.owner)
            self.outgoing.check(principal.owner)

    def account(self, principal: Principal | None) -> Account | None:
        """Return what a request's CPU time is charged to; None if no limits apply."""
        return None if principal is None or principal.local else self._cpu.account(principal.owner)

    async def is_alive(self, principal: Principal) -> bool:
        """Return whether a principal is still valid, for connections that stay open."""
        if principal.local or not principal.token_id:
            return await self.is_open()
        token = await self._token(principal.token_id)
        return token is not None and token.is_live(self._clock.now())

    async def is_open(self) -> bool:
        """Return whether no token is needed: on loopback, if there has never been one or the operator has said so.

        With `public_url` a proxy may forward requests of others: then only if the operator has said so.
        """
        if not self._may_be_open:
            return False
        now = self._clock.now()
        if self._open_asked is None or not timedelta(0) <= now - self._open_asked < GOOD_FOR:
            self._open = await self._look(now)
            self._open_asked = now
        return self._open

    async def _look(self, now: datetime) -> bool:
        state = await self._store.access.auth_state()
        if state == "closed" or (state == "new" and self._settings.public_url):
            return False
        if any(token.is_live(now) for token in await self._store.access.tokens()):
            return False
        if state == "open" and not self._open:
            log.warning("opened by `wakeful token open`: anyone who reaches this server acts as its owner")
        return True

    async def _token(self, id: str) -> Token | None:
        now = self._clock.now()
        if (seen := self._seen.get(id)) is not None and timedelta(0) <= now - seen[0] < GOOD_FOR:
            return seen[1]
        token = await self._store.access.token(id)
        self._seen[id] = now, token
        self._seen.move_to_end(id)
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return token

    def forget(self, id: str) -> None:
        """Look this token up again at its next use: it was revoked just now."""
        self._seen.pop(id, None)

    async def _touch(self, token: Token, now: datetime) -> None:
        last = self._touched.get(token.id) or token.last_used_at
        if last is not None and timedelta(0) <= now - last < TOUCH_EVERY:
            return
        if len(self._touched) > REMEMBERED:
            self._touched.clear()
        self._touched[token.id] = now
        with contextlib.suppress(StoreUnavailable):  # good to know, and nothing more
            await self._store.access.update_token(token.id, last_used_at=now)


def bearer(authorization: str | None) -> str:
    """Return the token in a header, or nothing."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _is_token(authorization: str | None) -> bool:
    """Return whether a bearer token is given, valid or not; other schemes may be meant for a proxy."""
    return authorization is not None and (authorization.lower().startswith("bearer") or PREFIX in authorization)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class AuthMiddleware:
    """Puts the principal into `scope["wakeful.principal"]`; None if a route is open or checks tokens itself."""

    def __init__(self, app: ASGIApp, auth: Auth) -> None:
        self._app = app
        self._auth = auth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            try:
                scope[PRINCIPAL] = await self._principal(scope)
            except WakefulError as error:
                await _refuse(error, scope, receive, send)
                return
        account = self._auth.account(scope.get(PRINCIPAL))
        answering = self._app(scope, receive, send)
        await (answering if account is None else charged(answering, account))

    async def _principal(self, scope: Scope) -> Principal | None:
        path, authorization = route_path(scope), header(scope, b"authorization")
        if not _GUARDED.fullmatch(path) or _is_open(scope, path, authorization):
            return None
        in_address = _token_in_address(scope, path)
        if in_address is None:
            principal = await self._auth.principal(authorization)
        else:
            principal = await self._auth.calendar_reader(in_address)
        if (belongs := scope.get("state", {}).get(BELONGS)) is not None:
            belongs(principal.owner)
        if principal.local:
            refuse_pages(scope)
        self._auth.admit(principal)
        if not principal.local:
            scope[OUTGOING] = partial(self._auth.outgoing.held, principal.owner)
        if path.startswith("/metrics"):
            principal.need("admin")
        return principal


def _is_open(scope: Scope, path: str, authorization: str | None) -> bool:
    if scope.get("method") != "POST":
        return False
    if path.startswith(("/v1/auth/", CALLBACKS)):  # these check for themselves whom they let in
        return True
    if authorization is None:
        return False
    # A fire's own token speaks for one report; the route checks it.
    token = bearer(authorization)
    return bool(_REPORT.fullmatch(path)) and token != "" and not token.startswith(PREFIX)


def _token_in_address(scope: Scope, path: str) -> str | None:
    """Return the token in the query of the calendar feed, for programs that send no headers; nowhere else is one."""
    if path != FEED or scope.get("method") not in ("GET", "HEAD") or not scope["query_string"]:
        return None
    query: str = scope["query_string"].decode("latin-1")
    tokens = parse_qs(query, keep_blank_values=True).get(FEED_TOKEN)
    if tokens is None:
        return None
    check_text(FEED_TOKEN, tokens[0], TEXT_LIMIT)
    return tokens[0]


def route_path(scope: Scope) -> str:
    """Return the path as routes see it, even if this application is mounted in another."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    if root and path.startswith(root) and path[len(root) : len(root) + 1] in ("", "/"):
        return path[len(root) :]
    return path


async def _refuse(error: WakefulError, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http" or "websocket.http.response" in scope.get("extensions", {}):
        await refused(error)(scope, receive, send)
    else:
        await receive()
        await send({"type": "websocket.close", "code": UNAUTHORIZED, "reason": error.message[:100]})
