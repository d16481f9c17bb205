"""`/login` and `/logout`: a token is kept in a cookie that no script can read and no other site can send."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from wakeful.dashboard.page import COOKIE, Visit, form_of
from wakeful.errors import Unauthorized

if TYPE_CHECKING:
    from wakeful.dashboard.page import Dashboard


async def page(dashboard: Dashboard, request: Request) -> Response:
    root = str(request.scope.get("root_path", ""))
    return dashboard.show("login.html", visit=None, root=root, error=None)


async def enter(dashboard: Dashboard, request: Request) -> Response:
    root = str(request.scope.get("root_path", ""))
    token = (await form_of(request)).get("token", [""])[0].strip()
    try:
        await dashboard.live.auth.principal(f"Bearer {token}")
    except Unauthorized as error:
        return dashboard.show("login.html", 401, visit=None, root=root, error=error)
    response = RedirectResponse(f"{root}/", 303)
    is_secure = dashboard.context.settings.public_url.startswith("https://")
    response.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=is_secure, path=root or "/")
    return response


async def leave(visit: Visit) -> Response:
    response = visit.back("/login")
    response.delete_cookie(COOKIE, path=visit.root or "/")
    return response
