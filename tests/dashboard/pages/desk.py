"""Somebody who reads pages and sends their forms, without a browser: on either store."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape
from urllib.parse import urlencode

from tests.interfaces.world import Answer, Visitor
from wakeful.service import Alarms

CSRF = re.compile(r'name="csrf" value="([0-9a-f]+)"')
Fields = Sequence[tuple[str, str]]


class Desk:
    def __init__(self, visit: Visitor) -> None:
        self.visit = visit
        self.alarms: Alarms = visit.alarms.for_owner("local")
        self.csrf = ""

    async def get(self, path: str, **headers: str) -> str:
        answer = await self.visit("GET", path, headers=headers)
        assert answer.status == 200, (answer.status, answer.text)
        if found := CSRF.search(answer.text):
            self.csrf = found[1]
        return answer.text

    async def post(self, path: str, fields: Fields = (), *, fragment: bool = False) -> Answer:
        if not self.csrf:
            await self.get("/new")
        body = urlencode([("csrf", self.csrf), *fields]).encode()
        headers = {"content-type": "application/x-www-form-urlencoded"} | ({"hx-request": "true"} if fragment else {})
        return await self.visit("POST", path, body, headers=headers, allow_redirects=False)


def form_in(html: str, action: str) -> list[tuple[str, str]]:
    """The hidden fields of the first form that goes there, as a browser would send them; without the csrf word."""
    found = re.search(rf'<form[^>]*action="{re.escape(action)}".*?</form>', html, re.DOTALL)
    assert found, html
    fields = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', found[0])
    return [(name, unescape(value)) for name, value in fields if name != "csrf"]


def rows(html: str) -> list[str]:
    """The titles in a list, in their order."""
    cells = re.findall(r'<td class="title">(.*?)</td>', html, re.DOTALL)
    return [unescape(re.sub(r"<[^>]*>", "", cell)).strip() for cell in cells]
