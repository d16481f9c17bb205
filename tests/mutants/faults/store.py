"""Faults in what is written and claimed: `store/` and its statements, in both dialects."""

from __future__ import annotations

from typing import Final

from .fault import Fault, Source, Sql

_SETTLING: Final = ("settle", "settle_edited")
_OR_IN_GROUP: Final = (
    " or (unsettled = 1 and next_fire_at <= (select now from moment) and (select in_group from suspect))"
)
_COMPLETED: Final = ("settle_at_once",)
_CLAIMING: Final = ("claim", "due", "suspect", "in_turn", "claim_in_turn")

IN_STORES: Final[dict[str, Fault]] = {
    "sqlite: who has the file open keeps the old default": Source(
        "wakeful.store.sqlite.schema", 'db.pragma("schema_version", version + 1)', "pass"
    ),
    "sqlite: settle without the claim check": Sql("sqlite", _SETTLING, "and alarm.claim = change.held_claim"),
    "sqlite: settle without the version check": Sql("sqlite", _SETTLING, "and alarm.version = change.held_version"),
    "sqlite: claim without the lease check": Sql(
        "sqlite", _CLAIMING, "and (claimed_at is null or claimed_at <= :now - :lease or claimed_at > :now + :lease)"
    ),
    "sqlite: a lease from the future holds": Sql("sqlite", _CLAIMING, " or claimed_at > :now + :lease"),
    "sqlite: all suspects at once": Sql(
        "sqlite",
        _CLAIMING,
        "and (unsettled = 0 or rowid = :suspect or (:in_group and unsettled = 1 and next_fire_at <= :now))",
    ),
    "sqlite: suspects only one at a time": Sql(
        "sqlite", ("due",), " or (:in_group and unsettled = 1 and next_fire_at <= :now)"
    ),
    "sqlite: a group comes where none is wanted": Sql("sqlite", ("due",), ":in_group and ", ""),
    "sqlite: a group waits behind those that are tried alone": Sql("sqlite", ("suspect",), "and unsettled <= :most"),
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
        "postgres", ("claim",), f"and (unsettled = 0 or id = (select id from suspect){_OR_IN_GROUP})"
    ),
    "postgres: suspects only one at a time": Sql("postgres", ("claim",), _OR_IN_GROUP),
    "postgres: a group comes where none is wanted": Sql(
        "postgres", ("claim", "claim_in_turn"), " and (select in_group from suspect)"
    ),
    "postgres: a group waits behind those that are tried alone": Sql(
        "postgres", ("claim", "claim_in_turn"), "and unsettled <= 1"
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
    "memory: settle without the claim check": Source(
        "wakeful.store.memory.settling", "held is None or held.claim != change.claim", "held is None"
    ),
    "memory: settle without the version check": Source(
        "wakeful.store.memory.settling", "if held.version != change.version:", "if False:"
    ),
    "memory: a settlement replaces what a report has set": Source(
        "wakeful.store.memory.settling", "if is_settlement and any(", "if False and any("
    ),
    "memory: claim without the lease check": Source(
        "wakeful.store.memory.claiming", ".is_leased(self.now, self.lease):", ".finished:"
    ),
    "memory: a plan that is refused stays by halves": Source(
        "wakeful.store.memory.database", "vars(self).update(before)", "pass"
    ),
    "what was seen is not kept, sqlite": Source(
        "wakeful.store.sqlite", "self.access.keep_seen(db, written_too)", "pass"
    ),
    "what was seen is kept by a change that is not ours, sqlite": Source(
        "wakeful.store.sqlite", "self.access.keep_seen(db, written_too)", "self.access.keep_seen(db, more)"
    ),
    "what was seen is not kept, postgres": Source("wakeful.store.postgres", "or change.seen is not None", "or False"),
    "the query of a check sets up its session": Source(
        "wakeful.store.postgres.access", "await transaction.rollback()", "await transaction.commit()"
    ),
    "a query of a check writes, postgres": Source(
        "wakeful.store.postgres.access", "connection.transaction(readonly=True)", "connection.transaction()"
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
    "sqlite: pages are read without a turn": Source(
        "wakeful.store.sqlite",
        'return await self._long_read(work, values["owner"])',
        "return await self._long_read(work)",
    ),
    "postgres: pages are read without a turn": Source(
        "wakeful.store.postgres",
        "async with self._turns.turn(owner):\n            if text or most:",
        'async with self._turns.turn(""):\n            if text or most:',
    ),
    "postgres: a plan is kept for ever": Source(
        "wakeful.store.postgres.database", 'said.append("discard plans")', "pass"
    ),
    "postgres: a list is planned as a claim is": Source(
        "wakeful.store.postgres.database", "if wanted != self._keeps:", "if wanted and not self._keeps:"
    ),
    "postgres: counts are not held": Source(
        "wakeful.store.postgres.access",
        "async with connection.transaction():\n                keys = {key",
        "for _ in (None,):\n                keys = {key",
    ),
    "postgres: a cost without its report": Source(
        "wakeful.store.postgres.writes",
        "self._access.add_costs(connection, written)",
        "self._access.add_costs(connection, changes)",
    ),
    "sqlite: a cost without its report": Source(
        "wakeful.store.sqlite", "self.access.add_costs(db, written_too)", "self.access.add_costs(db, more)"
    ),
    "all columns are read, whatever there are": Source(
        "wakeful.store.columns",
        'return ", ".join(f"{alias}{column.name}" for column in wanted)',
        'return f"{alias}*" if alias else ", ".join(column.name for column in wanted)',
    ),
    "any newer schema is refused": Source(
        "wakeful.store.queries", "return max(self.oldest, default=self.version)", "return self.version"
    ),
    "a schema that breaks older versions is opened": Source(
        "wakeful.store.queries", "if self.needed > known:", "if False:"
    ),
    "nobody notes which versions may open a schema": Source(
        "wakeful.store.queries", "return step.oldest if step.version > CONTRACT", "return step.oldest if False"
    ),
    "sqlite: a closed database is opened where older versions may": Source(
        "wakeful.store.sqlite.schema", "if CLOSED in ledger.applied:", "if False:"
    ),
    "postgres: a closed database is opened where older versions may": Source(
        "wakeful.store.postgres.migrate", "if CLOSED in ledger.applied:", "if False:"
    ),
    "a copy leaves out what a newer version added": Source(
        "wakeful.store.copying", ".version) > known:", ".version) < 0:"
    ),
    "sqlite: a settlement replaces what a report has said": Sql(
        "sqlite",
        ("put_settled_fires", "put_first_fires"),
        "(known.status <> 'completed' or excluded.status = 'completed')",
        "true",
    ),
    "postgres: a settlement replaces what a report has said": Sql(
        "postgres", ("settle", "settle_at_once"), "known.status = 'completed'", "false"
    ),
    "the wall time of a one-shot is not kept": Source(
        "wakeful.store.columns",
        'return alarm.cron_expr if alarm.kind == "cron" else alarm.wall_time',
        "return alarm.cron_expr",
    ),
    "sqlite: the first alarm keeps no edition of the zone data": Source(
        "wakeful.store.sqlite", "        if alarms and not self.maintenance.has_edition:", "        if False:"
    ),
    "postgres: the first alarm keeps no edition of the zone data": Source(
        "wakeful.store.postgres", "        if alarms and not self.maintenance.has_edition:", "        if False:"
    ),
    "a second first edition counts as planned": Source(
        "wakeful.store.maintenance", "    if len(kept) != 1 or kept[0]", "    if kept[0]"
    ),
    "closing refuses alarms that wait for the first edition": Source(
        "wakeful.store.maintenance", "        await asyncio.wait([keeping])\n", "        pass\n"
    ),
    "what is restored keeps no edition": Source(
        "wakeful.store.copying.backup", "    await keep_first_edition(target.store.maintenance)\n", ""
    ),
    "a store of the parent process is used": Source(
        "wakeful.errors", "        if self._pid not in (0, here):\n", "        if False:\n"
    ),
    "a ledger keyed by service gets a row for each step": Source(
        "wakeful.store.queries", '            found = "service"\n', "            pass\n"
    ),
    "a shared ledger with any key is used": Source(
        "wakeful.store.queries", "            return None  # two steps of ours", "            pass  # two steps of ours"
    ),
    "planning keeps the lock of the file": Source(
        "wakeful.store.sql_tasks", "(not answers or stopwatch() - began < SHARE)", "True"
    ),
    "a column that was added is not seen": Source(
        "wakeful.store.sql_tasks", "self._edition != await connection.edition(self._table[0])", "False"
    ),
    "tasks are planned one by one": Source(
        "wakeful.store.postgres.sql_tasks", "or len(plans) < _TOGETHER", "or len(plans) >= _TOGETHER"
    ),
    "a check writes": Source("wakeful.store.sqlite.access", "    db.authorizer = _only_reads\n", ""),
    "a check has several statements": Source(
        "wakeful.store.sqlite.access", "    cursor.exec_trace = _OneStatement()\n", ""
    ),
    "former values are shown": Sql("sqlite", ("events",), "and what <> 'former'"),
    "every former value is kept": Sql("sqlite", ("forget_former",), "offset 1", "offset 1000"),
}
