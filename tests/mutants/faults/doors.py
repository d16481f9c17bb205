"""Faults in the doors: `http/`, `mcp/` and `dashboard/`."""

from __future__ import annotations

from typing import Final

from .fault import Fault, Source

IN_DOORS: Final[dict[str, Fault]] = {
    "a form without its word": Source(
        "wakeful.dashboard.page", "if not hmac.compare_digest(form", "if False and (form"
    ),
    "a form of another site": Source(
        "wakeful.dashboard.page", '"same-origin") not in ("same-origin", "none"):', '"same-origin") == "nowhere":'
    ),
    "a page of another origin": Source(
        "wakeful.http.security.guard", "if origin is not None and _netloc(", "if False and _netloc("
    ),
    "what others write is markup": Source("wakeful.dashboard.words", "else escape(sign)", "else Markup(sign)"),
    "fields are markup": Source("wakeful.dashboard.page", "autoescape=True", "autoescape=False"),
    "everyone has buttons": Source("wakeful.dashboard.page", 'return self._has("write")', "return True"),
    "everyone is an operator": Source("wakeful.dashboard.page", 'return self._has("admin")', "return True"),
    "anyone names an owner": Source(
        "wakeful.dashboard.page", '        self.principal.need("admin")\n        check_text(', "        check_text("
    ),
    "the end of the last token opens the server": Source(
        "wakeful.http.security.auth", 'if door == "closed" or (', "if ("
    ),
    "a bad token is nobody's": Source(
        "wakeful.http.security.auth", "if not _is_token(authorization) and await self", "if await self"
    ),
    "a page takes wakes out of the inbox": Source(
        "wakeful.http.routes.fires", "if not call.caller.limited and not header(", "if False and not header("
    ),
    "a key everyone can sign for": Source("wakeful.http.did", "if has_small_order(key):", "if False:"),
    "what is signed names no server": Source(
        "wakeful.http.did", '"wakeful-auth:{server}:{did}:{nonce}"', '"wakeful-auth:{did}:{nonce}"'
    ),
    "the token of a wake opens everything": Source(
        "wakeful.http.security.auth", "            if for_wakes:\n", "            if True:\n"
    ),
    "a tool forgets whose token it is": Source(
        "wakeful.mcp",
        "principal.need(entry.scope, for_wakes=entry.for_wakes)",
        "principal.need(entry.scope, for_wakes=True)",
    ),
    "the token of a wake signs in": Source(
        "wakeful.dashboard.signing_in", '        principal.need("read")  # the token of a wake is for agents\n', ""
    ),
    "a page shows the token of a wake": Source("wakeful.dashboard.wake_shown", "token=WAKE_TOKEN, report=", "report="),
}
