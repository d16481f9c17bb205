"""Conformance tests for stores: a store for another database must pass them.

A test module imports the classes, and a conftest supplies three fixtures:

    # conftest.py
    pytest.register_assert_rewrite("wakeful.testing.conformance")

    @pytest.fixture
    def clock() -> ManualClock:                     # the store's clock in these tests
        return ManualClock()

    @pytest.fixture
    async def store(clock):                         # migrated, empty, alone in its database
        store = MyStore(..., clock=clock)
        await store.migrate()
        yield store
        await store.close()

    @pytest.fixture
    async def outbox(store) -> Outbox:              # a table of some other program in the same database:
        ...                                         # outbox(fire_id text primary key, body text not null)
                                                    # `run` is that program's own SQL: it makes tables beside it

    # test_my_store.py
    from wakeful.testing.conformance import *       # noqa: F403

The tests are coroutines: pytest-asyncio in `auto` mode runs them.
"""

from wakeful.testing.conformance.adding import TestAdding, TestKeys, TestWhatIsKept
from wakeful.testing.conformance.claiming import (
    TestBacklog,
    TestClaiming,
    TestLeases,
    TestNextDue,
    TestOwnersInTurn,
    TestSuspects,
)
from wakeful.testing.conformance.conditions import TestBudgets, TestChecks, TestSignals
from wakeful.testing.conformance.counting import TestAllOwners, TestBoundedCounts, TestFigures, TestPurgingMuch
from wakeful.testing.conformance.finding import (
    TestFinding,
    TestFires,
    TestFollowing,
    TestInbox,
    TestOverdue,
    TestOwners,
    TestPages,
    TestStats,
    TestUsage,
)
from wakeful.testing.conformance.making import Outbox
from wakeful.testing.conformance.owning import TestDoor, TestOwnerSettings, TestSimilar, TestTokens
from wakeful.testing.conformance.settling import TestEditing, TestInterleaving, TestRows, TestSettling
from wakeful.testing.conformance.tasking import (
    TestTaskNews,
    TestTaskPlans,
    TestTaskRows,
    TestTasksAndTheirAlarms,
    TestTaskTables,
)
from wakeful.testing.conformance.upkeep import (
    TestClosing,
    TestEvents,
    TestInspecting,
    TestOneMoreColumn,
    TestPurging,
    TestReportKeys,
    TestSchema,
    TestTargets,
    TestWorkers,
)

__all__ = [
    "Outbox",
    "TestAdding",
    "TestAllOwners",
    "TestBacklog",
    "TestBoundedCounts",
    "TestBudgets",
    "TestChecks",
    "TestClaiming",
    "TestClosing",
    "TestDoor",
    "TestEditing",
    "TestEvents",
    "TestFigures",
    "TestFinding",
    "TestFires",
    "TestFollowing",
    "TestInbox",
    "TestInspecting",
    "TestInterleaving",
    "TestKeys",
    "TestLeases",
    "TestNextDue",
    "TestOneMoreColumn",
    "TestOverdue",
    "TestOwnerSettings",
    "TestOwners",
    "TestOwnersInTurn",
    "TestPages",
    "TestPurging",
    "TestPurgingMuch",
    "TestReportKeys",
    "TestRows",
    "TestSchema",
    "TestSettling",
    "TestSignals",
    "TestSimilar",
    "TestStats",
    "TestSuspects",
    "TestTargets",
    "TestTaskNews",
    "TestTaskPlans",
    "TestTaskRows",
    "TestTaskTables",
    "TestTasksAndTheirAlarms",
    "TestTokens",
    "TestUsage",
    "TestWhatIsKept",
    "TestWorkers",
]
