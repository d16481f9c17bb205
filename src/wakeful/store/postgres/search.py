"""The parameters of a search. A filter that is not asked for is empty, and costs nothing: see postgres.sql."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from wakeful.store import AlarmQuery, FireQuery
from wakeful.store.pages import Cursor
from wakeful.store.postgres.rows import uuid_of


def search_values(query: AlarmQuery | FireQuery, end: Cursor | None) -> tuple[Any, ...]:
    """The parameters of a search, but for its limit."""
    between = (query.since, query.until, *cursor_values(query.cursor), *cursor_values(end))
    if isinstance(query, FireQuery):
        return (query.owner, uuid_of(query.alarm_id), query.statuses, query.target, *between)
    words = (query.kind, query.target, query.label, query.conversation_id, query.root_id)
    return (query.owner, query.statuses, *words, *between, query.key)


def cursor_values(cursor: Cursor | None) -> tuple[datetime | None, Any]:
    return (None, None) if cursor is None else (cursor[0], uuid_of(cursor[1]))
