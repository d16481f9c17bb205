"""The store interface: everything wakeful asks of a database.

Every writing verb is one transaction, all or nothing per alarm: an alarm row and its fires are never out of step.
All moments are judged by the store's own clock, which `claim` and `now` tell. Nothing above sees a driver's exception:
a store raises StoreUnavailable (nothing is known to be written) or StoreBusy (a row stayed locked), and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal, Protocol

from msgspec import Struct

from wakeful.alarm import INBOX, Alarm, Change, Event, Fire
from wakeful.store.budget import BudgetCounts
from wakeful.store.checks import CheckStore
from wakeful.store.counts import COUNTED
from wakeful.store.counts import Stats as Stats
from wakeful.store.counts import Usage as Usage
from wakeful.store.figures import Figures
from wakeful.store.following import Followed as Followed
from wakeful.store.following import MovedFire as MovedFire
from wakeful.store.following import NewAlarm as NewAlarm
from wakeful.store.inspection import Inspection as Inspection
from wakeful.store.keys import ReportKeys as ReportKeys
from wakeful.store.owner_settings import OwnerSettingsStore
from wakeful.store.pages import Matches as Matches
from wakeful.store.records import TargetState as TargetState
from wakeful.store.records import Token as Token
from wakeful.store.records import Worker as Worker
from wakeful.store.sql_tasks import SqlTasks
from wakeful.store.zones import ZoneStore

BACKLOG_LIMIT: Final = 10_000
OWNERS_A_CLAIM: Final = 64  # whom a claim in turn looks at per target: half a millisecond of work
Door = Literal["new", "closed", "open"]
AHEAD: Final = timedelta(days=1)  # how far the clock of whoever makes ids may be ahead of the store's


class Added(Struct, frozen=True):
    """A stored alarm. `deduped`: its key was taken, and this is the alarm that has it."""

    alarm: Alarm
    deduped: bool = False


class Claim(Struct, frozen=True):
    """A lease on an alarm, by number."""

    id: str
    claim: int


class Turn(Struct, frozen=True):
    """How many of a target's slots go to its owners in turn, and the owner who had the last one."""

    share: int
    after: str = ""

    @property
    def each(self) -> int:
        """How many of them one owner gets at most: the rest of its own it claims in the order they are due."""
        return -(-self.share // 4)


NO_TURNS: Final[Mapping[str, Turn]] = {}
NOT_EARLY: Final[Mapping[str, timedelta]] = {}


class Claimed(Struct, frozen=True):
    """What a claim brought, oldest due first per target, and the moment it happened by the store's clock.

    `ahead`: one of them had a lease from the future, that is from a clock that has been set back since.
    `stood`: where owners were taken in turn, who was looked at last per target; empty when that was the last of all.
    """

    alarms: list[Alarm]
    now: datetime
    ahead: bool = False
    stood: Mapping[str, str] = {}


class Settled(Struct, frozen=True):
    """What became of a change.

    applied   it is written
    edited    the claim holds, but the alarm was changed since it was read: read it again and decide again
    lost      the claim does not hold (or the alarm is gone): someone else decides now
    refused   the row of a table target could not be written; nothing was, and `error` says why
    moved     it would have said the words of a task whose row no longer stands as it was planned; nothing was written
    """

    what: Literal["applied", "edited", "lost", "refused", "moved"]
    error: str = ""


class AlarmQuery(Struct, frozen=True, kw_only=True):
    """Which alarms, newest first: an owner's by (created_at, id), all owners' by id. Empty fields do not filter."""

    owner: str = ""
    statuses: tuple[str, ...] = ()
    kind: str = ""
    target: str = ""
    label: str = ""
    conversation_id: str = ""
    root_id: str = ""
    key: str = ""
    text: str = ""  # part of the label, the message or the key, any case
    since: datetime | None = None  # created at or after
    until: datetime | None = None  # created before
    cursor: tuple[datetime, str] | None = None  # (created_at, id) of the last one seen
    limit: int = 100
    most: int = 0  # characters of a page, but always one row; 0: whatever the limit allows
    look_at: int = 0  # so many rows, whether they fit or not; 0: until the page is full


class FireQuery(Struct, frozen=True, kw_only=True):
    """Which fires, latest scheduled first. Empty fields do not filter."""

    owner: str = ""
    alarm_id: str = ""
    statuses: tuple[str, ...] = ()
    target: str = ""
    since: datetime | None = None  # scheduled at or after
    until: datetime | None = None  # scheduled before
    cursor: tuple[datetime, str] | None = None  # (scheduled_for, alarm_id) of the last one seen
    limit: int = 100
    most: int = 0  # characters of a page, but always one row; 0: whatever the limit allows
    look_at: int = 0  # so many rows, whether they fit or not; 0: until the page is full


class DescribedFire(Struct, frozen=True, kw_only=True):
    """A fire with what a list of fires tells of its alarm, if there is one. Its payload is not: it may be long."""

    label: str = ""
    wake_message: str = ""
    max_failures: int = 0
    created_by: str = ""
    created_via: str = ""
    manual_of: str = ""  # the alarm whose manual fire it is
    fire: Fire


def written_events(change: Change) -> tuple[Event, ...]:
    """The events of a change, and behind them what the alarm was before."""
    return change.events if change.former is None else (*change.events, change.former)


def door_of(kept: bytes) -> Door:
    """What is on record of the door. Closed where it is in doubt."""
    return "open" if kept == b"open" else "closed"


class Store(Protocol):
    @property
    def tasks(self) -> SqlTasks[Any]:
        """SQL tasks: another program's table."""
        ...

    @property
    def figures(self) -> Figures:
        """Counts over time and owners, for people who look."""
        ...

    @property
    def budget(self) -> BudgetCounts:
        """What was used of the budgets of owners, alarms and chains."""
        ...

    @property
    def checks(self) -> CheckStore:
        """What the checks of alarms have seen."""
        ...

    @property
    def zones(self) -> ZoneStore:
        """The rules of time zones that alarms are planned by."""
        ...

    @property
    def owner_settings(self) -> OwnerSettingsStore:
        """What owners say once for all their alarms."""
        ...

    hints: asyncio.Event  # set when an alarm may be due sooner than a sleeping dispatcher thinks

    async def migrate(self) -> list[str]:
        """Bring the schema up to date, even if other processes do so too; return the names of the applied migrations.

        InvalidConfig, and nothing written, where the ledger says that only newer versions may open the tables, or one
        of our table names is taken by somebody else's table.
        """
        ...

    async def use_default_target(self, name: str) -> str:
        """Send the alarms that another program inserts without a target there; return where they went before."""
        ...

    async def close(self) -> None:
        """Finish what was asked, then let go of the database. Safe to repeat; any verb after it: StoreUnavailable."""
        ...

    async def now(self) -> datetime:
        """Return the current time of the store's clock, which judges leases and due times."""
        ...

    async def inspect(self, *, thorough: bool = False) -> Inspection:
        """What the database is and whether it is sound. Works without our tables too, and makes none.

        `thorough`: read all of it, for as long as it takes, and count the rows in states that cannot be.
        """
        ...

    async def report_keys(self) -> ReportKeys:
        """The key of report tokens, 32 random bytes made once per database, and those it took the place of."""
        ...

    async def rotate_report_key(self, now: datetime, event: Event) -> ReportKeys:
        """Put a new key in the place of the current one, which counts as retired from `now` on; and on record who did.

        Two retired ones are kept. Of several calls at once each retires the key that the one before it made.
        """
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

        An alarm whose `unsettled` is above 0 was claimed before and never settled: a suspect (alarm/suspect.py). Those
        at 1 were not retried yet: they count as any others. Where none of them is due, one of the others is claimed,
        the one with the least against it; the rest waits. Without `suspects` none is claimed. A claim raises
        `unsettled` by one up to 3; what is above that only the dispatcher counts.

        What is claimed is what was due first, whoever's it is. For a target in `turns`, `share` of its slots first go
        to its owners in turn: those with something active there, in the order of their names from behind `after` on,
        until `share` of them had something to claim, OWNERS_A_CLAIM were looked at, or there are no more. Each gives
        its oldest, then each its second, up to `each`. What they leave of the share is claimed as the rest is.

        `early`: how long before they are due alarms of a target are claimed too; no suspects, and nobody's turn. The
        caller waits until they are.

        A call that fails may have leased alarms, unheard: the next one of the same store brings them too.
        """
        ...

    async def settle(self, changes: Sequence[Change]) -> list[Settled]:
        """Write each change whose claim and version still hold: alarm, fires, events, cost and table row together.

        The row must have `change.claim` and `change.version`; whether it is leased or what its status is does not
        matter here. `edited=False` writes the dispatch columns only, `edited=True` every column that is not fixed
        (`DISPATCH` and `FIXED` in store/columns.py). Fires replace the ones with their key entirely. A row whose key is
        already in its table counts as written. What the database refuses of one change (a row for a missing table, a
        value it cannot hold) makes that change `refused` and leaves its neighbours alone. A change that `speaks` for a
        task (alarm/task.py) is `moved` unless the task's row, held in the same transaction, is the one that was
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

        Leased alarms and suspects do not count: they are looked for once a tick. None when there is nothing else.
        """
        ...

    async def backlog(self, *, lease: timedelta) -> dict[str, tuple[int, datetime]]:
        """Return what could be claimed now by any worker: how many per target, and when the first was due.

        Counted no further than BACKLOG_LIMIT, so that asking stays cheap; targets with nothing due are left out.
        """
        ...

    async def get(self, id: str, *, owner: str = "") -> Alarm | None:
        """Return the alarm, or None; also None if it is another owner's or the id is not a UUID."""
        ...

    async def keyed(self, owner: str, keys: Sequence[str]) -> list[Alarm]:
        """The alarms of an owner that have these idempotency keys, in any order."""
        ...

    async def resolve(self, low: str, high: str, *, key: str, owner: str, limit: int) -> list[Alarm]:
        """Alarms whose id is between two ids (none where they are empty), and the owner's one with this key."""
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

        Where there may be more, `further` is the cursor to go on with. With a `text` a call looks through a bounded
        amount and may find less than the limit, or nothing, and still have a `further`.
        """
        ...

    async def fires(self, query: FireQuery) -> Matches[Fire]:
        """Latest first by (scheduled_for, alarm_id); `cursor` and `further` as with alarms."""
        ...

    async def count(self, query: AlarmQuery | FireQuery) -> int:
        """How many `find` or `fires` would find, counted no further than the limit. A text cannot be asked for.

        `look_at`: so many rows at a time, until all were looked at.
        """
        ...

    async def described_fires(self, query: FireQuery) -> Matches[DescribedFire]:
        """The same with what their alarms say, in one statement."""
        ...

    async def fires_at(self, keys: Sequence[tuple[str, datetime]]) -> dict[tuple[str, datetime], Fire]:
        """The fires of these (alarm id, scheduled_for), where they exist."""
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

    async def stats(self, owner: str = "", *, most: int = COUNTED) -> Stats:
        """Count alarms in each of their states up to `most`, and what became of the latest `most` fires."""
        ...

    async def usage(self, owner: str, *, cursor: tuple[datetime, str] | None = None, look_at: int = 0) -> Usage:
        """What a quota counts, also of alarms that have ended: a pass over the owner's alarms, and no fires.

        `look_at`: only the next so many of them, newest first, behind `cursor`; 0: all of them.
        """
        ...

    async def events(
        self, *, owner: str = "", alarm_id: str = "", after: int = 0, limit: int = 100, most: int = 0
    ) -> list[tuple[int, Event]]:
        """What happened, oldest first, with its sequence number; `after` is the last number seen.

        `most` as in a query: then there may be fewer than the limit although there are more.
        """
        ...

    async def last_event_at(self, alarm_id: str, what: str) -> datetime | None:
        """When something last happened to an alarm; None where it is not on record."""
        ...

    async def events_by(self, by: str, what: str, *, since: datetime, limit: int) -> list[Event]:
        """What somebody did of one kind, of all owners, oldest first."""
        ...

    async def latest_events(self, alarm_id: str, *, limit: int) -> list[Event]:
        """The events of an alarm, newest first, also what it was before its last change (`Change.former`).

        `events` and `changes` leave that out: it holds words that may have been taken back since.
        """
        ...

    async def changes(self, *, owner: str, since: datetime, after_event: int, limit: int) -> Followed:
        """Return what is new: at most `limit` each of new alarms, changed fires and events; empty owner: all.

        Alarms: `created_at` at or after `since`, in the order of their ids. An id is a UUIDv7 made no earlier than its
        alarm's `created_at`, and a store may rely on that: an alarm with an id of another kind may be left out. Fires:
        `updated_at` at or after `since`, as they are now. Events: numbered above `after_event`. What commits late may
        appear behind what was already read: look back.
        """
        ...

    async def beat(self, worker: Worker) -> None:
        """Write a worker's row; `seen_at` is set by the store's clock."""
        ...

    async def workers(self) -> list[Worker]:
        """Every worker on record, also stopped ones, by `started_at`, then id."""
        ...

    async def target_states(self) -> dict[str, TargetState]: ...

    async def set_target_state(self, state: TargetState, *, event: Event | None = None) -> None: ...

    async def door(self) -> Door:
        """Whether tokens were ever made, whatever became of them, and whether the door was opened again since."""
        ...

    async def open_door(self, event: Event) -> None:
        """Set the door to `open`, and put on record who did. The next `add_token` closes it."""
        ...

    async def add_token(self, token: Token) -> bool:
        """Keep a token and close the door; False, and nothing written, where its id is taken."""
        ...

    async def tokens(self) -> list[Token]:
        """Every token on record, also revoked and expired ones, by `created_at`, then id."""
        ...

    async def token(self, id: str) -> Token | None: ...

    async def revoke_token(self, id: str, now: datetime) -> bool:
        """Set `revoked_at` where it is not set yet; whether there is such a token at all."""
        ...

    async def touch_token(self, id: str, at: datetime) -> None:
        """Set `last_used_at`, never back."""
        ...

    async def similar(self, alarm: Alarm, *, among: int) -> Alarm | None:
        """The newest active alarm, among so many latest of the owner, that says the same at the same times elsewhere.

        Same owner, target, kind, `fire_at`, `cron_expr`, `timezone`, `policy` (so that its start, its bounds and where
        an interval counts from are the same), `wake_message`, `payload` and `conversation_id`; another id.
        """
        ...

    async def count_old(self, before: datetime, *, owner: str = "") -> dict[str, int]:
        """How many `alarms`, `fires`, `events` and `tokens` a purge would delete, until it answers 0."""
        ...

    async def purge(self, before: datetime, *, owner: str = "", limit: int = 1000) -> int:
        """Delete what is finished since before a moment, at most `limit` of each kind of row; how many went.

        Fires: `updated_at` before it, of which nothing more is expected (not waiting, no `report_by`), and not the
        current occurrence of an active or paused alarm: so also a retry that was left open when its alarm ended.
        Alarms: fired, failed or cancelled, `updated_at` before it, and no fire of theirs is left. Events: `at` before
        it. Tokens: revoked or expired before it. Call it again until it answers 0. A key is free again once its alarm
        is gone.
        """
        ...
