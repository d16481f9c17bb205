"""Faults in what is written and claimed: `store/` and its statements, in both dialects."""

from __future__ import annotations

from typing import Final

from .fault import Fault, Source, Sql

_SETTLING: Final = ("settle", "settle_edited")
_COMPLETED: Final = ("settle_at_once",)
_CLAIMING: Final = ("claim", "due", "suspect", "in_turn", "claim_in_turn")

IN_STORES: Final[dict[str, Fault]] = {
    "sqlite: settle without the claim check": Sql("sqlite", _SETTLING, "and alarm.claim = change.held_claim"),
    "sqlite: settle without the version check": Sql("sqlite", _SETTLING, "and alarm.version = change.held_version"),
    "sqlite: claim without the lease check": Sql(
        "sqlite", _CLAIMING, "and (claimed_at is null or claimed_at <= :now - :lease or claimed_at > :now + :lease)"
    ),
    "sqlite: a lease from the future holds": Sql("sqlite", _CLAIMING, " or claimed_at > :now + :lease"),
    "sqlite: all suspects at once": Sql("sqlite", _CLAIMING, "and (unsettled = 0 or rowid = :suspect)"),
    "sqlite: claim without the due check": Sql("sqlite", ("due",), "and next_fire_at <= :due"),
    "sqlite: finished when it is claimed": Sql(
        "sqlite", ("claim",), "set claimed_at", "set status = 'fired', claimed_at"
    ),
    "sqlite: a commit that is not synced": Source(
        "wakeful.store.sqlite.file", 'SYNCHRONOUS: Final = "full"', 'SYNCHRONOUS: Final = "off"'
    ),
    "postgres: settle without the claim check": Sql("postgres", _SETTLING, "and alarm.claim = change.held_claim"),
    "postgres: settle without the version check": Sql("postgres", _SETTLING, "and alarm.version = change.held_version"),
    "postgres: claim without the lease check": Sql(
        "postgres",
        _CLAIMING,
        "claimed_at <= (select now from moment) - $2::interval",
        "claimed_at <= (select now from moment) + $2::interval",
    ),
    "postgres: a lease from the future holds": Sql(
        "postgres", _CLAIMING, "claimed_at > (select now from moment) + $2::interval", "false"
    ),
    "postgres: all suspects at once": Sql(
        "postgres", _CLAIMING, "and (unsettled = 0 or id = (select id from suspect))"
    ),
    "postgres: claim without the due check": Sql(
        "postgres", ("claim", "claim_in_turn"), "and next_fire_at <= (select now from moment) + slot.early"
    ),
    "sqlite: a first attempt settled without the claim check": Sql(
        "sqlite", _COMPLETED, "and alarm.claim = change.held_claim"
    ),
    "sqlite: a first attempt settled without the version check": Sql(
        "sqlite", _COMPLETED, "and alarm.version = change.held_version"
    ),
    "postgres: a first attempt settled without the claim check": Sql(
        "postgres", _COMPLETED, "and alarm.claim = change.held_claim"
    ),
    "postgres: a first attempt settled without the version check": Sql(
        "postgres", _COMPLETED, "and alarm.version = change.held_version"
    ),
    "postgres: claim without skip locked": Sql("postgres", _CLAIMING, "for update skip locked", "for update"),
    "postgres: finished when it is claimed": Sql(
        "postgres", ("claim",), "set claimed_at", "set status = 'fired', claimed_at"
    ),
    "what was seen is not kept, sqlite": Source("wakeful.store.sqlite", "self.checks.keep(db, written_too)", "pass"),
    "what was seen is kept by a change that is not ours, sqlite": Source(
        "wakeful.store.sqlite", "self.checks.keep(db, written_too)", "self.checks.keep(db, more)"
    ),
    "what was seen is not kept, postgres": Source("wakeful.store.postgres", "or change.seen is not None", "or False"),
    "a query of a check writes, postgres": Source(
        "wakeful.store.postgres.checks", "connection.transaction(readonly=True)", "connection.transaction()"
    ),
    "everybody hears a signal, sqlite": Sql("sqlite", ("listening",), "owner_did = :owner", "owner_did > ''"),
    "everybody hears a signal, postgres": Sql("postgres", ("listening",), "owner_did = $1", "owner_did > $1"),
    "postgres: one in trouble fails its whole batch": Source(
        "wakeful.store.batching",
        "        except (StoreRefused, StoreBusy):\n            call, units",
        "        except ZeroDivisionError:\n            call, units",
    ),
    "postgres: a batch is given up with its caller": Source(
        "wakeful.store.batching",
        "await asyncio.shield(self._go(self._together(items)))",
        "await self._together(items)",
    ),
    "postgres: a plan is kept for ever": Source("wakeful.store.postgres.plans", 'said.append("discard plans")', "pass"),
    "postgres: a list is planned as a claim is": Source(
        "wakeful.store.postgres.plans", "if wanted != self._keeps:", "if wanted and not self._keeps:"
    ),
    "postgres: counts are not held": Source(
        "wakeful.store.postgres.budget", "async with connection.transaction():", "for _ in (None,):"
    ),
    "postgres: a cost without its report": Source(
        "wakeful.store.postgres.writes",
        "add_costs(connection, [change for change in changes if change.after.id in applied])",
        "add_costs(connection, changes)",
    ),
    "sqlite: a cost without its report": Source(
        "wakeful.store.sqlite", "self.budget.add_costs(db, written_too)", "self.budget.add_costs(db, more)"
    ),
}
