"""The verbs of one caller, listed: what each of them does is a function in the module of its subject.

Every interface creates one `Alarms` per request; a Python program holds one. The caller carries the owner, who acts and
which limits apply, so no verb takes these as arguments and no interface has rules of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import copy
from typing import Any

import wakeful.service.cancel as _cancel
import wakeful.service.change as _change
import wakeful.service.create as _create
import wakeful.service.inbox as _inbox
import wakeful.service.moving as _moving
import wakeful.service.read as _read
import wakeful.service.report as _report
import wakeful.service.resolving as _resolving
import wakeful.service.signalling as _signalling
import wakeful.service.watch as _watch
from wakeful.service.caller import Caller
from wakeful.service.core import Service


class Transaction:
    """The verbs inside a caller's own transaction: see `Alarms.within`."""

    def __init__(self, service: Service, caller: Caller, *, outside: Service) -> None:
        self.service = service
        self.outside = outside
        self.caller = caller

    set = _create.set_alarm
    create = _create.create_alarm
    get = _resolving.get_alarm
    update = _change.update_alarm
    edit = _change.edit_alarm
    pause = _change.pause_alarm
    resume = _change.resume_alarm
    snooze = _change.snooze_alarm
    skip = _change.skip_fire
    undo = _change.undo_change
    cancel = _change.cancel_alarm
    signal = _signalling.send_signal


class Alarms:
    """All verbs of one caller.

    In the examples `alarms` comes from `async with wakeful.open("wakeful.db") as alarms`, `alarm` is one of its alarms,
    and `wake` was taken from its inbox.
    """

    def __init__(self, service: Service, caller: Caller) -> None:
        self.service = self.outside = service
        self.caller = caller

    set = _create.set_alarm
    create = _create.create_alarm
    create_many = _create.create_many
    create_each = _create.create_each
    fire = _create.fire_copy

    update = _change.update_alarm
    edit = _change.edit_alarm
    append = _change.append_payload
    pause = _change.pause_alarm
    resume = _change.resume_alarm
    snooze = _change.snooze_alarm
    skip = _change.skip_fire
    undo = _change.undo_change
    cancel = _change.cancel_alarm
    cancel_many = _cancel.cancel_many
    move_many = _moving.move_many
    cancel_chain = _cancel.cancel_chain
    reset = _cancel.cancel_everything
    signal = _signalling.send_signal

    report = _report.report_fire
    completed = _report.report_completed
    delivery_failed = _report.report_failed
    working = _report.report_working
    snooze_fire = _report.snooze_fire
    hand_over = _create.hand_over
    retry = _report.retry_fire
    retry_at = _report.time_of_retry
    inbox = _inbox.take_wakes

    get = _resolving.get_alarm
    fire_of = _resolving.get_fire
    details = _read.read_details
    now = _read.read_now
    parse = _read.parse_time
    find = _read.find_alarms
    fires = _read.find_fires
    pending = _read.list_pending
    active = _read.list_active
    history = _read.read_history
    failed = _read.list_failed
    stats = _read.read_stats
    agenda = _read.read_agenda
    why = _read.explain_alarm

    targets = _watch.read_targets
    overview = _watch.read_overview
    budget = _watch.read_budget
    recent_events = _watch.recent_events
    owner_settings = _change.read_settings
    set_owner_settings = _change.set_settings
    change_settings = _change.change_settings

    @asynccontextmanager
    async def within(self, connection: Any) -> AsyncIterator[Transaction]:
        """The verbs that set and change alarms, inside your own transaction on this connection.

        >>> import apsw
        >>> with apsw.Connection("world.db") as own:
        ...     async with alarms.within(own) as tx:
        ...         changed = await tx.pause(alarm.id)

        What they read and write counts when you commit. An asyncpg connection, or SQLAlchemy's over it; on SQLite an
        `apsw.Connection` to the same file.
        """
        service = copy(self.service)
        service.store = await self.service.store.within(connection)
        yield Transaction(service, self.caller, outside=self.service)
