"""Which planted faults of dispatching and settling the simulator finds, and why it does not find the others."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.mutants.faults import FAULTS, Fault, Several, Source
from tests.mutants.preloaded import run

ROOT: Final = Path(__file__).parents[2]
# It ends after 60 s of CPU time, and fails at the first promise that breaks before.
LOOKS: Final = "tests/simulation/test_seeds.py::test_the_promises_hold_while_there_is_nothing_to_find"
DECISIONS: Final = frozenset(
    f"wakeful.rules.{name}"
    for name in (
        "attempts",
        "budget",
        "edit",
        "passing",
        "plan",
        "report",
        "settle",
        "signalling",
        "suspect",
    )
)

FOUND: Final = (
    "the next occurrence comes from now",
    "after a clock step a wake is early by what a claim takes",
    "a signal skips what has arrived",
    "a failure that is reported after its alarm was moved is not kept",
    "a report is overwritten by the flight of before",
    "what passed before the retry of a last fire is not on record",
    "an edit may give a series rearm",
    "a worker's own clock makes it early",
    "a suspect beside a group counts as alone",
    "the next group does not wait for the last one",
    "a wait for what was claimed early has no bound",
    "a wake whose worker died is charged again",
    "what was counted is forgotten at midnight",
    "what cannot be counted is sent",
    "a wake that arrived may be had again",
    "a snooze of a series is a new wake",
    "an answer to one owner counts for all",
    "put back past the next instant",
    "an exact ladder is spread",
    "an edit changes the kind unasked",
    "an edited policy drops what it does not name",
    "an attempt nobody came back from is not the first",
    "a failure reported after silence ends as silence",
    "the answer of the attempt before counts for the retry",
    "a run that was passed over is not on record",
    "cancel that does not raise the claim",
    "what is being delivered is skipped",
    "a report that counts twice",
    "a group that is released counts as dead",
    "a death in a group counts against its members",
    "a suspect's delivery is not counted",
    "a late answer replaces a failure that was reported",
    "no poison rule",
    "a retry that may delay the series",
    "a signal that cancels is fired",
    "a signal ends a series",
    "a signal that comes twice skips two fires",
    "a snoozed fire is not the next one",
    "a signal counts however early it comes",
    "a heartbeat leaves what is under way to its worker",
    "what a heartbeat overtook is not on record",
    "what arrived in spite of a signal is not on record",
    "an edit may make a heartbeat a series",
    "a paused alarm hears",
    "what is on its way is fired again",
    "a signal starts the retries anew",
    "what was skipped comes after a signal",
    "one wake more than the budget",
    "a cost has no limit",
    "a snooze is a new wake",
    "an owner raises the operator's limit",
    "a limit holds for every owner but one with its own",
    "what does not arrive is paid for again",
    "what waits for its budget does not say so",
    "an owner is told of every wake",
    "a skip for the budget does not say so",
    "what would be too late waits",
    "a silent receiver is not woken again",
    "silence goes back to an older fire",
    "a further try after silence is charged again",
    "silence ends as a failed delivery",
    "a word of a silent receiver does not end the wait",
    "what is claimed early is delivered early",
    "what is in flight is sent again",
    "a call is aborted when its alarm is changed",
    "a wake is sent without being counted",
    "waits go by the wall clock and have no bound",
    "suspects are tried one a tick",
    "the loop sleeps by the wall clock",
    "the next suspect waits for a tick",
)

NO_CALENDARS: Final = "calendars are not simulated"
NO_CHAINS: Final = "no alarm is set out of a wake or over MCP: there are no chains and no ends that a report renews"
NO_CHECKS: Final = "checks (`only_if`) are not simulated"
NO_CPU_TIME: Final = "it takes processor time, which virtual time does not count"
NO_TASKS: Final = "SQL tasks are not simulated"
SAME_IN_WINTER: Final = "scripts play in January, when both editions of the zone data say the same"
SAME_MS: Final = "it takes two wakes of one alarm in the same millisecond"
NOT_FOUND: Final[dict[str, str]] = {
    "an owner is not told": "an event may be missing where a worker died; the checker does not tell that from this",
    "who may use a target is not asked at delivery": "every owner may use every target",
    "a step of the worker's own clock is not told": "it concerns the log and a metric only",
    "a second result is dropped without a word": "it concerns the words of an answer only",
    "an answer counts against the target": "its first pauses are as short as what a wake may be late",
    "alarms stored before on_silence are woken again": "no alarm of an older version is in the database",
    "a machine that is short of something is a fire's fault": "no call fails because the machine is short of something",
    "setting an alarm aside replaces what a report has said": "nothing in the database is beyond planning or settling",
    "counts are kept for ever": "scripts last for minutes, counts are kept for days",
    "all of one owner before anyone else": "targets have 64 places, and no script has more due than that",
    "while a target is full the others wait for a tick": "targets have 64 places, and none is ever full",
    "holidays are not kept": NO_CALENDARS,
    "a holiday skips the days after it": NO_CALENDARS,
    "a snooze is skipped on a holiday": NO_CALENDARS,
    "nobody hears that holidays are not known": NO_CALENDARS,
    "a fast series seems to end on a holiday": NO_CALENDARS,
    "an agent outside of chains has no budget": NO_CHAINS,
    "a chain has no budget": NO_CHAINS,
    "a report moves an end that its owner named": NO_CHAINS,
    "a series ends unannounced": NO_CHAINS,
    "nobody looks at checks": NO_CHECKS,
    "fires of a rule that is due are counted in the event loop": NO_CPU_TIME,
    "fires of a rule without a report are counted in the event loop": NO_CPU_TIME,
    "fires of a rule in another zone are counted in the event loop": NO_CPU_TIME,
    "a task's row is not asked before it is sent": NO_TASKS,
    "a claim before the tasks are planned": NO_TASKS,
    "upkeep by the wall clock": "only few deliveries are longer than a lease: 2,441 scripts",
    "an alarm claimed again keeps the fire of before": "the store refuses it, and it is decided on anew",
    "what is under way fires again by the new rules": SAME_IN_WINTER,
    "alarms are claimed before the law is looked at": SAME_IN_WINTER,
    "an older process plans by its own rules": SAME_IN_WINTER,
    "nobody waits until all have heard of the new rules": SAME_IN_WINTER,
    "a signal is a wake that was already": SAME_MS,
    "after a clock was set back a signal is an old wake": SAME_MS,
    "a calendar that cannot be read silences": NO_CALENDARS,
    "whatever ends with an hour waits for a budget": "it concerns the words of an answer only",
    "who kills beside a group is never blamed": "others have to be on trial at each of its deaths: one seed in 23,436",
    "a retry that waits for the attempt before loses its lease": "another worker sends it then",
    "what is refused again and again is settled without a pause": "no simulated store refuses one change for long",
    "a failure reported during a further try counts as that of before": "four rare steps in order: 1,912 scripts",
    "a claim ends with the settlement before it": "it is late by one lease, as around any trouble: 1,514 scripts",
    "the slow one is blamed for the next": "three deaths in a row while it is slow: 634 scripts",
}


def _concerns(fault: Fault) -> bool:
    if isinstance(fault, Several):
        return any(_concerns(source) for source in fault.sources)
    if not isinstance(fault, Source):
        return False
    return fault.module in DECISIONS or fault.module.split(".")[:2] == ["wakeful", "dispatcher"]


def test_each_fault_of_dispatching_and_settling_is_found_or_has_a_reason() -> None:
    assert len(set(FOUND)) == len(FOUND)
    assert sorted([*FOUND, *NOT_FOUND]) == sorted(name for name, fault in FAULTS.items() if _concerns(fault))


@pytest.mark.long
@pytest.mark.parametrize("name", FOUND)
def test_the_simulator_finds_it_within_a_minute(name: str) -> None:
    ran = run(name, [LOOKS], ROOT, {})
    assert ran.status == 1, f"{name}: nobody noticed\n{ran.output}"
    assert " failed" in ran.output, ran.output
