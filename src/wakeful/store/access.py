"""Who may do what, and how much: tokens, keys, what owners set, and what was used of budgets and seen by checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, Literal, Protocol

from msgspec import Struct

from wakeful.model.alarm import Event
from wakeful.model.owner_settings import OwnerSettings
from wakeful.moments import from_unix_ms, unix_ms
from wakeful.rules.budget import BudgetCount, Charge, Refusal

AuthState = Literal["new", "closed", "open"]
MAX_CHECK_ROWS: Final = 1000  # of the query of a check
KEY_SIZE: Final = 32
_CURRENT: Final = "report"
_RETIRED: Final = ("report-1", "report-2")  # the latest first
_STAMP: Final = 8


class Token(Struct, frozen=True, kw_only=True):
    """Who may speak for an owner, and for how long. The secret itself is nowhere: `hash` is its SHA-256."""

    id: str
    owner_did: str
    hash: bytes
    scopes: tuple[str, ...] = ("read", "write")
    label: str = ""
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None
    made_by: str = ""  # the id of the token with which it was made; empty where that was done at the database

    def is_live(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def auth_state_of(stored: bytes) -> AuthState:
    """The state on record. `closed` where it is in doubt."""
    return "open" if stored == b"open" else "closed"


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


class AccessStore(Protocol):
    """Access and settings."""

    async def report_keys(self) -> ReportKeys:
        """The key of report tokens, 32 random bytes made once per database, and those it took the place of."""
        ...

    async def rotate_report_key(self, now: datetime, event: Event) -> ReportKeys:
        """Replace the current key, which counts as retired from `now` on, and record the event.

        Two retired keys are kept. Of several calls at once each retires the key that the one before it made.
        """
        ...

    async def auth_state(self) -> AuthState:
        """Whether tokens are required: `new` (there never was one), `closed` (there was) or `open` (reopened since)."""
        ...

    async def open_auth(self, event: Event) -> None:
        """Set the auth state to `open`, and record the event. The next `add_token` closes it."""
        ...

    async def add_token(self, token: Token) -> bool:
        """Store a token and set the auth state to `closed`; False, and nothing written, where its id is taken."""
        ...

    async def tokens(self) -> list[Token]:
        """Every token on record, also revoked and expired ones, by `created_at`, then id."""
        ...

    async def token(self, id: str) -> Token | None: ...

    async def update_token(
        self, id: str, *, revoked_at: datetime | None = None, last_used_at: datetime | None = None
    ) -> bool:
        """Set `revoked_at` where it is not set yet, and `last_used_at`, never back; whether there is such a token."""
        ...

    async def owner_settings(self, owner: str) -> OwnerSettings:
        """What an owner has set for all alarms; all of it empty where that is nothing."""
        ...

    async def put_owner_settings(self, owner: str, settings: OwnerSettings) -> None:
        """Replace what was stored for the owner before."""
        ...

    async def spend(self, charges: Sequence[Charge]) -> list[Refusal | None]:
        """Count wakes that are about to be sent against their budgets; for each None, or why it must not be sent.

        The counts are read and written in one transaction that nobody else enters: however many processes ask, no more
        wakes are let through than a limit allows. A call that fails, or whose answer is lost, may have counted wakes
        that are then not sent.
        """
        ...

    async def spent(self, charge: Charge) -> list[BudgetCount]:
        """What was used so far of the limits that a wake would meet; those of which nothing was are left out."""
        ...

    async def check_value(self, alarm_id: str, name: str) -> str | None:
        """What an alarm's last wake reported of a check; None before the first.

        A value is written with the settlement of that wake (`Change.seen`): a wake that is lost is not skipped.
        """
        ...

    async def check_rows(self, sql: str, *, within: float) -> list[tuple[Any, ...]]:
        """The rows of an operator's query, at most MAX_CHECK_ROWS + 1, read only and within so many seconds.

        Whatever goes wrong is StoreUnavailable.
        """
        ...
