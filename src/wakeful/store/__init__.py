"""The store interface: everything wakeful asks of a database, in three protocols.

`Store` has alarms and their fires; `AccessStore` (access.py) tokens, keys, settings and budgets; `MaintenanceStore`
(maintenance.py) workers, targets, purging and figures. SQL tasks (sql_tasks.py) stand beside them.

Every writing verb is one transaction, all or nothing per alarm: an alarm row and its fires are never out of step.
All moments are judged by the store's own clock, which `claim` and `now` tell. Nothing above sees a driver's exception:
a store raises StoreUnavailable (nothing is known to be written) or StoreBusy (a row stayed locked), and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from wakeful.model.alarm import INBOX, Alarm, Change, Event, Fire
from wakeful.store.access import AccessStore as AccessStore
from wakeful.store.access import ReportKeys as ReportKeys
from wakeful.store.access import Token as Token
from wakeful.store.filters import AlarmQuery as AlarmQuery
from wakeful.store.filters import EventQuery as EventQuery
from wakeful.store.filters import FireQuery as FireQuery
from wakeful.store.maintenance import Inspection as Inspection
from wakeful.store.maintenance import MaintenanceStore as MaintenanceStore
from wakeful.store.maintenance import TargetState as TargetState
from wakeful.store.maintenance import Worker as Worker
from wakeful.store.records import COUNTED as COUNTED
from wakeful.store.records import NO_TURNS as NO_TURNS
from wakeful.store.records import NOT_EARLY as NOT_EARLY
from wakeful.store.records import Added as Added
from wakeful.store.records import Claim as Claim
from wakeful.store.records import Claimed as Claimed
from wakeful.store.records import DescribedFire as DescribedFire
from wakeful.store.records import Followed as Followed
from wakeful.store.records import Matches as Matches
from wakeful.store.records import MovedFire as MovedFire
from wakeful.store.records import NewAlarm as NewAlarm
from wakeful.store.records import Settled as Settled
from wakeful.store.records import Stats as Stats
from wakeful.store.records import Turn as Turn
from wakeful.store.records import Usage as Usage
from wakeful.store.sql_tasks import SqlTasks


class Store(Protocol):
    """Alarms and fires, and what stands beside them."""

    @property
    def access(self) -> AccessStore: ...

    @property
    def maintenance(self) -> MaintenanceStore: ...

    @property
    def tasks(self) -> SqlTasks[Any]:
        """SQL tasks: another program's table."""
        ...

    hints: asyncio.Event  # set when an alarm may be due sooner than a sleeping dispatcher thinks

    async def migrate(self) -> list[str]:
        """Bring the schema up to date, even if other processes do so too; return the names of the applied migrations.

        InvalidConfig, and nothing written, where the ledger says that only newer versions may open the tables, or one
        of our table names is taken by somebody else's table.
        """
        ...

    async def close(self) -> None:
        """Finish what was asked, then let go of the database. Safe to repeat; any verb after it: StoreUnavailable."""
        ...

    async def now(self) -> datetime:
        """Return the current time of the store's clock, which judges leases and due times."""
        ...

    async def add(self, alarms: Sequence[Alarm], *, connection: Any = None) -> list[Added]:
        """Insert; where (owner, idempotency key) is taken, answer with the alarm that has it, unchanged.

        Safe to repeat with the same ids: an id already present is answered with the row it has, `deduped` false.
        Within one call the first alarm with a key wins too. A row the database refuses fails its whole call with
        StoreUnavailable; other calls that share its transaction succeed. A call of more than a few hundred alarms may
        be several transactions: after an error, repeat it with the same ids. `connection`: as for
        `within`. Sets `hints` when an active one is due within a tick.
        """
        ...

    async def within(self, connection: Any) -> Store:
        """The same store inside the caller's own transaction: what it reads and writes is on that connection.

        asyncpg's, or SQLAlchemy's async ones over it; on SQLite apsw's, to the same file. Nothing counts, and nobody is
        told, before the caller commits. For `add`, `settle` and reading alarms and their fires; not for dispatching.
        """
        ...

    async def claim(
        self,
        slots: Mapping[str, int],
        *,
        lease: timedelta,
        suspects: bool = True,
        turns: Mapping[str, Turn] = NO_TURNS,
        early: Mapping[str, timedelta] = NOT_EARLY,
    ) -> Claimed:
        """Lease due alarms, at most `slots[target]` per target: raises `claim`, sets `claimed_at` and `unsettled`.

        Due: active and `next_fire_at <= now`. Leased: `claimed_at` is set and less than a lease away from now, with the
        lease given here, whoever claimed it. One from further ahead was made by a clock that has been set back since,
        and is not a lease; nearer ones are believed, because their workers may be alive and will renew them. `version`
        and `updated_at` stay: a claim is not a change.

        An alarm whose `unsettled` is above 0 was claimed before and never settled: a suspect (rules/suspect.py). Those
        at 1 were not retried yet: they count as any others. Where none of them is due, one of the others is claimed,
        the one with the least against it; the rest waits. Without `suspects` none is claimed. A claim raises
        `unsettled` by one up to 3; what is above that only the dispatcher counts.

        What is claimed is what was due first, whoever's it is. For a target in `turns`, `share` of its slots first go
        to its owners in turn: those with something active there, in the order of their names from behind `after` on,
        until `share` of them had something to claim, OWNERS_A_CLAIM were read, or there are no more. Each gives
        its oldest, then each its second, up to `each`. What they leave of the share is claimed as the rest is.

        `early`: how long before they are due alarms of a target are claimed too; no suspects, and nobody's turn. The
        caller waits until they are.

        A call that fails may have leased alarms without an answer: the next one of the same store brings them too.
        """
        ...

    async def settle(self, changes: Sequence[Change]) -> list[Settled]:
        """Write each change whose claim and version still hold: alarm, fires, events, cost and table row together.

        The row must have `change.claim` and `change.version`; whether it is leased or what its status is does not
        matter here. `edited=False` writes the dispatch columns only, `edited=True` every column that is not fixed
        (`DISPATCH` and `FIXED` in store/columns.py). Fires replace the ones with their key entirely. A row whose key is
        already in its table counts as written. What the database refuses of one change (a row for a missing table, a
        value it cannot hold) makes that change `refused` and leaves its neighbours alone. A change that `speaks` for a
        task (rules/task.py) is `moved` unless the task's row, held in the same transaction, is the one that was
        planned. `former` is written as an event behind the others, and takes the place of an earlier one of its alarm.
        The settlement of an attempt (a change that leaves the version as it was) never replaces a fire's status that a
        report has set: `completed` stays, and a failure by report only becomes `failed` or `retrying`. Such a change
        is `edited`: whoever decided did not know of the report.
        One answer per change, in order. Sets `hints` as `add` does.
        """
        ...

    async def renew(self, claims: Sequence[Claim]) -> list[Claim]:
        """Renew the leases; return the ones that were lost: the claim moved, the alarm is settled, not active, or gone.

        A lease that ran out but that nobody took since is still ours to renew.
        """
        ...

    async def next_due(self, targets: Sequence[str]) -> datetime | None:
        """The earliest moment at which one of these targets has something to claim; in the past when it has already.

        Leased alarms and suspects do not count: they are checked once a tick. None when there is nothing else.
        """
        ...

    async def get(self, id: str, *, owner: str = "") -> Alarm | None:
        """Return the alarm, or None; also None if it is another owner's or the id is not a UUID."""
        ...

    async def named(
        self, owner: str, keys: Sequence[str], *, between: tuple[str, str] | None = None, limit: int | None = None
    ) -> list[Alarm]:
        """An owner's alarms that have these idempotency keys, in any order.

        `between`: and those whose id is between two ids, at most `limit` of both; everybody's where there is no owner.
        """
        ...

    async def listening(self, owner: str, signal: str, *, after: str = "", limit: int) -> list[Alarm]:
        """An owner's active alarms that wait for a signal (`unless`, `or_when`), in the order of their ids.

        `after`: the last id seen. Found by an index, however many alarms there are.
        """
        ...

    async def find(self, query: AlarmQuery) -> Matches[Alarm]:
        """Newest first by (created_at, id); a cursor continues strictly after what it names.

        Without an owner by id alone. An id that wakeful made begins with the moment it was made at, so that is the same
        order, but for alarms that were imported with ids of another kind.

        Where there may be more, `further` is the cursor to go on with. With a `text` a call reads a bounded
        amount and may find less than the limit, or nothing, and still have a `further`.
        """
        ...

    async def similar(self, alarm: Alarm, *, among: int) -> Alarm | None:
        """The newest active alarm, among so many latest of the owner, that says the same at the same times elsewhere.

        Same owner, target, kind, `fire_at`, `cron_expr`, `timezone`, `policy` (so that its start, its bounds and where
        an interval counts from are the same), `wake_message`, `payload` and `conversation_id`; another id.
        """
        ...

    async def fires(self, query: FireQuery) -> Matches[Fire]:
        """Latest first by (scheduled_for, alarm_id); `cursor` and `further` as with alarms."""
        ...

    async def described_fires(self, query: FireQuery) -> Matches[DescribedFire]:
        """The same with what their alarms say, in one statement."""
        ...

    async def fires_at(self, keys: Sequence[tuple[str, datetime]]) -> dict[tuple[str, datetime], Fire]:
        """The fires of these (alarm id, scheduled_for), where they exist."""
        ...

    async def count(self, query: AlarmQuery | FireQuery) -> int:
        """How many `find` or `fires` would find, counted no further than the limit. A text cannot be asked for.

        `look_at`: so many rows at a time, until all were looked at.
        """
        ...

    async def overdue(self, *, limit: int) -> list[tuple[Alarm, Fire]]:
        """Fires with `report_by <= now`, oldest `report_by` first, with their alarms.

        Not those that are `retrying`: their attempt is under way, and its settlement decides.
        """
        ...

    async def waiting(
        self, owner: str, *, limit: int, most: int = 0, target: str = INBOX, conversation_id: str = ""
    ) -> Matches[tuple[Alarm, Fire]]:
        """What waits in an owner's inbox, oldest `scheduled_for` first, with its alarms; `most` as in a query.

        `target`: the name of the inbox. What waits in another one is left there, and so is what belongs to another
        conversation than `conversation_id` where that is given.
        """
        ...

    async def agenda(self, *, owner: str, until: datetime, limit: int, most: int = 0) -> Matches[Alarm]:
        """Active alarms with `next_fire_at` before a moment, soonest first; of all owners when `owner` is empty.

        `most` as in a query; where it was cut, `further` is (next_fire_at, id) of the last.
        """
        ...

    async def alarms_in_zones(self, zones: Collection[str], *, after: str, scan_limit: int) -> tuple[list[Alarm], str]:
        """Active and paused alarms of these zones, and all that name a zone in their expression.

        Of the first `scan_limit` alarms behind an id, in the order of ids; from the first one on where it is empty. The
        second answer is the id to go on behind, empty where those were all.
        """
        ...

    async def stats(self, owner: str = "", *, most: int = COUNTED) -> Stats:
        """Count alarms in each of their states up to `most`, and what became of the latest `most` fires."""
        ...

    async def usage(self, owner: str, *, cursor: tuple[datetime, str] | None = None, look_at: int = 0) -> Usage:
        """What a quota counts, also of alarms that have ended: a pass over the owner's alarms, and no fires.

        `look_at`: only the next so many of them, newest first, behind `cursor`; 0: all of them.
        """
        ...

    async def events(self, query: EventQuery) -> list[tuple[int, Event]]:
        """What happened, with its sequence number. There may be fewer than the limit where `most` says so."""
        ...

    async def changes(self, *, owner: str, since: datetime, after_event: int, limit: int) -> Followed:
        """Return what is new: at most `limit` each of new alarms, changed fires and events; empty owner: all.

        Alarms: `created_at` at or after `since`, in the order of their ids. An id is a UUIDv7 made no earlier than its
        alarm's `created_at`, and a store may rely on that: an alarm with an id of another kind may be left out. Fires:
        `updated_at` at or after `since`, as they are now. Events: numbered above `after_event`. What commits late may
        appear behind what was already read: overlap the reads.
        """
        ...
