"""The key of report tokens, and the ones it took the place of: rows of the table `secrets`.

A key that was retired stands behind the moment of that. Two are kept: a third change forgets the first.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from wakeful.moments import from_unix_ms, unix_ms

KEY_SIZE: Final = 32
_CURRENT: Final = "report"
_RETIRED: Final = ("report-1", "report-2")  # the latest first
_STAMP: Final = 8


class RetiredKey(Struct, frozen=True):
    key: bytes
    retired_at: datetime


class ReportKeys(Struct, frozen=True):
    """What report tokens are made with now, and what they were made with before, the latest first."""

    current: bytes
    retired: tuple[RetiredKey, ...] = ()

    def __repr__(self) -> str:
        return f"ReportKeys({len(self.retired)} retired)"  # whoever logs or shows it shows no key

    def rotated(self, key: bytes, now: datetime) -> ReportKeys:
        """With a new key in the place of the current one."""
        return ReportKeys(key, (RetiredKey(self.current, now), *self.retired)[: len(_RETIRED)])

    def rows(self) -> list[tuple[str, bytes]]:
        """As names and values of `secrets`."""
        retired = (unix_ms(old.retired_at).to_bytes(_STAMP) + old.key for old in self.retired)
        return [(_CURRENT, self.current), *zip(_RETIRED, retired, strict=False)]


def keys_of(rows: Iterable[Any]) -> ReportKeys | None:
    """The keys in these rows of name and value; None where none was made yet."""
    found = {name: bytes(value) for name, value in rows}
    if _CURRENT not in found:
        return None
    retired = (found[name] for name in _RETIRED if name in found)
    return ReportKeys(
        found[_CURRENT],
        tuple(RetiredKey(value[_STAMP:], from_unix_ms(int.from_bytes(value[:_STAMP]))) for value in retired),
    )
