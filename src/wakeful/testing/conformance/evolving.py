"""A table with one more column: a newer version may have added it while this one runs.

Every statement names its columns, and readers ignore those they do not know. So the tests of reading and writing are
run once more, in a store whose tables each got another column while it was open. These stand beside the outbox's.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from typing import Any, Final

import pytest

from wakeful.store import Store
from wakeful.store.queries import OURS
from wakeful.testing.conformance.adding import TestAdding, TestKeys, TestWhatIsKept
from wakeful.testing.conformance.budgeting import TestBudgets
from wakeful.testing.conformance.checking import TestChecks
from wakeful.testing.conformance.claiming import TestBacklog, TestClaiming, TestLeases, TestNextDue, TestSuspects
from wakeful.testing.conformance.counting import TestFigures
from wakeful.testing.conformance.finding import (
    TestFinding,
    TestFires,
    TestInbox,
    TestOverdue,
    TestOwners,
    TestPages,
    TestStats,
    TestUsage,
)
from wakeful.testing.conformance.following import TestFollowing
from wakeful.testing.conformance.growing import TestAllOwners, TestBoundedCounts
from wakeful.testing.conformance.making import Outbox
from wakeful.testing.conformance.owner_settings import TestOwnerSettings
from wakeful.testing.conformance.owning import TestDoor, TestSimilar, TestTokens
from wakeful.testing.conformance.settling import TestEditing, TestRows, TestSettling
from wakeful.testing.conformance.signalling import TestSignals
from wakeful.testing.conformance.tasking import (
    TestTaskNews,
    TestTaskPlans,
    TestTaskRows,
    TestTasksAndTheirAlarms,
    TestTaskTables,
)
from wakeful.testing.conformance.turning import TestOwnersInTurn
from wakeful.testing.conformance.upkeep import TestEvents, TestPurging, TestReportKeys, TestTargets, TestWorkers

_REPEATED: Final = (
    *(TestAdding, TestKeys, TestWhatIsKept, TestBudgets, TestBacklog, TestClaiming, TestLeases, TestNextDue),
    *(TestSuspects, TestFigures, TestFinding, TestFires, TestInbox, TestOverdue, TestPages, TestStats, TestFollowing),
    *(TestOwnerSettings, TestDoor, TestSimilar, TestTokens, TestEditing, TestRows, TestSettling, TestSignals),
    *(TestTaskNews, TestTaskPlans, TestTasksAndTheirAlarms, TestOwnersInTurn, TestEvents, TestPurging),
    *(TestReportKeys, TestTargets, TestWorkers, TestChecks, TestUsage, TestOwners, TestAllOwners, TestBoundedCounts),
    *(TestTaskTables, TestTaskRows),
)


class _OneMoreColumn:
    @pytest.fixture(autouse=True)
    async def one_more_column(self, store: Store, outbox: Outbox) -> None:
        await store.maintenance.workers()  # it is open, and has read its tables as they were
        schema, dot, _ = outbox.table.rpartition(".")
        for table in OURS:
            # Only PostgreSQL has claims whose answers can get lost.
            with suppress(Exception) if table == "claim_tokens" else nullcontext():
                await outbox.run(f"alter table {schema}{dot}{table} add column one_more text not null default 'new'")


def _repeated(tests: type[Any]) -> type[Any]:
    return type(tests.__name__, (_OneMoreColumn, tests), {"__module__": __name__, "__doc__": tests.__doc__})


TestOneMoreColumn: Final = type(
    "TestOneMoreColumn",
    (),
    {"__module__": __name__, "__doc__": __doc__} | {tests.__name__: _repeated(tests) for tests in _REPEATED},
)
