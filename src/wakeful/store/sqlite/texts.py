"""What other programs put into their table of tasks, read so that one bad value fails nothing beside it.

SQLite keeps any bytes in any column. They are fetched as bytes and read as text here; what is none is replaced, always
in the same way, and told of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import apsw
from msgspec import Struct
from msgspec.structs import replace

from wakeful.alarm import Task, TaskNews
from wakeful.store.rows import Row
from wakeful.store.tasks import news_of


class FoundTask(Struct, frozen=True):
    """A task that was changed, and its id as the table has it."""

    news: TaskNews
    id: bytes
    is_text: bool  # the id, as it was queued
    nameless: bool  # it may be no text in the table: then no link and no alarm could name it


def texts(db: apsw.Connection, row: Row) -> Row:
    codec = _codec(db)
    return tuple(None if value is None else value.decode(codec, "replace") for value in row)


def read_news(db: apsw.Connection, sql: str, values: Mapping[str, Any]) -> list[FoundTask]:
    codec, found = _codec(db), []
    rows: list[Row] = db.execute(sql, values).fetchall()
    for id, *row in rows:
        news = news_from(db, (id.decode(codec, "replace"), *row))
        # Queued, never planned and not there: either it is deleted already, or its id is a BLOB.
        is_gone = news.task is None and news.seen is None
        is_text = _is_text(id, codec)
        found.append(FoundTask(news, id, is_text, is_gone or not is_text))
    return found


def news_from(db: apsw.Connection, row: Sequence[Any]) -> TaskNews:
    codec, known, columns = _codec(db), row[:5], tuple(row[5:])
    news = news_of((*known, *texts(db, columns)))
    bad = [name for name, value in zip(Task.__struct_fields__, columns, strict=True) if not _is_text(value, codec)]
    return replace(news, trouble=f"{bad[0]}: it is not text, or not in {codec}") if bad else news


def _codec(db: apsw.Connection) -> str:
    return str(db.execute("pragma encoding").get)


def _is_text(value: bytes | None, codec: str) -> bool:
    try:
        (value or b"").decode(codec)
    except UnicodeDecodeError:
        return False
    return True
