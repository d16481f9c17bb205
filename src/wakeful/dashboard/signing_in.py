"""`/login` and `/logout`: a token is kept in a cookie that no script can read and no other site can send."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from wakeful.dashboard.page import COOKIE, HEADERS, LABEL, Visit, form_of
from wakeful.errors import Forbidden, Unauthorized
from wakeful.service.views import problem

if TYPE_CHECKING:
    from wakeful.dashboard.page import Dashboard


async def page(dashboard: Dashboard, request: Request) -> Response:
    if (secret := request.query_params.get("once")) and request.method == "GET":  # a HEAD only looks
        return await _by_link(dashboard, request, secret)
    root = str(request.scope.get("root_path", ""))
    if await dashboard.live.auth.is_open():  # there is no token to ask for; one of another server is only in the way
        response = RedirectResponse(f"{root}/", 303, headers=HEADERS)
        response.delete_cookie(COOKIE, path=root or "/")
        return response
    return dashboard.show("login.html", visit=None, root=root, error=None)


async def _by_link(dashboard: Dashboard, request: Request, secret: str) -> Response:
    token = await dashboard.link.take(secret)
    if token is not None:
        return _signed_in(dashboard, request, token)
    error = Unauthorized(
        "this link was used, or is older than ten minutes",
        field="once",
        fix="Sign in with a token, or restart the server for a new link.",
    )
    return dashboard.show("login.html", 401, visit=None, root=str(request.scope.get("root_path", "")), error=error)


async def enter(dashboard: Dashboard, request: Request) -> Response:
    root = str(request.scope.get("root_path", ""))
    token = (await form_of(request)).get("token", [""])[0].strip()
    try:
        principal = await dashboard.live.auth.principal(f"Bearer {token}")
        principal.need("read")  # the token of a wake is for agents
    except (Unauthorized, Forbidden) as error:
        return dashboard.show("login.html", problem(error).status, visit=None, root=root, error=error)
    return _signed_in(dashboard, request, token)


def _signed_in(dashboard: Dashboard, request: Request, token: str) -> Response:
    root = str(request.scope.get("root_path", ""))
    response = RedirectResponse(f"{root}/", 303, headers=HEADERS)
    is_secure = dashboard.context.settings.public_url.startswith("https://")
    response.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=is_secure, path=root or "/")
    return response


async def leave(visit: Visit) -> Response:
    """Forget the token. One that the printed link made has no other use, and ends here."""
    store, id = visit.context.store, visit.principal.token_id
    token = await store.access.token(id) if id else None
    if token is not None and token.label == LABEL:
        await store.access.update_token(id, revoked_at=await store.now())
        visit.dashboard.live.auth.forget(id)
    response = visit.back("/login")
    response.delete_cookie(COOKIE, path=visit.root or "/")
    return response
