"""Faults in the interfaces: `http/`, `mcp/` and `dashboard/`."""

from __future__ import annotations

from typing import Final

from .fault import Fault, Source

IN_INTERFACES: Final[dict[str, Fault]] = {
    "a platform reports without the token of its wake": Source(
        "wakeful.http.routes.callbacks", "if not given or not await speaks_for(", "if False and not await speaks_for("
    ),
    "a webhook of OpenAI counts whoever signed it": Source(
        "wakeful.http.routes.callbacks", "if secret and _is_signed(secret, headers, body, now))", "if True)"
    ),
    "a webhook of one project reports on the wakes of another": Source(
        "wakeful.http.routes.callbacks", "target=target, since=since", "since=since"
    ),
    "a taken key is a conflict in the envelope": Source(
        "wakeful.http.routes.alarms", "if context.settings.chronos_envelope and", "if False and"
    ),
    "a form without its word": Source(
        "wakeful.dashboard.page", "if not hmac.compare_digest(form", "if False and (form"
    ),
    "a form of another site": Source(
        "wakeful.dashboard.page", '"same-origin") not in ("same-origin", "none"):', '"same-origin") == "nowhere":'
    ),
    "a page of another site follows what happens": Source(
        "wakeful.dashboard.page", "    refuse_other_sites(visit.request, ", "    str("
    ),
    "a page of another origin": Source(
        "wakeful.http.security.guard", "if origin is not None and _netloc(", "if False and _netloc("
    ),
    "what others write is markup": Source(
        "wakeful.dashboard.words",
        "    text = beginning(text)\n",
        "    return Markup(beginning(text))\n",
    ),
    "fields are markup": Source("wakeful.dashboard.page", "autoescape=True", "autoescape=False"),
    "everyone has buttons": Source("wakeful.dashboard.page", 'return self._has("write")', "return True"),
    "everyone is an operator": Source("wakeful.dashboard.page", 'return self._has("admin")', "return True"),
    "anyone names an owner": Source(
        "wakeful.dashboard.page", '        self.principal.need("admin")\n        check_text(', "        check_text("
    ),
    "the end of the last token opens the server": Source(
        "wakeful.http.security.auth", 'if state == "closed" or (', "if ("
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
    "a page shows the token of a wake": Source("wakeful.dashboard.alarm", "token=WAKE_TOKEN, report=", "report="),
    "a page shows all of a long text": Source("wakeful.dashboard.words", "    text = beginning(text)\n", ""),
    "a deep payload is indented": Source("wakeful.dashboard.words", " or _depth(payload) > INDENTED", ""),
    "a page is rendered in the event loop": Source(
        "wakeful.dashboard.page", "(await in_thread(self._render))", "self._render()"
    ),
    "the way back of a form is anywhere": Source(
        "wakeful.dashboard.bulk", 'our_path(kept["back"]) if kept["back"] else ""', 'kept["back"]'
    ),
    "a payload stands twice in a form": Source(
        "wakeful.dashboard.editing", 'values["was"] = _was(_as_it_is(alarm))', 'values["was"] = _as_it_is(alarm)'
    ),
    "a changed payload is not shown before it is saved": Source(
        "wakeful.service.change", '"conversation_id", "payload_json"),', '"conversation_id", "payload"),'
    ),
    "a wait over MCP outlives its connection": Source(
        "wakeful.mcp", "disconnected(request), cancelled.wait()", "cancelled.wait()"
    ),
    "a cancelled wait over MCP goes on": Source("wakeful.mcp", "self._waits.heard(principal, said)", "pass"),
    "anyone cancels a wait over MCP": Source(
        "wakeful.mcp",
        "for cancelled in self._calls.get((principal, str(message.params.request_id)), ()):",
        "for cancelled in [one for (_, id), all in self._calls.items() if id == str(message.params.request_id) "
        "for one in all]:",
    ),
    "a wait over HTTP outlives its connection": Source(
        "wakeful.http.routes.fires", "        disconnected(call.request),\n", ""
    ),
    "tools are listed for each call over MCP": Source("wakeful.mcp", "get_tool_input_schema=schemas.get,", ""),
    "schemas are built for each list of tools": Source("wakeful.mcp.schemas", "@cache\ndef schema(", "def schema("),
    "null is a value over MCP": Source(
        "wakeful.mcp", "as_meant(params.arguments or {}, entry.takes)", "params.arguments or {}"
    ),
    "a text is only a text over MCP": Source(
        "wakeful.mcp.schemas", "        value = _read_text(value, kinds)\n", "        pass\n"
    ),
    "an optional argument over MCP has one type": Source(
        "wakeful.mcp.schemas", '"type": [shape["type"], "null"]}', '"type": shape["type"]}'
    ),
    "a host counts more than the call over MCP": Source("wakeful.mcp", "if not arguments.get(name)}}", "}}"),
    "a host names the conversation of every tool": Source(
        "wakeful.mcp", "for name, value in host.items() if name in entry.from_host}", "for name, value in host.items()}"
    ),
    "a day is 24 hours where alarms are moved": Source(
        "wakeful.service.moving", "    if by % _DAY:\n", "    if True:\n"
    ),
    "a series is cancelled for one day of it": Source(
        "wakeful.service.cancel", 'if alarm.kind == "once" or not chosen.has_range:', "if True:"
    ),
    "a range of time chooses nothing": Source(
        "wakeful.service.cancel", "for alarm in page if chosen.is_due_then(alarm)}", "for alarm in page}"
    ),
    "blanks behind a header count": Source("wakeful.http.security.connection", 'value.strip(b" \\t")', "value"),
    "a preview is worked out in the event loop": Source(
        "wakeful.http.routes.look",
        "await in_thread(lambda: _previewed(understood, request.n, now))",
        "_previewed(understood, request.n, now)",
    ),
    "a repeating interval is worked out in the event loop": Source(
        "wakeful.schedule.expression", "is_rule(text) or _REPEATED.match(text) is not None", "is_rule(text)"
    ),
    "CPU time in the event loop is not charged": Source(
        "wakeful.runtime.cpu_time", "self._spend(thread_time() - began)", "self._spend(0.0)"
    ),
    "CPU time in threads is not charged": Source(
        "wakeful.runtime.cpu_time", "loop.call_soon_threadsafe(spend, thread_time() - began)", "pass"
    ),
    "reads of a SQLite file are not charged": Source(
        "wakeful.store.sqlite.readers", "charging(self._run)", "self._run"
    ),
    "nobody is refused for CPU time": Source(
        "wakeful.http.security.auth", "            self._cpu.admit(principal.owner)\n", ""
    ),
    "calls on a socket are not charged": Source(
        "wakeful.http.websocket",
        "await charged(self._dispatcher.answer(text))",
        "await self._dispatcher.answer(text)",
    ),
    "pages are not charged": Source(
        "wakeful.dashboard.page",
        "await charged(_rendered(page(visit)), self.live.auth.account(visit.principal))",
        "await _rendered(page(visit))",
    ),
    "one owner has all threads": Source("wakeful.http.security.limits", "ReadTurns(1)", "ReadTurns(2)"),
    "a change of a rule is worked out in the event loop": Source(
        "wakeful.service.change", "may_be_rule(rule) or is_rule(alarm.cron_expr)", "False"
    ),
    "why is worked out in the event loop": Source(
        "wakeful.service.read", 'await in_thread(tell) if alarm.kind == "cron" else tell()', "tell()"
    ),
    "the agenda is worked out in the event loop": Source(
        "wakeful.service.history",
        "await in_thread(lambda: _merged(alarms, until=until, limit=limit, most=self._most))",
        "_merged(alarms, until=until, limit=limit, most=self._most)",
    ),
    "the next fires are worked out in the event loop": Source(
        "wakeful.service.history", 'await in_thread(fires) if alarm.kind == "cron" else fires()', "fires()"
    ),
    "a search that found nothing is made again": Source(
        "wakeful.schedule.wall_schedule", "if self._ended[0] <= start < self._ended[1]:", "if False:"
    ),
    "a script changes many without a yes": Source("wakeful.cli.change", "    if yes:", "    if True:"),
    "a dry run of named alarms changes them": Source(
        "wakeful.cli.change", 'if ids and not options["dry_run"]:', "if ids:"
    ),
    "a page asks for no new time": Source("wakeful.dashboard.alarm", "former.next_fire_at <= now and", "False and"),
    "cancel --all asks nobody": Source("wakeful.cli.change", "        if found is None:\n", "        if found == 0:\n"),
    "an agent is given one of two meanings": Source(
        "wakeful.mcp.catalogue", "len(error.meant) == 1 and", "error.meant and"
    ),
    "a reason for all is left out": Source("wakeful.cli.change", "    if not reason:\n", "    if True:\n"),
    "a receiver takes what nobody signed": Source(
        "wakeful.agents.receiving",
        "            verify(self._secrets, request.headers, body, now=self._clock.now())\n",
        "",
    ),
    "a receiver works on a wake for each time it comes": Source(
        "wakeful.agents.receiving", "if fire_id in self._under_way or fire_id in self._done:", "if False:"
    ),
    "a receiver works again on what is done": Source(
        "wakeful.agents.receiving", "        if done:\n", "        if False:\n"
    ),
    "a receiver takes the retry of a failure for a duplicate": Source(
        "wakeful.agents.receiving", "        if done:\n", "        if True:\n"
    ),
    "a receiver takes wakes without end": Source(
        "wakeful.agents.receiving", "if len(self._under_way) >= self._most:", "if False:"
    ),
    "a wake put off before its 202 is on record is dropped": Source(
        "wakeful.agents.receiving", "for pause in UNTIL_RECORDED:", "for pause in ():"
    ),
}
