"""Somebody at the dashboard, without a browser: a cookie, and the word that forms carry."""

from __future__ import annotations

import re
from urllib.parse import urlencode

from tests.interfaces.world import Answer, Visitor
from wakeful.dashboard.page import COOKIE

CSRF = re.compile(r'name="csrf" value="([0-9a-f]{64})"')


class Person:
    def __init__(self, visit: Visitor, token: str = "") -> None:
        self.visit = visit
        self.headers = {"cookie": f"{COOKIE}={token}"} if token else {}
        self.csrf = ""

    async def get(self, path: str, headers: dict[str, str] | None = None, method: str = "GET") -> Answer:
        given = self.headers | (headers or {})
        answer = await self.visit(method, path, headers=given, allow_redirects=False)
        if found := CSRF.search(answer.text):
            self.csrf = found[1]
        return answer

    async def post(
        self,
        path: str,
        form: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        csrf: str | None = None,
    ) -> Answer:
        """Send a form as a page of ours would; `csrf` for what else it may carry."""
        if csrf is None and not self.csrf:
            await self.get("/new")
        sent = {"csrf": self.csrf if csrf is None else csrf} | (form or {})
        kind = {"content-type": "application/x-www-form-urlencoded"}
        return await self.visit(
            "POST",
            path,
            urlencode(sent).encode(),
            headers=kind | self.headers | (headers or {}),
            allow_redirects=False,
        )


async def person(visit: Visitor, owner: str, *scopes: str) -> Person:
    """Somebody who has signed in with a token of their own."""
    token = (await visit.token(owner, *scopes))["authorization"].removeprefix("Bearer ")
    return Person(visit, token)
