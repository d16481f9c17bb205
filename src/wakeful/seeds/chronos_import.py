"""Import from Chronos: the rows of its table become alarms with the same ids."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast
from uuid import UUID

import msgspec
from msgspec import Raw, Struct

from wakeful.errors import InvalidRequest, StoreUnavailable
from wakeful.model.alarm import DEFAULT_POLICY, Alarm, AlarmStatus, Kind, Policy
from wakeful.moments import whole_ms
from wakeful.schedule import counts_from_start, is_rule, schedule, zone
from wakeful.store.postgres.database import Database
from wakeful.transfer.takeover import PAGE, TakeoverResult, Written

CHAT: Final = "neo_chat"  # what Chronos's later column `target` says of an alarm for the router
COUNT_WITHIN: Final = 600.0
_ALMOST_MS: Final = timedelta(microseconds=999)
_STATUSES: Final = ("active", "fired", "cancelled", "failed")
_OURS: Final = {"claim", "unsettled", "version"}  # columns that tell our own table from Chronos's


class ChronosRow(Struct, kw_only=True):
    """A row as its database writes it in JSON: moments as text, the payload as it stands."""

    id: str
    owner_did: str
    user_id: str
    label: str
    kind: str
    fire_at: str | None
    cron_expr: str
    timezone: str
    next_fire_at: str
    conversation_id: str
    wake_message: str
    payload: Raw
    status: str
    idempotency_key: str
    max_failures: int
    failure_count: int
    last_error: str
    claimed_at: str | None
    created_at: str
    updated_at: str
    last_fired_at: str | None
    # Chronos added these two later; the rows of an older one do without.
    target: str = CHAT
    occurrence_at: str | None = None


LATER: Final = ("target", "occurrence_at")
COLUMNS: Final = tuple(name for name in ChronosRow.__struct_fields__ if name not in LATER)


class ChronosTable:
    """Chronos's table in its database; a row is told as JSON."""

    name = "Chronos"

    def __init__(self, url: str, *, table: str = "alarms") -> None:
        if not url.startswith(("postgresql://", "postgres://")):
            raise InvalidRequest(
                "this is not the address of a PostgreSQL database", field="URL", fix="Give postgresql://…."
            )
        # Somebody else's database, perhaps behind pgbouncer: nothing is set in its sessions.
        self._database = Database(url, pool_size=1, pgbouncer=True)
        self._shown = table
        self._name = ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))

    async def close(self) -> None:
        await self._database.close()

    async def check(self) -> None:
        """Refuse what is not a table of Chronos."""
        rows = await self._fetch(
            "select attname::text, format_type(atttypid, atttypmod) from pg_attribute"
            " where attrelid = to_regclass($1) and attnum > 0 and not attisdropped",
            self._name,
        )
        types: dict[str, str] = dict(map(tuple, rows))
        if not types:
            raise self._refusal("is not there", "Name Chronos's table with --table, as SCHEMA.TABLE if need be.")
        if missing := [name for name in COLUMNS if name not in types]:
            raise self._refusal(f"is not Chronos's: it has no {', '.join(missing)}", "")
        if types.keys() >= _OURS:
            raise self._refusal("is wakeful's own", "Name Chronos's table with --table, as SCHEMA.TABLE.")
        if types["id"] != "uuid":
            raise self._refusal(f"is not Chronos's: its id is {types['id']}, not uuid", "")

    def _refusal(self, what: str, fix: str) -> InvalidRequest:
        return InvalidRequest(f"the table {self._shown!r} {what}", field="URL", fix=fix)

    async def count(self) -> int:
        rows = await self._fetch(f"select count(*) from {self._name}", timeout=COUNT_WITHIN)
        return int(rows[0][0])

    async def pages(self) -> AsyncIterator[Sequence[Written]]:
        """Every row, some hundred at a time, in the order of their ids."""
        last: UUID | None = None
        sql = (
            f"select id, status::text, kind::text, row_to_json(alarm.*)::text from {self._name} as alarm"
            " where $1::uuid is null or id > $1 order by id limit $2"
        )
        while rows := await self._fetch(sql, last, PAGE):
            last = rows[-1][0]
            yield [(str(id), str(status), str(kind), text) for id, status, kind, text in rows]

    async def _fetch(self, sql: str, *args: Any, timeout: float | None = None) -> Sequence[Any]:
        try:
            if timeout is None:
                return await self._database.fetch(sql, *args)
            return await self._database.run(lambda connection, _: connection.fetch(sql, *args, timeout=timeout))
        except StoreUnavailable as error:
            # There are two databases in this: say which one is in trouble.
            raise StoreUnavailable(error.message, field="Chronos's database") from error


def taken(text: str, targets: Mapping[str, str]) -> TakeoverResult:
    """What a row stands for. `targets`: from the word in Chronos's column `target` to the target here."""
    row = _read(text)
    return TakeoverResult(alarm_of(row, targets), leased_at=_moment("claimed_at", row.claimed_at))


def _read(text: str) -> ChronosRow:
    try:
        return msgspec.json.decode(text, type=ChronosRow)
    except (msgspec.DecodeError, RecursionError) as error:  # a column that is not what it was, a payload too deep
        raise InvalidRequest(f"it cannot be read ({error})") from None


def alarm_of(row: ChronosRow, targets: Mapping[str, str]) -> Alarm:
    """The alarm a row stands for; InvalidRequest where wakeful cannot keep it.

    Its lease is not taken along: whoever held it reports to another table. What has ended is kept as it is, also with
    a schedule that wakeful would not accept: nobody will plan it again.
    """
    _check(row, targets)
    updated = _whole("updated_at", row.updated_at)
    due = _up("next_fire_at", row.next_fire_at)
    fire_at = _up("fire_at", row.fire_at or row.next_fire_at) if row.kind == "once" else None
    # The later Chronos says which instant a retry belongs to; before that, a one-shot's is its own moment.
    occurrence = min(due, _up("occurrence_at", row.occurrence_at) if row.occurrence_at else fire_at or due)
    timezone = _timezone(row)
    return Alarm(
        id=row.id,
        owner_did=row.owner_did,
        user_id=row.user_id,
        label=row.label,
        kind=cast(Kind, row.kind),
        fire_at=fire_at,
        cron_expr=row.cron_expr if row.kind == "cron" else "",
        timezone=timezone,
        next_fire_at=due,
        conversation_id=row.conversation_id,
        wake_message=row.wake_message,
        payload_json=bytes(row.payload).decode(),
        status=cast(AlarmStatus, row.status),
        idempotency_key=row.idempotency_key,
        max_failures=row.max_failures,
        failure_count=row.failure_count,
        last_error=row.last_error,
        created_at=_whole("created_at", row.created_at),
        updated_at=updated,
        last_fired_at=_whole("last_fired_at", row.last_fired_at) if row.last_fired_at else None,
        target=targets[row.target],
        occurrence_at=occurrence,
        policy=_policy(row, timezone, occurrence),
        created_by=row.owner_did,  # an agent of Chronos sets its own alarms, and nobody else's
        created_via="chronos",
        cancelled_at=updated if row.status == "cancelled" else None,  # the last thing that happened to it
    )


def _check(row: ChronosRow, targets: Mapping[str, str]) -> None:
    for name, value, accepted in (("status", row.status, _STATUSES), ("kind", row.kind, ("once", "cron"))):
        if value not in accepted:
            raise InvalidRequest(f"{value!r} is not known", field=name, fix=f"Accepted: {', '.join(accepted)}.")
    if not row.owner_did.strip():
        raise InvalidRequest("it is empty, so nobody could see this alarm", field="owner_did")
    if row.target not in targets:
        raise InvalidRequest(
            f"no target here stands for {row.target!r}", field="target", fix=f"Give --target-for {row.target}=NAME."
        )


def _timezone(row: ChronosRow) -> str:
    """Empty means UTC to Chronos; a one-shot's says nothing about its moment, so an unknown one does not matter."""
    if row.kind == "once":
        try:
            return zone(row.timezone).key
        except InvalidRequest:
            return "UTC"
    return row.timezone or "UTC"


def _policy(row: ChronosRow, timezone: str, occurrence: datetime) -> Policy:
    """The default; `@every` is anchored so that the occurrence the row waits for is one of its instants."""
    if row.kind == "once" or row.status != "active":
        return DEFAULT_POLICY
    upcoming = schedule(row.cron_expr, timezone, anchor=occurrence).after(occurrence)
    if not counts_from_start(row.cron_expr) or upcoming is None:
        return DEFAULT_POLICY
    if is_rule(row.cron_expr):
        return Policy(anchor=occurrence)
    return Policy(anchor=occurrence - (upcoming - occurrence))


def _moment(field: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):  # infinity, or beyond the year 9999
        raise InvalidRequest(f"{text!r} is not a moment that can be kept", field=field) from None


def _whole(field: str, text: str) -> datetime:
    """A moment that has been: cut to the millisecond."""
    moment = _moment(field, text)
    assert moment is not None
    return whole_ms(moment)


def _up(field: str, text: str) -> datetime:
    """A moment to fire at: up to the next whole millisecond, so that nothing fires early."""
    moment = _moment(field, text)
    assert moment is not None
    try:
        return whole_ms(moment + _ALMOST_MS)
    except OverflowError:
        raise InvalidRequest(f"{text!r} is not a moment that can be kept", field=field) from None
