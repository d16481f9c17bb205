"""Queries with filters that may be absent: a line marked `-- when x` counts only where x is given.

The text stays whole in its file, every value is a parameter, and an absent filter does not cost an index.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import asdict

from wakeful.moments import unix_ms
from wakeful.store import AlarmQuery, FireQuery

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
    if query.cursor is not None:
        values["cursor"] = unix_ms(query.cursor[0])
    return values
