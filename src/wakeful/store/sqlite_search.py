"""A query as SQL: fixed fragments by name, every value a parameter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from wakeful.store import AlarmQuery, FireQuery
from wakeful.store.rows import to_ms

Search = tuple[str, list[Any]]


def alarm_search(sql: Mapping[str, str], query: AlarmQuery) -> Search:
    text = query.text.casefold()
    return _assembled(
        sql,
        "find",
        query,
        owner=[query.owner],
        kind=[query.kind],
        target=[query.target],
        label=[query.label],
        conversation_id=[query.conversation_id],
        root_id=[query.root_id],
        text=[text, text],
    )


def fire_search(sql: Mapping[str, str], query: FireQuery) -> Search:
    return _assembled(sql, "fires", query, owner=[query.owner], alarm_id=[query.alarm_id], target=[query.target])


def _assembled(sql: Mapping[str, str], name: str, query: AlarmQuery | FireQuery, **plain: list[str]) -> Search:
    filters: dict[str, list[Any]] = {part: values for part, values in plain.items() if values[0]}
    if query.statuses:
        filters["statuses"] = [msgspec.json.encode(query.statuses).decode()]
    if query.since is not None:
        filters["since"] = [to_ms(query.since)]
    if query.until is not None:
        filters["until"] = [to_ms(query.until)]
    if query.cursor is not None:
        filters["cursor"] = [to_ms(query.cursor[0]), query.cursor[1]]
    parts = [sql[name], *(sql[f"{name}_{part}"] for part in filters), sql[f"{name}_end"]]
    return "\n".join(parts), [*(value for values in filters.values() for value in values), query.limit]
