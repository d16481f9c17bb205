"""What every page stands in: who visits, what they may do, and how a template becomes an answer."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import hmac
import secrets
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.resources import files
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlencode
from zoneinfo import ZoneInfo

import jinja2
from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from wakeful._version import __version__
from wakeful.clock import Clock
from wakeful.dashboard import words
from wakeful.errors import Forbidden, InvalidRequest, Unauthorized, WakefulError
from wakeful.http.endpoint import Context, whole_body
from wakeful.http.security.auth import SCOPES, Principal, mint
from wakeful.http.security.guard import problem, refuse_pages
from wakeful.http.sse import HEARTBEAT, End, LiveContext
from wakeful.rules.create import TEXT_LIMIT, check_text
from wakeful.runtime.cpu_time import charged, in_thread
from wakeful.schedule import zone
from wakeful.service import Alarms, views
from wakeful.service.live import LiveEvent, Subscription
from wakeful.store import Store

COOKIE: Final = "wakeful_token"
FIELDS: Final = 2000  # in one form: a selection of as many alarms
Form = dict[str, list[str]]
_KINDS: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_STATIC: Final = files("wakeful.dashboard") / "static"
# Nothing but what this server sends itself: no inline script, no inline style, no frame around it.
_CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "content-security-policy": _CSP,
    "cache-control": "no-store",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Visit(Struct, frozen=True):
    """One request of one person: whose alarms, and with which rights."""

    dashboard: Dashboard
    request: Request
    principal: Principal
    csrf: str
    form: Form = {}
    owner: str = ""  # whose alarms, where an operator looks after another owner's

    @property
    def alarms(self) -> Alarms:
        caller = self.principal.caller("dashboard")
        return Alarms(self.dashboard.context.service, replace(caller, owner=self.owner) if self.owner else caller)

    def on_behalf(self, owner: str) -> Visit:
        """The same person at another owner's alarms: an operator's right. They stay on record for what they do."""
        if owner in ("", self.principal.owner):
            return self
        self.principal.need("admin")
        check_text("owner", owner, TEXT_LIMIT)
        return replace(self, owner=owner)

    @property
    def context(self) -> Context:
        return self.dashboard.context

    @property
    def may_write(self) -> bool:
        return self._has("write")

    @property
    def is_operator(self) -> bool:
        """Whoever runs this server: targets, workers and other owners are theirs to see."""
        return self._has("admin")

    def _has(self, scope: str) -> bool:
        return bool(self.principal.scopes.intersection(SCOPES[SCOPES.index(scope) :]))

    @property
    def root(self) -> str:
        return str(self.request.scope.get("root_path", ""))

    @property
    def is_fragment(self) -> bool:
        """Whether a script asked, for a part of the page that is there."""
        return self.request.headers.get("hx-request") == "true"

    def query(self, name: str) -> str:
        return self.request.query_params.get(name, "").strip()

    def field(self, name: str) -> str:
        return self.form.get(name, [""])[0].strip()

    def fields(self, name: str) -> list[str]:
        return self.form.get(name, [])

    def show(self, template: str, status: int = 200, **values: Any) -> Response:
        return self.dashboard.show(template, status, visit=self, root=self.root, **values)

    def back(self, path: str, said: str = "") -> Response:
        """Go to a page, with a word on what was done. A script is told where to go; a browser is sent."""
        place = self.root + our_path(path)
        response = Response(status_code=204, headers={"hx-location": place}) if self.is_fragment else None
        response = response or RedirectResponse(place, 303)
        if said:
            response.set_cookie("wakeful_said", said[:300].encode().hex(), max_age=10, path="/", samesite="strict")
        return response


def our_path(path: str) -> str:
    """The path of a page of ours, or of the first page: what a form says may have been written by anyone."""
    is_ours = path.startswith("/") and not path.startswith("//") and path.isprintable() and "\\" not in path
    return path if is_ours else "/"


@functools.cache
def _templates() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("wakeful.dashboard"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    found.filters |= words.FILTERS
    found.globals |= {"version": __version__, "asset": asset}
    return found


async def compile_templates() -> None:
    """Compile all of them in a thread before the first page: in the event loop that would delay wakes by 0.1 s."""
    if not _compiled.is_set():
        await asyncio.to_thread(_compile)


def _compile() -> None:
    with _compiling:
        if not _compiled.is_set():
            for name in _templates().list_templates(extensions=["html"]):
                _templates().get_template(name)
            _compiled.set()


_compiled: Final = threading.Event()
_compiling: Final = threading.Lock()


class RenderedPage(HTMLResponse):
    """A page that is rendered in a thread: a long one would delay the wakes that are due meanwhile."""

    def __init__(self, render: Callable[[], str], status: int) -> None:
        super().__init__(status_code=status, headers=HEADERS)
        self._render: Callable[[], str] | None = render

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.rendered()
        await super().__call__(scope, receive, send)

    async def rendered(self) -> RenderedPage:
        if self._render is not None:
            self.body = (await in_thread(self._render)).encode("utf-8", "replace")
            self._render = None
            self.headers["content-length"] = str(len(self.body))
        return self


async def _rendered(page: Awaitable[Response]) -> Response:
    response = await page
    return await response.rendered() if isinstance(response, RenderedPage) else response


Page = Callable[[Visit], Awaitable[Response]]
Endpoint = Callable[[Request], Awaitable[Response]]


class Dashboard:
    def __init__(self, context: Context, live: LiveContext, link: SignInLink) -> None:
        self.context = context
        self.live = live
        self.link = link

    def show(self, template: str, status: int = 200, **values: Any) -> Response:
        return RenderedPage(partial(_templates().get_template(template).render, **values), status)

    # Who may come in

    def open(self, page: Callable[[Dashboard, Request], Awaitable[Response]]) -> Endpoint:
        async def answer(request: Request) -> Response:
            await compile_templates()
            try:
                return await page(self, request)
            except WakefulError as error:
                return self.refused(request, error)

        return answer

    def reading(self, page: Page) -> Endpoint:
        return self._answering(page, "read")

    def changing(self, action: Page) -> Endpoint:
        return self._answering(action, "write")

    def _answering(self, page: Page, scope: str) -> Endpoint:
        async def answer(request: Request) -> Response:
            root = str(request.scope.get("root_path", ""))
            visit: Visit | None = None
            await compile_templates()
            try:
                visit = await self.visit(request, scope)
                return await charged(_rendered(page(visit)), self.live.auth.account(visit.principal))
            except Unauthorized:
                place = f"{root}/login"
                if request.headers.get("hx-request") == "true":
                    return Response(status_code=204, headers={"hx-redirect": place})
                return RedirectResponse(place, 303)
            except WakefulError as error:
                return self.refused(request, error, visit)

        return answer

    def refused(self, request: Request, error: WakefulError, visit: Visit | None = None) -> Response:
        """What is not done is said on a page like the others, with the way to them for whoever is known."""
        root = str(request.scope.get("root_path", ""))
        is_fragment = request.headers.get("hx-request") == "true"
        template = "parts/refused.html" if is_fragment else "error.html"
        return self.show(template, problem(error).status, error=error, visit=visit, root=root)

    async def visit(self, request: Request, scope: str) -> Visit:
        auth = self.live.auth
        token = request.cookies.get(COOKIE, "")
        principal = await auth.principal(f"Bearer {token}" if token else None)
        if principal.local:
            refuse_pages(request.scope)
        auth.admit(principal)
        principal.need(scope)
        csrf = await self._csrf(principal)
        if scope == "read":
            return Visit(self, request, principal, csrf)
        form = await form_of(request)
        if not hmac.compare_digest(form.get("csrf", [""])[0].encode(), csrf.encode()):
            raise Forbidden(
                "this form is not from a page of this server", field="csrf", fix="Reload the page and try again."
            )
        return Visit(self, request, principal, csrf, form)

    async def _csrf(self, principal: Principal) -> str:
        """A word that only our own pages know. It outlives a restart: whoever has a form open can still send it."""
        keys = await self.context.store.access.report_keys()
        who = f"dashboard form\0{principal.owner}\0{principal.token_id}"
        return hmac.new(keys.current, who.encode(), hashlib.sha256).hexdigest()


def refuse_other_sites(request: Request, what: str) -> None:
    """Refuse a request that a browser sends for a page of another site. `what` is the reason."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Forbidden(what, field="Sec-Fetch-Site")


async def form_of(request: Request) -> Form:
    refuse_other_sites(request, "a page of another site may not change anything here")
    found: Form = {}
    try:
        pairs = parse_qsl(
            (await whole_body(request)).decode(), keep_blank_values=True, max_num_fields=FIELDS, errors="strict"
        )
    except ValueError as error:
        raise InvalidRequest(f"the form cannot be read ({error})", field="form") from None
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def _hashed() -> dict[str, str]:
    return {
        found.name: hashlib.sha256(found.read_bytes()).hexdigest()[:12]
        for found in _STATIC.iterdir()
        if found.name.endswith(tuple(_KINDS))
    }


_HASHES: Final = _hashed()


def asset(name: str) -> str:
    """A file of ours under a name that changes with it, so that browsers may keep it for good."""
    return f"/static/{name}?{_HASHES[name]}"


async def static(request: Request) -> Response:
    name = request.path_params.get("name", "favicon.svg")
    if name not in _HASHES:
        return Response("not found", 404, media_type="text/plain")
    kind = _KINDS[name[name.rindex(".") :]]
    headers = {"cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff"}
    return Response((_STATIC / name).read_bytes(), headers=headers, media_type=kind)


# Addresses that pages point to


def between(path: str, since: datetime, until: datetime) -> str:
    """Where what happened, or will happen, between two moments is listed."""
    return f"{path}?{urlencode({'since': _stamp(since), 'until': _stamp(until)})}"


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


# The time zone of whoever reads: what the page is asked for, what their machine says, else the server's setting


_COOKIE: Final = "wakeful_tz"  # that theme.js sets to the zone of the reader's machine


def reader_zone(visit: Visit) -> ZoneInfo:
    """A zone that is asked for must be one; a cookie may say anything, and is passed over."""
    if asked := visit.query("tz"):
        return zone(asked)
    try:
        return zone(unquote(visit.request.cookies.get(_COOKIE, "")) or visit.context.settings.timezone)
    except InvalidRequest:
        return zone(visit.context.settings.timezone)


# `/live`: a word for every change, so that an open page asks again for what it shows.

_TOGETHER: Final = 0.25  # seconds: what happens meanwhile is one word, however much it is


async def follow(visit: Visit) -> Response:
    refuse_other_sites(visit.request, "a page of another site may not follow what happens here")
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    changes = _changes(visit.on_behalf(visit.query("owner")))
    first = await anext(changes)  # a refusal is answered as one, before a stream has begun
    return StreamingResponse(_from(first, changes), headers=headers, media_type="text/event-stream")


async def _from(first: bytes, changes: AsyncGenerator[bytes]) -> AsyncIterator[bytes]:
    async with contextlib.aclosing(changes):
        yield first
        async for change in changes:
            yield change


async def _changes(visit: Visit) -> AsyncGenerator[bytes]:
    live, principal = visit.dashboard.live, visit.principal
    with live.seat(principal), live.open_connections.watched(principal) as end:
        async with live.live.subscribed(visit.owner or principal.owner, (), "", after="") as subscription:
            yield b"retry: 1000\nevent: hello\ndata: {}\n\n"
            while not end.done() and not subscription.dropped.is_set():
                yield await _next(subscription, end)
                await visit.context.service.clock.sleep(_TOGETHER)


async def _next(subscription: Subscription, end: asyncio.Future[End]) -> bytes:
    """What changed since the last word; a heartbeat where nothing did."""
    taking = asyncio.ensure_future(subscription.take(_named))
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEARTBEAT):
                await asyncio.wait((taking, end), return_when=asyncio.FIRST_COMPLETED)
        if not taking.done():
            return b": still here\n\n"
        found = sorted(set(taking.result()))
        return b"event: changed\ndata: " + views.encode([name.decode() for name in found]) + b"\n\n"
    finally:
        taking.cancel()


def _named(_: str, event: LiveEvent) -> bytes:
    return event.what.encode()


# The link that `serve` prints: whoever reads its output is signed in by it, once and soon.

GOOD_FOR: Final = timedelta(minutes=10)
SESSION: Final = timedelta(hours=12)
LABEL: Final = "dashboard sign-in link"  # of the tokens it makes: signing out revokes these


class SignInLink:
    """One secret at a time, in memory only: it ends with the process, with its use, or after ten minutes.

    Several processes that serve one port have the same: its token is on record under the secret's own id, once.
    """

    def __init__(self, store: Store, owner: str, clock: Clock) -> None:
        self._store = store
        self._owner = owner
        self._clock = clock
        self._secret = ""
        self._until: datetime | None = None

    def offer(self, secret: str = "", until: datetime | None = None) -> str:
        """Make a secret, or take the one that other processes have too; the one before is good no longer."""
        self._secret = secret or secrets.token_urlsafe(32)
        self._until = until or self._clock.now() + GOOD_FOR
        return self._secret

    async def take(self, secret: str) -> str | None:
        """Exchange the secret for a token of the operator's that ends after twelve hours; None if it is not good."""
        kept, until = self._secret, self._until
        is_same = hmac.compare_digest(secret.encode(), kept.encode()) and kept != ""
        if not is_same or until is None or self._clock.now() >= until:
            return None
        self._secret = ""  # before anything is waited for: of two who come at once, one gets in
        try:
            now, id = await self._store.now(), hashlib.sha256(kept.encode()).hexdigest()[:16]
            text, token = mint(self._owner, SCOPES, now=now, lasts=SESSION, label=LABEL, id=id)
            is_first = await self._store.access.add_token(token)
        except BaseException:
            self._secret = kept
            raise
        return text if is_first else None
