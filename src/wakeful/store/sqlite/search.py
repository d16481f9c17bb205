"""Queries with filters that may be absent: a line marked `-- when x` counts only where x is given.

The text stays whole in its file, every value is a parameter, and an absent filter does not cost an index.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import apsw
import msgspec
from msgspec.structs import asdict

from wakeful.alarm.model import STEPPED_OVER, UNSUCCESSFUL
from wakeful.moments import from_unix_ms, unix_ms
from wakeful.store import AlarmQuery, FireQuery
from wakeful.store.looking import CANCELLED, PAUSED, indexed_statuses, is_by_id
from wakeful.store.pages import Cursor
from wakeful.store.rows import Row

_WHEN: Final = re.compile(r"\n[^\n]* -- when (\w+)(?=\n|$)")


def narrowed(sql: str, values: Mapping[str, Any]) -> str:
    """The statement without the lines whose value is missing or empty."""
    return _WHEN.sub(lambda line: line[0] if values[line[1]] not in ("", None) else "", sql)


def search_values(query: AlarmQuery | FireQuery) -> dict[str, Any]:
    values = asdict(query)
    values["statuses"] = msgspec.json.encode(query.statuses).decode() if query.statuses else ""
    values["since"] = None if query.since is None else unix_ms(query.since)
    values["until"] = None if query.until is None else unix_ms(query.until)
    values["cursor"], values["cursor_id"] = (None, "") if query.cursor is None else query.cursor
    values["by_id"], values["before_id"], values["last_id"] = is_by_id(query), None, None
    if query.cursor is not None and is_by_id(query):
        values["cursor"], values["before_id"] = None, query.cursor[1]
    elif query.cursor is not None:
        values["cursor"] = unix_ms(query.cursor[0])
        if values["until"] is not None and values["cursor"] < values["until"]:
            values["until"] = None  # what is behind the cursor is before it: one end of a range is what an index has
    values["end"], values["end_id"] = None, ""
    return values | _index(query)


def _index(query: AlarmQuery | FireQuery) -> dict[str, bool | None]:
    """The lines that name the index, one of them at most."""
    statuses = indexed_statuses(query)
    by = {
        "by_paused": PAUSED,
        "by_cancelled": CANCELLED,
        "by_waiting": ("waiting",),
        "by_retrying": ("retrying",),
        "by_failed": UNSUCCESSFUL,
        "by_passed": STEPPED_OVER,
    }
    chosen: dict[str, bool | None] = {name: True if statuses == has else None for name, has in by.items()}
    key = isinstance(query, AlarmQuery) and bool(query.key)
    root = isinstance(query, AlarmQuery) and bool(query.root_id) and not key
    one_alarm = isinstance(query, FireQuery) and bool(query.alarm_id)
    chosen["by_key"] = (key and bool(query.owner)) or None
    chosen["by_root"] = root or None
    is_wide = not (statuses or chosen["by_key"] or root or one_alarm)
    chosen["by_owner"] = (is_wide and bool(query.owner)) or None
    chosen["by_scheduled"] = (is_wide and not query.owner and isinstance(query, FireQuery)) or None
    return chosen


def search_end(db: apsw.Connection, sql: str, values: dict[str, Any]) -> Cursor | None:
    """The last row that is looked at, noted in the values too; None where these are all."""
    by_id: bool = values["by_id"]
    in_order = values | {"since": None, "until": None} if by_id else values  # these are moments, and ids are the order
    rows: list[Row] = db.execute(narrowed(sql, in_order), in_order).fetchall()
    if len(rows) < 2:
        return None
    (moment, id), _ = rows
    values |= {"last_id": id} if by_id else {"end": moment, "end_id": id, "since": None}
    return from_unix_ms(moment), id
