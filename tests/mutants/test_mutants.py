"""The test of the tests: with a guard taken out, the test that watches over it must fail.

Each run is a pytest of its own over the one to three tests that are named beside the fault. Exit status 1 is what is
wanted: tests ran, and one went red.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from .faults import FAULTS
from .plant import VARIABLE

ROOT = Path(__file__).parents[2]
CONFORMANCE = "tests/store/test_conformance.py::"
STALE = CONFORMANCE + "TestSettling::test_a_stale_claim_is_lost_and_changes_nothing[{}]"
MOVED = CONFORMANCE + "TestSettling::test_a_version_that_moved_means_decide_again[{}]"
LEASED = CONFORMANCE + "TestLeases::test_a_leased_alarm_is_left_alone_until_its_lease_runs_out[{}]"
EARLY = CONFORMANCE + "TestClaiming::test_nothing_fires_early[{}]"
ONE_BY_ONE = CONFORMANCE + ("TestSuspects::test_one_of_them_is_claimed_at_a_time_and_none_where_none_is_wanted[{}]")
AHEAD = CONFORMANCE + "TestSuspects::test_a_lease_from_a_clock_that_was_set_back_is_none[{}]"
FIRST = CONFORMANCE + "TestSettling::test_a_first_attempt_{}_is_not_written[{}]"
IN_TIME = "tests/dispatcher/test_early.py::"
STOPPING = "tests/dispatcher/test_stopping.py::"
LAW = "tests/dispatcher/test_zone_planning.py::"
STANDING = "tests/seeds/test_standing.py::"
USERS = "tests/service/test_users.py::"
RUNAWAYS = "tests/service/test_runaways.py::"
DEFERRED_TOLD = (
    "tests/service/test_budget_use.py::test_the_history_says_what_waits_for_its_budget_and_nothing_else_does[sqlite]"
)
SPENDING = "tests/dispatcher/test_budget.py::"
BUDGET = "tests/alarm/test_budget.py::"
WOKEN = "tests/service/test_wake_tokens.py::"
WOKEN_DOORS = "tests/doors/test_wake_token_matrix.py::"
LINEAGE = "tests/alarm/test_lineage.py::"
SIGNALS = "tests/alarm/test_signals.py::"
SET_BACK = "tests/dispatcher/test_signals.py::test_after_a_clock_was_set_back_a_signal_is_a_wake_of_its_own[sqlite]"
CHECKS = "tests/alarm/test_checks.py::"
GATE = "tests/dispatcher/test_gate.py::"
SEEN = CONFORMANCE + "TestChecks::test_a_value_is_kept_with_its_change_and_only_then[{}]"
HEARD = CONFORMANCE + "TestSignals::test_another_owner_s_are_not[{}]"
HOLIDAYS = "tests/alarm/test_holidays.py::"
PLANS = "tests/store/test_postgres_plans.py::"
COSTS = CONFORMANCE + "TestBudgets::test_a_cost_is_written_with_its_change_and_only_then[{}]"
MACHINE = "tests/machine/test_machine.py::test_the_promises_hold_in_whatever_order_things_happen[{}]"
SAFETY = "tests/dashboard/test_safety.py::"
KILLED = "tests/faults/test_kill.py::test_a_worker_killed_at_a_certain_point_loses_nothing[{}-claimed]"

CAUGHT_BY: dict[str, list[str]] = {
    "a form without its word": [SAFETY + "test_a_form_without_the_word_of_its_own_page_changes_nothing"],
    "a form of another site": [SAFETY + "test_a_page_of_another_site_changes_nothing[headers0-403]"],
    "a page of another origin": [SAFETY + "test_a_page_of_another_site_changes_nothing[headers2-403]"],
    "what others write is markup": [SAFETY + "test_what_others_write_is_text_in_every_page"],
    "fields are markup": [SAFETY + "test_what_others_write_is_text_in_every_page"],
    "everyone has buttons": [SAFETY + "test_who_may_only_read_sees_no_buttons_and_is_refused"],
    "everyone is an operator": ["tests/dashboard/test_owner_filter.py::test_nobody_else_has_the_filter[sqlite]"],
    "anyone names an owner": [
        "tests/doors/test_owner_pages.py::test_only_an_operator_looks_after_another_owners_alarms[sqlite]"
    ],
    "a limit leaves somebody out": [
        "tests/service/test_bulk.py::test_a_limit_stops_it_and_going_on_from_there_does_the_rest[6]"
    ],
    "the end of the last token opens the server": [
        "tests/doors/test_auth.py::test_the_end_of_the_last_token_opens_nothing[expired-settings0]"
    ],
    "a bad token is nobody's": [
        "tests/doors/test_auth.py::test_a_bad_token_is_refused_also_where_none_is_needed[bearer nonsense]"
    ],
    "an edit changes the kind unasked": ["tests/alarm/test_moving.py::test_what_would_change_the_kind_has_to_say_so"],
    "an edited policy drops what it does not name": [
        "tests/alarm/test_moving.py::test_an_edited_policy_keeps_what_is_not_mentioned_and_null_removes"
    ],
    "many are set over a key that is taken": [
        "tests/service/test_many.py::test_a_key_that_is_taken_refuses_all_of_them[sqlite]"
    ],
    "a page takes wakes out of the inbox": [
        "tests/doors/test_http_look.py::test_no_page_takes_wakes_out_of_the_inbox_of_an_open_server[sqlite]"
    ],
    "owners hear what a target said to others": [
        "tests/doors/test_owner_matrix.py"
        "::test_no_owner_hears_what_a_shared_target_said_to_another_nor_where_it_is[sqlite]"
    ],
    "events are counted for all owners": [
        "tests/service/test_live.py::test_no_number_tells_how_much_another_owner_does[sqlite]"
    ],
    "a key everyone can sign for": ["tests/doors/test_did.py::test_a_key_everyone_can_sign_for_proves_nothing"],
    "what is signed names no server": [
        "tests/doors/test_did.py::test_a_signature_that_names_another_server_or_none_is_good_nowhere[]"
    ],
    "sqlite: settle without the claim check": [STALE.format("sqlite")],
    "sqlite: settle without the version check": [MOVED.format("sqlite")],
    "sqlite: claim without the lease check": [LEASED.format("sqlite")],
    "sqlite: claim without the due check": [EARLY.format("sqlite")],
    "sqlite: finished when it is claimed": [KILLED.format("sqlite")],
    "sqlite: a commit that is not synced": [
        "tests/store/test_power_loss.py::test_whatever_was_acknowledged_survives_a_power_cut_at_any_moment[1]"
    ],
    "postgres: settle without the claim check": [STALE.format("postgres")],
    "postgres: settle without the version check": [MOVED.format("postgres")],
    "postgres: claim without the lease check": [LEASED.format("postgres")],
    "postgres: claim without the due check": [EARLY.format("postgres")],
    "sqlite: a first attempt settled without the claim check": [FIRST.format("settled_twice", "sqlite")],
    "sqlite: a first attempt settled without the version check": [FIRST.format("edited_meanwhile", "sqlite")],
    "postgres: a first attempt settled without the claim check": [FIRST.format("settled_twice", "postgres")],
    "postgres: a first attempt settled without the version check": [FIRST.format("edited_meanwhile", "postgres")],
    "what is claimed early is delivered early": [
        IN_TIME + "test_it_is_claimed_before_it_is_due_and_delivered_when_it_is[sqlite]"
    ],
    "a worker's own clock makes it early": [
        IN_TIME + "test_a_clock_set_back_in_that_moment_makes_nothing_early[sqlite]"
    ],
    "while a target is full the others wait for a tick": [
        "tests/dispatcher/test_room.py::test_what_is_set_while_a_target_is_full_is_on_time[sqlite]"
    ],
    "an attempt nobody came back from is not the first": [
        "tests/alarm/test_first_try.py::test_what_has_more_to_it_is_decided_at_length[more0]"
    ],
    "a run that was passed over is not on record": [
        "tests/alarm/test_first_try.py::test_what_was_passed_over_meanwhile_is_on_record"
    ],
    "postgres: claim without skip locked": [
        "tests/store/test_postgres.py::test_a_row_locked_by_someone_else_is_not_waited_for_by_a_claim"
    ],
    "postgres: finished when it is claimed": [KILLED.format("postgres")],
    "cancel that does not raise the claim": [
        "tests/alarm/test_edit.py::test_whoever_moves_an_alarm_takes_it_from_its_worker"
    ],
    "what is being delivered is skipped": [
        "tests/alarm/test_skip.py::test_what_is_being_delivered_can_no_longer_be_skipped"
    ],
    "another fire is skipped than the one that was meant": [
        "tests/service/test_skipping.py"
        "::test_where_somebody_else_is_faster_the_one_after_is_not_skipped_in_its_place[sqlite-skip]"
    ],
    "a report that counts twice": [
        "tests/alarm/test_report.py::test_a_report_counts_once",
        "tests/alarm/test_report.py::test_a_reported_failure_counts_once",
    ],
    "a task's row is not asked when it is said": [
        STANDING + "test_the_settlement_writes_nothing_for_a_row_that_was_changed[sqlite]",
        STANDING + "test_the_settlement_writes_nothing_for_a_row_that_was_changed[postgres]",
    ],
    "a task's row is not asked before it is sent": [
        STANDING + "test_a_target_elsewhere_is_not_called_for_a_task_that_was_deleted[sqlite]",
    ],
    "all of one owner before anyone else": [
        "tests/dispatcher/test_turns.py::test_a_quiet_owner_starts_within_a_batch_of_anothers_flood[sqlite]"
    ],
    "a claim before the tasks are planned": [
        STANDING + "test_tasks_are_planned_and_targets_looked_at_before_the_first_claim[sqlite]",
    ],
    "an answer to one owner counts for all": [
        "tests/dispatcher/test_owners_apart.py::test_five_bad_answers_to_one_owner_do_not_delay_another[sqlite]"
    ],
    "an answer counts against the target": [
        "tests/dispatcher/test_owners_apart.py::test_five_bad_answers_to_one_owner_do_not_delay_another[sqlite]"
    ],
    "put back past the next instant": ["tests/alarm/test_put_back.py"],
    "a target is for everyone": [USERS + "test_many_at_once_are_refused_for_one[sqlite]"],
    "who may use a target is not asked at delivery": [
        USERS + "test_what_is_no_longer_theirs_ends_refused_and_undelivered[sqlite-timing0]"
    ],
    "a task may name any chat": [
        "tests/seeds/test_task_users.py::test_a_task_names_a_chat_its_owner_may_write_to[sqlite]"
    ],
    "no poison rule": [
        "tests/alarm/test_settle.py::test_an_alarm_that_kills_its_workers_is_settled_without_another_delivery"
    ],
    "a suspect's delivery is not counted": [
        "tests/alarm/test_settle.py::test_an_alarm_that_kills_its_workers_is_settled_without_another_delivery"
    ],
    "sqlite: all suspects at once": [ONE_BY_ONE.format("sqlite")],
    "postgres: all suspects at once": [ONE_BY_ONE.format("postgres")],
    "sqlite: a lease from the future holds": [AHEAD.format("sqlite")],
    "postgres: a lease from the future holds": [AHEAD.format("postgres")],
    "what is in flight is sent again": [
        STOPPING + "test_what_is_claimed_again_while_it_is_in_flight_here_is_not_sent_again[sqlite-under way]"
    ],
    "a call is aborted when its alarm is changed": [
        STOPPING + "test_a_call_under_way_is_not_aborted_by_its_owner_and_is_recorded_as_it_ended[sqlite-cancel]"
    ],
    "upkeep by the wall clock": [STOPPING + "test_a_clock_set_back_does_not_keep_renewals_waiting[sqlite]"],
    "a retry that may delay the series": [
        "tests/alarm/test_settle.py::test_a_retry_that_would_reach_the_next_occurrence_gives_way_to_it"
    ],
    "a wake is sent without being counted": [
        RUNAWAYS + "test_alarms_that_multiply_share_the_budget_of_their_chain_for_a_day[sqlite]"
    ],
    "what cannot be counted is sent": [SPENDING + "test_what_cannot_be_counted_is_not_sent_and_comes_again[sqlite]"],
    "a gate that fails stays shut": [CHECKS + "test_the_first_look_and_a_change_wake_and_the_same_again_does_not"],
    "the first look wakes nobody": [CHECKS + "test_the_first_look_and_a_change_wake_and_the_same_again_does_not"],
    "a retry is kept back": [CHECKS + "test_a_retry_is_not_kept_back"],
    "what a signal asked for is kept back": [CHECKS + "test_nor_is_what_a_signal_asked_for"],
    "a wake that failed has told of it": [GATE + "test_a_change_is_not_lost_with_a_wake_that_fails[sqlite]"],
    "an owner reads what a check was answered": [GATE + "test_what_an_answer_says_stays_with_the_operator[sqlite]"],
    "any check may be named": [CHECKS + "test_a_check_that_there_is_not_is_refused_with_those_there_are"],
    "what was seen is not kept, sqlite": [SEEN.format("sqlite")],
    "what was seen is kept by a change that is not ours, sqlite": [SEEN.format("sqlite")],
    "what was seen is not kept, postgres": [SEEN.format("postgres")],
    "a query of a check writes, postgres": [CONFORMANCE + "TestChecks::test_and_does_not_write[postgres]"],
    "nobody looks at checks": [GATE + "test_a_row_that_changes_wakes_and_one_that_does_not_is_skipped[sqlite]"],
    "a signal that cancels is fired": [SIGNALS + "test_unless_cancels_it"],
    "a paused alarm hears": [SIGNALS + "test_a_paused_or_finished_one_hears_nothing"],
    "what is on its way is fired again": [SIGNALS + "test_what_is_being_delivered_is_not_fired_again"],
    "a signal starts the retries anew": [SIGNALS + "test_a_retry_comes_now_and_keeps_its_fire_and_its_count"],
    "a signal is a wake that was already": [SIGNALS + "test_two_signals_in_one_millisecond_are_two_fires"],
    "after a clock was set back a signal is an old wake": [SET_BACK],
    "nobody looks for fires of a clock that was set back": [SET_BACK],
    "what was skipped comes after a signal": [
        "tests/dispatcher/test_signals.py::test_what_was_skipped_before_a_signal_does_not_come_after_it[sqlite]"
    ],
    "everybody hears a signal, sqlite": [HEARD.format("sqlite")],
    "everybody hears a signal, postgres": [HEARD.format("postgres")],
    "holidays are not kept": [HOLIDAYS + "test_what_falls_on_a_holiday_is_skipped_on_record"],
    "a holiday skips the days after it": [HOLIDAYS + "test_after_downtime_only_the_holiday_is_skipped_as_one"],
    "a snooze is skipped on a holiday": [HOLIDAYS + "test_a_single_moment_and_a_snooze_are_delivered_on_a_holiday"],
    "nobody hears that holidays are not known": [HOLIDAYS + "test_a_calendar_that_cannot_be_read_silences_nothing"],
    "a calendar that cannot be read silences": [HOLIDAYS + "test_a_calendar_that_cannot_be_read_silences_nothing"],
    "what fired on a holiday comes again": [
        HOLIDAYS + "test_what_fired_on_a_holiday_since_nobody_knew_does_not_come_again"
    ],
    "a day gets the fires of two": [HOLIDAYS + "test_days_are_moved_one_to_one"],
    "a calendar silences alarms unasked": [
        "tests/service/test_holidays.py::test_of_several_calendars_the_owners_counts_then_the_servers[sqlite]"
    ],
    "an owner's settings are everyone's": [
        "tests/service/test_owner_settings.py::test_a_zone_counts_for_every_alarm_that_names_none[sqlite]"
    ],
    "an owner's settings are read once and for all": [
        "tests/service/test_owner_settings.py::test_another_process_sees_a_change_within_seconds[sqlite]"
    ],
    "an agent outside of chains has no budget": [
        BUDGET + "test_one_shots_of_an_owners_agents_outside_of_chains_share_a_limit"
    ],
    "one wake more than the budget": [BUDGET + "test_the_limit_is_let_through_and_not_one_more_until_the_hour_is_over"],
    "a cost has no limit": [RUNAWAYS + "test_cost_that_is_reported_stops_wakes_until_the_next_day[sqlite]"],
    "a chain has no budget": [RUNAWAYS + "test_alarms_that_multiply_share_the_budget_of_their_chain_for_a_day[sqlite]"],
    "a snooze is a new wake": [RUNAWAYS + "test_an_agent_that_snoozes_all_the_time_is_stopped[sqlite]"],
    "a snooze of a series is a new wake": [BUDGET + "test_a_series_is_limited_only_where_it_was_snoozed"],
    "a wake that arrived may be had again": [BUDGET + "test_a_retry_comes_again_only_where_the_wake_had_arrived"],
    "an owner raises the operator's limit": [
        BUDGET + "test_an_alarm_has_the_limits_its_owner_gave_it_and_no_more_than_the_operator_allows"
    ],
    "a limit holds for every owner but one with its own": [
        BUDGET + "test_an_owner_has_limits_where_the_operator_gave_it_some"
    ],
    "what does not arrive is paid for again": [
        SPENDING + "test_a_wake_that_does_not_arrive_is_counted_once_however_often_it_is_tried[sqlite]"
    ],
    "what waits for its budget does not say so": [BUDGET + "test_a_one_shot_waits_until_its_budget_allows_it"],
    "an owner is told of every wake": [SPENDING + "test_the_operator_and_the_owner_hear_of_it_once[sqlite]"],
    "an owner is not told": [RUNAWAYS + "test_an_agent_that_snoozes_all_the_time_is_stopped[sqlite]"],
    "a skip for the budget does not say so": [
        RUNAWAYS + "test_a_series_over_its_own_limit_skips_with_the_reason_on_record[sqlite]"
    ],
    "the history does not say what waits for its budget": [DEFERRED_TOLD],
    "whatever ends with an hour waits for a budget": [
        "tests/alarm/test_budget_use.py::test_it_waits_only_for_a_limit_that_is_used_up"
    ],
    "what waits for its budget counts as missed": [DEFERRED_TOLD],
    "a key whose alarm has ended is a silent success": [
        "tests/doors/test_http_wishes.py::test_a_key_whose_alarm_has_ended_is_not_a_silent_success[sqlite]"
    ],
    "what would be too late waits": [BUDGET + "test_what_would_be_too_late_by_then_is_skipped_at_once"],
    "postgres: one in trouble fails its whole batch": [
        "tests/store/test_postgres_batches.py::test_of_a_batch_of_first_attempts_each_has_its_own_answer"
    ],
    "postgres: a batch is given up with its caller": [
        "tests/store/test_postgres_batches.py::test_a_batch_is_written_though_its_caller_is_cancelled"
    ],
    "a machine that is short of something is a fire's fault": [
        "tests/dispatcher/test_settling.py::test_where_the_machine_is_short_of_something_no_fire_is_set_aside[sqlite]"
    ],
    "postgres: a plan is kept for ever": [PLANS + "test_a_plan_is_kept_for_a_while_only[-1.0-7]"],
    "postgres: a list is planned as a claim is": [
        PLANS + "test_what_a_worker_repeats_is_planned_once_and_what_people_ask_for_each_time"
    ],
    "postgres: counts are not held": [
        "tests/store/test_budget.py::test_who_looks_at_counts_while_another_is_about_to_write_them_waits"
    ],
    "postgres: a cost without its report": [COSTS.format("postgres")],
    "sqlite: a cost without its report": [COSTS.format("sqlite")],
    "counts are kept for ever": [SPENDING + "test_counts_of_days_that_are_over_are_deleted[sqlite]"],
    "the token of a wake names any parent": [WOKEN + "test_the_parent_is_filled_in_whatever_the_caller_says[sqlite-]"],
    "the token of a wake opens everything": [
        WOKEN_DOORS + "test_no_operation_reaches_beyond_the_chain_of_a_wake[sqlite-ada]"
    ],
    "a tool forgets whose token it is": [WOKEN_DOORS + "test_no_tool_reaches_beyond_the_chain_of_a_wake[sqlite-ada]"],
    "the token of a wake signs in": [WOKEN_DOORS + "test_no_page_opens_with_the_token_of_a_wake[sqlite-ada]"],
    "the token of a wake finds every alarm": [WOKEN + "test_its_chain_is_found_and_nothing_else[sqlite]"],
    "the token of a wake lists every alarm": [WOKEN + "test_its_chain_is_found_and_nothing_else[sqlite]"],
    "the token of a wake lists every fire": [WOKEN + "test_its_chain_is_found_and_nothing_else[sqlite]"],
    "the token of a wake shows every fire": [WOKEN + "test_its_chain_is_found_and_nothing_else[sqlite]"],
    "the token of a wake cancels what fits": [WOKEN + "test_many_are_cancelled_only_within_its_chain[sqlite]"],
    "the token of a wake cancels what waits in the inbox": [
        WOKEN + "test_many_are_cancelled_only_within_its_chain[sqlite]"
    ],
    "the token of a wake tells of similar alarms": [
        WOKEN + "test_similar_and_keys_tell_nothing_of_other_alarms[sqlite]"
    ],
    "the token of a wake takes any key": [WOKEN + "test_similar_and_keys_tell_nothing_of_other_alarms[sqlite]"],
    "many take any key with the token of a wake": [
        WOKEN + "test_similar_and_keys_tell_nothing_of_other_alarms[sqlite]"
    ],
    "the token of a wake replaces its owner's alarm": [
        WOKEN + "test_of_its_chain_it_replaces_only_what_a_wake_has_set[sqlite]"
    ],
    "anyone makes the token of a wake": [WOKEN + "test_nobody_else_can_make_one[sqlite]"],
    "the token of a wake is good for ever": [WOKEN + "test_it_is_good_for_a_day_from_when_it_was_handed_out[sqlite]"],
    "the token of a wake outlives its alarm": [WOKEN + "test_it_ends_with_its_alarm[sqlite]"],
    "the token of a wake outlives its chain": [WOKEN + "test_it_ends_with_the_alarm_that_its_chain_began_with[sqlite]"],
    "the token of a wake outlives its key": [
        WOKEN + "test_a_token_of_before_the_key_was_changed_is_good_for_an_hour_more[sqlite]"
    ],
    "a series that a wake sets never ends": [WOKEN + "test_a_series_has_an_end_and_the_notes_say_so[sqlite]"],
    "a series that a wake sets ends when it likes": [LINEAGE + "test_a_later_end_is_brought_forward"],
    "a report moves an end that its owner named": [
        LINEAGE + "test_an_end_that_the_owner_sets_or_takes_out_is_the_owners"
    ],
    "a series ends unannounced": [LINEAGE + "test_it_is_announced_once"],
    "a renewed series stays at its end": [LINEAGE + "test_the_report_on_the_very_last_wake_takes_the_series_up_again"],
    "an agent's words are its owner's": [LINEAGE + "test_whatever_is_set_out_of_a_wake_an_agent_wrote"],
    "a page shows the token of a wake": [
        "tests/dashboard/pages/test_alarm_page.py::test_the_page_shows_the_wake_and_no_secret[sqlite]"
    ],
    "an error quotes the token of a wake": [
        "tests/targets/test_webhook.py::TestSecrets::test_nothing_secret_turns_up_in_an_error_text"
    ],
    "alarms are claimed before the law is looked at": [
        LAW + "test_a_running_dispatcher_plans_again_before_its_first_claim[sqlite]"
    ],
    "an older process plans by its own rules": [
        LAW + "test_a_process_with_older_data_goes_by_the_newer_rules_and_says_so[sqlite-found at a tick]"
    ],
    "nobody waits until all have heard of the new rules": [
        LAW + "test_what_another_process_planned_by_the_old_rules_meanwhile_is_planned_again[sqlite]"
    ],
    "what is under way fires again by the new rules": [
        "tests/alarm/test_rezone.py::test_what_is_under_way_today_does_not_fire_again_today"
    ],
    "what has fired fires again by the new rules": [
        "tests/alarm/test_rezone.py::test_what_has_fired_today_does_not_fire_again_today"
    ],
    "two occurrences under one id": [
        "tests/alarm/test_rezone.py::test_a_fire_on_record_is_never_taken_for_another_occurrence"
    ],
    "the next occurrence comes from now": [
        "tests/alarm/test_settle.py::test_a_clock_set_back_fires_no_occurrence_again"
    ],
}

# What the state machine finds by itself, on the store where it looks fastest.
FOUND_BY_THE_MACHINE = [
    "sqlite: settle without the claim check",
    "sqlite: settle without the version check",
    "sqlite: claim without the lease check",
    "sqlite: claim without the due check",
    "no poison rule",
    "the next occurrence comes from now",
]


# What is tried in every run: one of each room. The rest is tried with --long.
ALWAYS = {
    "a bad token is nobody's",
    "a form without its word",
    "events are counted for all owners",
    "sqlite: settle without the claim check",
    "sqlite: a commit that is not synced",
    "postgres: claim without skip locked",
    "cancel that does not raise the claim",
    "a task's row is not asked when it is said",
    "all of one owner before anyone else",
    "a wake is sent without being counted",
    "the token of a wake opens everything",
}
MACHINE_ALWAYS = {"sqlite: settle without the claim check"}


def _some(faults: Iterable[str], always: set[str]) -> list[Any]:
    return [pytest.param(fault, marks=() if fault in always else pytest.mark.long) for fault in faults]


def _run(fault: str, tests: list[str], dsn: str) -> subprocess.CompletedProcess[str]:
    environ = {
        **os.environ,
        VARIABLE: fault,
        "WAKEFUL_TEST_PG_DSN": dsn,
        "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
    }
    environ["WAKEFUL_TEST_MACHINE_SAME_EXAMPLES"] = "900" if fault else "150"  # it ends at the first that fails
    plugins = ["-p", "tests.mutants.plant", "-p", "no:cacheprovider", "-x", "--tb=short"]
    args = [sys.executable, "-m", "pytest", *plugins, *tests]
    return subprocess.run(args, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=300, check=False)


def test_every_fault_has_its_watchman() -> None:
    assert set(CAUGHT_BY) == set(FAULTS)
    assert set(CAUGHT_BY) > ALWAYS
    assert set(FOUND_BY_THE_MACHINE) > MACHINE_ALWAYS


@pytest.mark.long  # without --long the tests themselves are in the same run
def test_without_a_fault_they_all_pass(pg_dsn: str) -> None:
    ran = _run("", sorted({test for tests in CAUGHT_BY.values() for test in tests}), pg_dsn)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("fault", _some(CAUGHT_BY, ALWAYS))
def test_a_planted_fault_is_caught(fault: str, pg_dsn: str) -> None:
    ran = _run(fault, CAUGHT_BY[fault], pg_dsn)
    assert ran.returncode == 1, f"{fault}: nobody noticed\n{ran.stdout}{ran.stderr}"
    assert " failed" in ran.stdout, ran.stdout


@pytest.mark.parametrize("fault", _some(FOUND_BY_THE_MACHINE, MACHINE_ALWAYS))
def test_the_machine_finds_a_planted_fault(fault: str, pg_dsn: str) -> None:
    ran = _run(fault, [MACHINE.format("sqlite")], pg_dsn)
    assert ran.returncode == 1, f"{fault}: nobody noticed\n{ran.stdout}{ran.stderr}"
    assert " failed" in ran.stdout, ran.stdout
