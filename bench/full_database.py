"""A database with very many alarms and fires of one owner, and every page of the dashboard that shows some of them.

Filled by SQL. What a page looks for is mostly not there (nothing is paused, nothing waits), so that a read without a
bound would go through everything. `mixed`: as a shared database is after a while. Half of it is one owner's, alarms and
fires are in every state, some wakes wait for a report, and there are events.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import apsw
import asyncpg

_MONTH: Final = 30 * 86_400_000
_NUMBERS: Final = "with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < ?) "
OTHERS: Final = 500  # owners of the other half
# Of a number, in both dialects: whose it is, and in which state.
_OWNER: Final = f"case when n % 2 = 0 then 'local' else 'o' || n % {2 * OTHERS} end"
_ALARM_STATUS: Final = """case when n % 2003 = 0 then 'paused' when n / 2 % 20 = 1 then 'cancelled'
 when n / 2 % 20 = 2 then 'failed' when n / 2 % 20 < 9 then 'fired' else 'active' end"""
_WAITS: Final = "n / 2 % 503 = 3"
_FIRE_STATUS: Final = f"""case when n / 2 % 50 = 0 then 'failed' when n / 2 % 50 = 1 then 'delivered'
 when n / 2 % 50 = 2 then 'skipped' when {_WAITS} then 'waiting' when n / 2 % 4001 = 4 then 'retrying'
 else 'completed' end"""
_ONLY_FAILED: Final = "case when n % 50 = 0 then 'failed' else 'completed' end"
_ID: Final = "printf('%s-%04x-7000-%04x-%012x', substr(id, 1, 8), n / 65536, n % 65536, n)"


def views(alarm: str, now: datetime) -> list[str]:
    """Every page that is read, with the filters that find nothing: they look at the most."""
    hour = f"since={now:%Y-%m-%dT%H}:00:00Z&until={now + timedelta(hours=1):%Y-%m-%dT%H}:00:00Z"
    return [
        *("/", "/now/needs", "/now/next", "/now/tail", "/new"),
        *("/alarms", "/alarms?status=active", "/alarms?status=paused", "/alarms?status=cancelled,failed"),
        *("/alarms?text=nothing", "/alarms?label=nothing", "/alarms?target=nothing", "/alarms?conversation_id=nothing"),
        *("/alarms?kind=once", f"/alarms?{hour}", "/alarms?since=7d&until=1h", "/bulk/alarms?verb=resume"),
        *("/fires", "/fires?status=failed", "/fires?status=retrying", "/fires?status=waiting", "/fires?status=skipped"),
        *("/fires?target=nothing", "/fires?since=30d&until=29d", "/fires?status=delivered", "/bulk/fires?verb=retry"),
        *("/timeline", f"/timeline?month={now:%Y-%m}", f"/timeline/coming?{hour}"),
        *("/targets", "/health", "/health.json", "/owners"),
        *(f"/alarms/{alarm}", f"/alarms/{alarm}/edit"),
    ]


def fill_sqlite(db: str, template: str, now: datetime, *, alarms: int, fires: int, mixed: bool = False) -> None:
    """Copies of one alarm, spread over the day ahead; fires of theirs over the month behind, one in fifty failed."""
    connection, at = apsw.Connection(db), int(now.timestamp() * 1000)
    columns = [row[1] for row in connection.execute("pragma table_info(alarms)")]
    spread = f"{at} + 3600000 + (n * 7919) % 86400000"
    new = {"id": _ID, "next_fire_at": spread, "occurrence_at": spread, "created_at": f"{at} - n"}
    new |= {"updated_at": f"{at} - n", "label": "'alarm ' || n", "target": "'target' || (n % 20)"}
    new |= _mixed_columns() if mixed else {}
    chosen = ", ".join(new.get(column, column) for column in columns)
    connection.execute("begin immediate")
    connection.execute(
        f"{_NUMBERS} insert into alarms ({', '.join(columns)}) select {chosen} from numbers, alarms where id = ?",
        (alarms, template),
    )
    due = f"{at} - (n * {max(1, _MONTH // fires)})"
    status = _FIRE_STATUS if mixed else _ONLY_FAILED
    report_by = f"iif({_WAITS}, {at} + 3600000, null)" if mixed else "null"
    connection.execute(
        f"""{_NUMBERS} insert into fires (alarm_id, scheduled_for, owner_did, target, status, reason, attempts,
            failures, started_at, delivered_at, completed_at, duration_ms, result, last_error, log, count, updated_at,
            report_by)
            select ids.id, {due}, ids.owner_did, 'target' || (n / 2 % 20), {status}, '', 1,
                   iif(n % 50 = 0, 1, 0), {due} + 20, {due} + 40, {due} + 40, 20, 'done',
                   iif(n % 50 = 0, 'HTTP 500', ''), '[]', 1, {due} + 40, {report_by}
              from numbers join (select id, owner_did, row_number() over (order by id) as number from alarms) ids
                on ids.number = 1 + n % {alarms}""",
        (fires,),
    )
    if mixed:
        connection.execute(
            f"{_NUMBERS} insert into events (at, what, alarm_id, owner_did)"
            f" select {at} - {_MONTH} + n, 'paused', 'a' || n, {_OWNER} from numbers",
            (alarms,),
        )
    connection.execute("commit")
    connection.execute("analyze")
    connection.close()


def _mixed_columns() -> dict[str, str]:
    columns = {"owner_did": _OWNER, "status": _ALARM_STATUS, "conversation_id": "'conversation ' || n % 10007"}
    return columns | {"target": "'target' || n / 2 % 20"}


async def fill_postgres(
    dsn: str, schema: str, template: str, now: datetime, *, alarms: int, fires: int, mixed: bool = False
) -> None:
    """The same rows as in SQLite."""
    connection = await asyncpg.connect(dsn)
    rows = await connection.fetch(
        "select column_name from information_schema.columns where table_schema = $1 and table_name = 'alarms'"
        " order by ordinal_position",
        schema,
    )
    columns = [row[0] for row in rows]
    ms = "interval '1 ms'"
    spread = f"$2::timestamptz + (3600000 + (n::bigint * 7919) % 86400000) * {ms}"
    set_at = f"$2::timestamptz - n * {ms}"
    id = "(substr(id::text, 1, 9) || lpad(to_hex(n / 65536), 4, '0') || '-7000-' || lpad(to_hex(n % 65536), 4, '0')"
    new = {"id": f"{id} || '-' || lpad(to_hex(n), 12, '0'))::uuid", "next_fire_at": spread, "occurrence_at": spread}
    new |= {"created_at": set_at, "updated_at": set_at, "label": "'alarm ' || n", "target": "'target' || (n % 20)"}
    new |= _mixed_columns() if mixed else {}
    chosen = ", ".join(new.get(column, column) for column in columns)
    await connection.execute(f"set search_path to {schema}")
    await connection.execute(
        f"insert into alarms ({', '.join(columns)}) select {chosen} from generate_series(1, $3::int) as n, alarms"
        " where id = $1",
        *(template, now, alarms),
    )
    due = f"$1::timestamptz - n * {max(1, _MONTH // fires)} * {ms}"
    status = _FIRE_STATUS if mixed else _ONLY_FAILED
    report_by = f"case when {_WAITS} then $1::timestamptz + interval '1 h' end" if mixed else "null"
    await connection.execute(
        f"""insert into fires (alarm_id, scheduled_for, owner_did, target, status, reason, attempts,
            failures, started_at, delivered_at, completed_at, duration_ms, result, last_error, log, count, updated_at,
            report_by)
            select ids.id, {due}, ids.owner_did, 'target' || (n / 2 % 20), {status}, '', 1,
                   case when n % 50 = 0 then 1 else 0 end, {due} + 20 * {ms}, {due} + 40 * {ms},
                   {due} + 40 * {ms}, 20, 'done', case when n % 50 = 0 then 'HTTP 500' else '' end, '[]', 1,
                   {due} + 40 * {ms}, {report_by}
              from generate_series(1, $2::bigint) as n
              join (select id, owner_did, row_number() over (order by id) as number from alarms) ids
                on ids.number = 1 + n % $3::bigint""",
        *(now, fires, alarms),
        timeout=600,
    )
    if mixed:
        await connection.execute(
            f"insert into events (at, what, alarm_id, owner_did) select $1::timestamptz - ({_MONTH} - n) * {ms},"
            f" 'paused', 'a' || n, {_OWNER} from generate_series(1, $2::bigint) as n",
            *(now, alarms),
        )
    for table in ("alarms", "fires", "events"):
        await connection.execute(f"vacuum analyze {table}", timeout=600)
    await connection.close()
