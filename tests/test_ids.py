"""Ids sort by creation time, are UUIDs of version 7, and are the same alone and many at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import RFC_4122, UUID

from wakeful.ids import Ids, id_of
from wakeful.moments import unix_ms

NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)


def ms_of(id: str) -> int:
    return UUID(id).int >> 80


def test_ids_are_in_order_and_none_is_made_twice() -> None:
    ids = Ids()
    made = [ids.new(NOW), *ids.many(NOW, 10_000), ids.new(NOW), *ids.many(NOW - timedelta(1), 300), ids.new(NOW)]
    assert made == sorted(set(made)), "more than there is room for in a millisecond, and a clock that was set back"
    assert ms_of(made[0]) == unix_ms(NOW)
    assert ms_of(made[-1]) - unix_ms(NOW) == len(made) >> 12
    assert [str(UUID(id)) for id in made] == made
    assert {(UUID(id).version, UUID(id).variant) for id in made} == {(7, RFC_4122)}
    assert ms_of(ids.many(NOW + timedelta(1), 1)[0]) == unix_ms(NOW + timedelta(1))
    assert ids.many(NOW, 0) == []


def test_an_id_of_parts_stays_what_it_is() -> None:
    assert id_of(datetime(2026, 1, 1, tzinfo=UTC), b"a", b"b") == "019b76da-a800-73c9-9644-116f221dbe74"
