"""The test of the tests: with a guard taken out, the test that watches over it must fail.

Each run is a pytest of its own over the one to three tests that are named beside the fault. Exit status 1 is what is
wanted: tests ran, and one went red.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import pytest

from wakeful.store.queries import Naming, queries

from . import changed
from .faults import FAULTS, Several, Sql
from .preloaded import Ran, run

ROOT = Path(__file__).parents[2]
KEEP = "tests/schedule/test_suggestions_keep.py::"
WINDOWS = "tests/schedule/test_windows.py::"
CONFORMANCE = "tests/store/test_conformance.py::"
IN_MEMORY = "tests/store/test_memory.py::"
STALE = CONFORMANCE + "TestSettling::test_a_stale_claim_is_lost_and_changes_nothing[{}]"
MOVED = CONFORMANCE + "TestSettling::test_a_version_that_moved_means_decide_again[{}]"
LEASED = CONFORMANCE + "TestLeases::test_a_leased_alarm_is_left_alone_until_its_lease_runs_out[{}]"
EARLY = CONFORMANCE + "TestClaiming::test_nothing_fires_early[{}]"
ONE_BY_ONE = CONFORMANCE + "TestSuspects::test_they_are_claimed_again_as_a_group_and_then_one_at_a_time[{}]"
NOT_WITH_A_GROUP = CONFORMANCE + (
    "TestSuspects::test_one_that_is_to_be_tried_alone_never_comes_with_a_group[{}-turns0]"
)
AHEAD = CONFORMANCE + "TestSuspects::test_a_lease_from_a_clock_that_was_set_back_is_none[{}]"
FIRST = CONFORMANCE + "TestSettling::test_a_first_attempt_{}_is_not_written[{}]"
REPORTED = CONFORMANCE + (
    "TestSettling::test_a_settlement_never_replaces_what_a_report_has_said[{}-outcome0-completed]"
)
IN_TIME = "tests/dispatcher/test_early.py::"
STEPS = "tests/dispatcher/test_clock_steps.py::"
STOPPING = "tests/dispatcher/test_stopping.py::"
ANSWERS_FOR = STOPPING + "test_an_attempt_on_which_a_failure_was_reported_is_not_the_answer_to_its_retry"
PAGE_TURN = "tests/store/test_turns.py::test_pages_are_read_when_it_is_their_owners_turn[{}]"
SUSPECTS = "tests/dispatcher/test_suspects.py::"
SIMULATOR = "tests/simulation/test_seeds.py::test_the_promises_hold_while_there_is_nothing_to_find"
COUNTED = "tests/dispatcher/test_costly_rules.py::"
LAW = "tests/dispatcher/test_zone_planning.py::"
STANDING = "tests/seeds/test_standing.py::"
MANY_TASKS = "tests/seeds/test_many_tasks.py::"
TASK_COLUMNS = "tests/seeds/test_task_columns.py::"
LEDGER = "tests/store/test_sqlite_migrations.py::TestMigrations::"
USERS = "tests/service/test_users.py::"
RUNAWAYS = "tests/service/test_runaways.py::"
DEFERRED_TOLD = (
    "tests/service/test_budget_use.py::test_the_history_says_what_waits_for_its_budget_and_nothing_else_does[sqlite]"
)
SPENDING = "tests/dispatcher/test_budget.py::"
BUDGET = "tests/rules/test_budget.py::"
RECEIVER = "tests/agents/test_receiving.py::"
WOKEN = "tests/service/test_wake_tokens.py::"
WOKEN_DOORS = "tests/interfaces/test_wake_token_matrix.py::"
LINEAGE = "tests/rules/test_lineage.py::"
SIGNALS = "tests/rules/test_signals.py::"
SET_BACK = "tests/dispatcher/test_signals.py::test_after_a_clock_was_set_back_a_signal_is_a_wake_of_its_own[sqlite]"
CHECKS = "tests/rules/test_checks.py::"
FORECAST = "tests/service/test_forecast.py::"
AUDIT = "tests/service/test_audit.py::"
MANUAL = "tests/service/test_manual_fires.py::"
GATE = "tests/dispatcher/test_gate.py::"
SEEN = CONFORMANCE + "TestChecks::test_a_value_is_kept_with_its_change_and_only_then[{}]"
HEARD = CONFORMANCE + "TestSignals::test_another_owner_s_are_not[{}]"
HOLIDAYS = "tests/rules/test_holidays.py::"
PLANS = "tests/store/test_postgres_plans.py::"
COSTS = CONFORMANCE + "TestBudgets::test_a_cost_is_written_with_its_change_and_only_then[{}]"
MACHINE = "tests/machine/test_machine.py::test_the_promises_hold_in_whatever_order_things_happen[{}]"
REVOKING = "tests/interfaces/test_revoking.py::"
SAFETY = "tests/dashboard/test_safety.py::"
HEAVY = "tests/interfaces/test_heavy_requests.py::"
CPU = "tests/interfaces/test_cpu_share.py::"
KILLED = "tests/faults/test_kill.py::test_a_worker_killed_at_a_certain_point_loses_nothing[{}-claimed]"

NEWER_SCHEMA = "tests/store/test_newer_schema.py::"
ONE_MORE_COLUMN = "tests/store/test_conformance.py::TestOneMoreColumn::"
COMMAND = "tests/targets/test_command.py::"
CALLBACKS = "tests/interfaces/test_callbacks.py::"
LANGGRAPH = "tests/targets/test_langgraph.py::"
A2A = "tests/targets/test_a2a.py::"
CAUGHT_BY: dict[str, list[str]] = {
    "a platform reports without the token of its wake": [
        CALLBACKS + "test_without_the_fires_own_token_nothing_is_reported"
    ],
    "a webhook of OpenAI counts whoever signed it": [
        CALLBACKS + "test_a_webhook_counts_for_the_project_that_signed_it"
    ],
    "a webhook of one project reports on the wakes of another": [
        CALLBACKS + "test_a_webhook_counts_for_the_project_that_signed_it"
    ],
    "a run of LangGraph that is under way is started again": [
        LANGGRAPH + "test_a_run_that_is_under_way_is_not_started_again[running]"
    ],
    "a task of A2A that is under way is begun again": [A2A + "test_a_task_that_this_fire_began_is_not_begun_again"],
    "owners share the thread of a conversation": [
        LANGGRAPH + "test_a_conversation_that_is_no_uuid_has_a_thread_of_its_owners"
    ],
    "an agent card sends the token to another host": [A2A + "test_a_card_that_leads_nowhere_is_a_failed_attempt"],
    "a conversation that is not a session is sent": [
        "tests/targets/test_openai_session.py::test_what_is_no_session_is_refused_and_nothing_is_sent"
    ],
    "an earlier answer is the result of a run": [
        LANGGRAPH + "test_success_completes_with_the_last_message_of_the_model"
    ],
    "anyone may use a kind that says nothing": [
        "tests/targets/test_kinds.py::test_only_the_operator_may_use_a_kind_that_does_not_say_who_reads_its_wakes"
    ],
    "a receiver takes what nobody signed": [
        RECEIVER + "test_what_is_not_signed_rightly_or_too_old_is_refused_and_not_worked_on"
    ],
    "a receiver works on a wake for each time it comes": [RECEIVER + "test_a_wake_that_comes_twice_is_worked_on_once"],
    "a receiver works again on what is done": [RECEIVER + "test_a_wake_that_comes_twice_is_worked_on_once"],
    "a receiver takes the retry of a failure for a duplicate": [
        RECEIVER + "test_a_failure_is_reported_and_the_wake_that_comes_again_is_worked_on_again"
    ],
    "a receiver takes wakes without end": [
        RECEIVER + "test_no_more_run_at_once_than_is_said_and_what_finds_no_place_is_sent_again"
    ],
    "a wake put off before its 202 is on record is dropped": [
        RECEIVER + "test_a_snooze_puts_the_wake_off_also_before_its_202_is_on_record"
    ],
    "of a program's group only the program is ended": [COMMAND + "test_its_children_and_theirs_end_with_it[late]"],
    "a program that ignores SIGTERM goes on": [COMMAND + "test_one_that_ignores_sigterm_is_killed"],
    "a program gets all of wakeful's environment": [COMMAND + "test_its_environment_is_the_wake_and_what_is_named"],
    "a final exit status is tried again": [COMMAND + "test_the_exit_status_says_how_it_went"],
    "a taken key is a conflict in the envelope": [
        "tests/seeds/test_chronos_envelope.py::"
        "test_a_taken_key_answers_with_the_alarm_there_is_whatever_else_is_said[sqlite-False]"
    ],
    "an exact ladder is spread": [
        "tests/rules/test_report.py::test_a_reported_failure_waits_as_the_policy_has_it[True]"
    ],
    "sqlite: who has the file open keeps the old default": [
        "tests/seeds/test_chronos_sql.py::test_a_file_that_others_have_open_gets_another_default_target_and_stays_sound"
    ],
    "with a router new alarms go to an inbox": [
        "tests/test_default_target.py::test_a_router_is_the_default_target_unless_another_is_named"
    ],
    "rows in SQL stay with the inbox": [
        "tests/seeds/test_chronos_moving.py::test_a_start_that_may_not_change_the_table_says_so_and_serves"
    ],
    "a ledger keyed by service gets a row for each step": [
        LEDGER + "test_a_shared_ledger_with_one_row_for_a_service_keeps_the_newest_step[integer]"
    ],
    "a shared ledger with any key is used": [
        LEDGER + "test_a_shared_ledger_whose_key_is_in_our_way_is_left_alone[version]"
    ],
    "planning keeps the lock of the file": [
        MANY_TASKS + "test_planning_holds_the_file_for_a_share_of_a_transaction_at_a_time[sqlite]"
    ],
    "tasks are planned one by one": [
        MANY_TASKS + "test_on_postgres_many_rows_are_planned_by_a_few_statements[postgres]"
    ],
    "a column that was added is not seen": [
        TASK_COLUMNS + "test_a_column_context_mode_counts_for_the_next_fire[sqlite]"
    ],
    "a task's status is read in any letters": [
        TASK_COLUMNS + "test_a_status_in_other_letters_does_not_run_and_says_so_once[sqlite-ACTIVE]"
    ],
    "a report is overwritten by the flight of before": [SIMULATOR],
    "a late answer replaces a failure that was reported": [
        "tests/simulation/test_seeds.py::test_what_it_found_before_stays_mended"
        "[a worker that stood still overwrote a failure that was reported after the next try]"
    ],
    "what passed before the retry of a last fire is not on record": [
        "tests/rules/test_settle.py"
        "::test_what_passed_before_a_retry_of_the_last_fire_allowed_is_on_record_when_that_is_skipped"
    ],
    "a failure that is reported after its alarm was moved is not kept": [
        "tests/rules/test_report.py::test_a_failure_reported_after_its_alarm_was_moved_stays_whatever_the_attempt_brings"
    ],
    "after a clock step a wake is early by what a claim takes": [
        "tests/dispatcher/test_offset.py::test_an_offset_stands_until_an_answer_disproves_it[60.0-0.2-0.5--0.3]"
    ],
    "waits go by the wall clock and have no bound": [SIMULATOR],
    "suspects are tried one a tick": [SIMULATOR],
    "a form without its word": [SAFETY + "test_a_form_without_the_word_of_its_own_page_changes_nothing"],
    "a form of another site": [SAFETY + "test_a_page_of_another_site_changes_nothing[headers0-403]"],
    "a page of another site follows what happens": [
        SAFETY + "test_a_page_of_another_site_does_not_follow_what_happens[cross-site-403]"
    ],
    "calendar links outlive the token that made them": [
        REVOKING + "test_the_calendar_links_that_a_token_made_end_with_it[sqlite]"
    ],
    "a revoked token makes calendar links": [
        REVOKING + "test_a_link_that_is_made_while_its_token_is_revoked_is_not_good[sqlite]"
    ],
    "a bare day is at nine whatever is set": ["tests/service/test_bare_day.py::test_it_counts_wherever_a_day_is_named"],
    "a second result is dropped without a word": [
        "tests/seeds/test_alarm_interfaces.py::test_a_second_result_is_not_kept_and_every_interface_says_so[sqlite]"
    ],
    "nobody knows who fetched a wake": [
        REVOKING + "test_the_wakes_that_a_token_fetched_are_listed_and_their_tokens_outlive_it[sqlite]"
    ],
    "a page of another origin": [SAFETY + "test_a_page_of_another_site_changes_nothing[headers2-403]"],
    "what others write is markup": [SAFETY + "test_what_others_write_is_text_in_every_page"],
    "fields are markup": [SAFETY + "test_what_others_write_is_text_in_every_page"],
    "everyone has buttons": [SAFETY + "test_who_may_only_read_sees_no_buttons_and_is_refused"],
    "everyone is an operator": ["tests/dashboard/test_owner_filter.py::test_nobody_else_has_the_filter[sqlite]"],
    "anyone names an owner": [
        "tests/interfaces/test_owner_pages.py::test_only_an_operator_looks_after_another_owners_alarms[sqlite]"
    ],
    "a limit leaves somebody out": [
        "tests/service/test_bulk.py::test_a_limit_stops_it_and_going_on_from_there_does_the_rest[6]"
    ],
    "the end of the last token opens the server": [
        "tests/interfaces/test_auth.py::test_the_end_of_the_last_token_opens_nothing[expired-settings0]"
    ],
    "a bad token is nobody's": [
        "tests/interfaces/test_auth.py::test_a_bad_token_is_refused_also_where_none_is_needed[bearer nonsense]"
    ],
    "an edit changes the kind unasked": ["tests/rules/test_moving.py::test_what_would_change_the_kind_has_to_say_so"],
    "an edited policy drops what it does not name": [
        "tests/rules/test_moving.py::test_an_edited_policy_keeps_what_is_not_mentioned_and_null_removes"
    ],
    "many are set over a key that is taken": [
        "tests/service/test_many.py::test_a_key_that_is_taken_refuses_all_of_them[sqlite]"
    ],
    "a page takes wakes out of the inbox": [
        "tests/interfaces/test_http_look.py::test_no_page_takes_wakes_out_of_the_inbox_of_an_open_server[sqlite]"
    ],
    "owners hear what a target said to others": [
        "tests/interfaces/test_owner_matrix.py"
        "::test_no_owner_hears_what_a_shared_target_said_to_another_nor_where_it_is[sqlite]"
    ],
    "events are counted for all owners": [
        "tests/service/test_live.py::test_no_number_tells_how_much_another_owner_does[sqlite]"
    ],
    "a key everyone can sign for": ["tests/interfaces/test_did.py::test_a_key_everyone_can_sign_for_proves_nothing"],
    "what is signed names no server": [
        "tests/interfaces/test_did.py::test_a_signature_that_names_another_server_or_none_is_good_nowhere[]"
    ],
    "memory: settle without the claim check": [
        IN_MEMORY + "TestSettling::test_a_stale_claim_is_lost_and_changes_nothing"
    ],
    "memory: settle without the version check": [
        IN_MEMORY + "TestSettling::test_a_version_that_moved_means_decide_again"
    ],
    "memory: a settlement replaces what a report has set": [
        IN_MEMORY + "TestSettling::test_a_settlement_never_replaces_what_a_report_has_said[outcome0-completed]"
    ],
    "memory: claim without the lease check": [
        IN_MEMORY + "TestLeases::test_a_leased_alarm_is_left_alone_until_its_lease_runs_out"
    ],
    "memory: a plan that is refused stays by halves": [
        IN_MEMORY + "TestTheDataOutlivesItsStores::test_a_plan_that_is_refused_halfway_is_taken_back_as_a_whole"
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
    "sqlite: a first attempt settled without the claim check": [FIRST.format("of_an_earlier_claim", "sqlite")],
    "sqlite: a first attempt settled without the version check": [FIRST.format("edited_meanwhile", "sqlite")],
    "postgres: a first attempt settled without the claim check": [FIRST.format("of_an_earlier_claim", "postgres")],
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
        "tests/rules/test_first_try.py::test_what_has_more_to_it_is_decided_at_length[more0]"
    ],
    "a run that was passed over is not on record": [
        "tests/rules/test_first_try.py::test_what_was_passed_over_meanwhile_is_on_record"
    ],
    "postgres: claim without skip locked": [
        "tests/store/test_postgres.py::test_a_row_locked_by_someone_else_is_not_waited_for_by_a_claim"
    ],
    "postgres: finished when it is claimed": [KILLED.format("postgres")],
    "cancel that does not raise the claim": [
        "tests/rules/test_edit.py::test_whoever_moves_an_alarm_takes_it_from_its_worker"
    ],
    "what is being delivered is skipped": [
        "tests/rules/test_skip.py::test_what_is_being_delivered_can_no_longer_be_skipped"
    ],
    "another fire is skipped than the one that was meant": [
        "tests/service/test_skipping.py"
        "::test_where_somebody_else_is_faster_the_one_after_is_not_skipped_in_its_place[sqlite-skip]"
    ],
    "a report that counts twice": [
        "tests/rules/test_report.py::test_a_report_counts_once",
        "tests/rules/test_report.py::test_a_reported_failure_counts_once",
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
    "put back past the next instant": ["tests/rules/test_put_back.py"],
    "a target is for everyone": [USERS + "test_many_at_once_are_refused_for_one[sqlite]"],
    "who may use a target is not asked at delivery": [
        USERS + "test_what_is_no_longer_theirs_ends_refused_and_undelivered[sqlite-timing0]"
    ],
    "a task may name any chat": [
        "tests/seeds/test_task_users.py::test_a_task_names_a_chat_its_owner_may_write_to[sqlite]"
    ],
    "no poison rule": [
        "tests/rules/test_settle.py::test_an_alarm_that_kills_its_workers_is_settled_without_another_delivery"
    ],
    "a suspect's delivery is not counted": [
        "tests/rules/test_settle.py::test_an_alarm_that_kills_its_workers_is_settled_without_another_delivery"
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
        "tests/rules/test_settle.py::test_a_retry_that_would_reach_the_next_occurrence_gives_way_to_it"
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
    "the query of a check sets up its session": [
        "tests/store/test_postgres.py::test_the_query_of_a_check_leaves_nothing_set_in_its_session"
    ],
    "a query of a check writes, postgres": [CONFORMANCE + "TestChecks::test_and_does_not_write[postgres]"],
    "nobody looks at checks": [GATE + "test_a_row_that_changes_wakes_and_one_that_does_not_is_skipped[sqlite]"],
    "a signal that cancels is fired": [SIGNALS + "test_unless_cancels_it"],
    "a signal ends a series": [SIGNALS + "test_unless_on_a_series_skips_the_next_fire_only"],
    "a signal that comes twice skips two fires": [SIGNALS + "test_a_signal_that_comes_twice_skips_one_fire"],
    "a snoozed fire is not the next one": [SIGNALS + "test_a_snoozed_fire_of_a_series_is_what_the_signal_skips"],
    "a signal counts however early it comes": [SIGNALS + "test_a_signal_that_comes_too_early_is_ignored"],
    "a signal skips what has arrived": [SIGNALS + "test_a_wake_that_has_arrived_is_not_skipped"],
    "a heartbeat leaves what is under way to its worker": [SIGNALS + "test_each_signal_moves_a_heartbeat"],
    "what a heartbeat overtook is not on record": [SIGNALS + "test_a_heartbeat_that_comes_late_moves_it_all_the_same"],
    "what arrived in spite of a signal is not on record": [
        SIGNALS + "test_what_is_being_delivered_is_skipped_and_its_answer_corrects_the_record"
    ],
    "a series may have rearm": [SIGNALS + "test_how_a_signal_counts_is_refused_where_it_means_nothing"],
    "an edit may give a series rearm": [SIGNALS + "test_an_edit_that_leaves_rearm_without_a_meaning_is_refused"],
    "an edit may make a heartbeat a series": [SIGNALS + "test_an_edit_that_leaves_rearm_without_a_meaning_is_refused"],
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
        "tests/rules/test_budget_use.py::test_it_waits_only_for_a_limit_that_is_used_up"
    ],
    "what waits for its budget counts as missed": [DEFERRED_TOLD],
    "a key whose alarm has ended is a silent success": [
        "tests/interfaces/test_http_wishes.py::test_a_key_whose_alarm_has_ended_is_not_a_silent_success[sqlite]"
    ],
    "a forecast makes the checks of alarms": [FORECAST + "test_checks_are_not_made[sqlite]"],
    "a forecast wakes targets that are paused": [FORECAST + "test_a_target_that_is_paused_gets_nothing[sqlite]"],
    "a forecast's workers are never down": [FORECAST + "test_while_no_worker_runs_fires_are_late_or_missed[sqlite]"],
    "an audit believes reports that are gone": [
        AUDIT + "test_a_report_that_is_not_the_end_of_its_fire_is_found[sqlite]"
    ],
    "an audit misses an instant": [AUDIT + "test_a_due_instant_that_nothing_accounts_for_is_found[sqlite]"],
    "an audit goes by an older schedule": [
        AUDIT + "test_alarms_that_lived_through_everything_are_in_order[sqlite]",
        AUDIT + "test_fires_that_were_purged_are_not_missed[sqlite]",
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
    "sqlite: pages are read without a turn": [PAGE_TURN.format("sqlite")],
    "postgres: pages are read without a turn": [PAGE_TURN.format("postgres")],
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
    "a body may name fields that no wake has": [
        "tests/targets/test_template.py::TestRefusedAtTheStart::test_what_is_not_a_template"
    ],
    "a body may have links that lead nowhere": [
        "tests/targets/test_template.py::TestRefusedAtTheStart::test_links_without_an_address_that_people_reach"
    ],
    "a message alerts a whole channel": [
        "tests/targets/test_chat.py::TestWhatIsSent::test_a_message_alerts_nobody_else"
    ],
    "others' words pass for the operator's": [
        "tests/targets/test_chat.py::TestWhatIsSent::test_others_words_say_whose_they_are"
    ],
    "who opens a link reports": [
        "tests/interfaces/test_links.py::test_opening_a_link_shows_the_message_and_changes_nothing"
    ],
    "any token opens a link": ["tests/interfaces/test_links.py::test_another_token_shows_and_reports_nothing"],
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
        "tests/rules/test_rezone.py::test_what_is_under_way_today_does_not_fire_again_today"
    ],
    "what has fired fires again by the new rules": [
        "tests/rules/test_rezone.py::test_what_has_fired_today_does_not_fire_again_today"
    ],
    "two occurrences under one id": [
        "tests/rules/test_rezone.py::test_a_fire_on_record_is_never_taken_for_another_occurrence"
    ],
    "the next occurrence comes from now": [
        "tests/rules/test_settle.py::test_a_clock_set_back_fires_no_occurrence_again"
    ],
    "all columns are read, whatever there are": [
        ONE_MORE_COLUMN + "TestOverdue::test_a_report_that_is_late_is_found_at_its_moment_and_not_before[sqlite]",
    ],
    "any newer schema is refused": [
        NEWER_SCHEMA + "test_an_older_version_opens_reads_and_writes_a_newer_schema[sqlite]",
    ],
    "a schema that breaks older versions is opened": [
        NEWER_SCHEMA + "test_a_step_that_breaks_older_versions_closes_the_database_to_them[sqlite]"
    ],
    "nobody notes which versions may open a schema": [
        NEWER_SCHEMA + "test_an_older_version_opens_reads_and_writes_a_newer_schema[postgres]"
    ],
    "sqlite: a closed database is opened where older versions may": [
        NEWER_SCHEMA + "test_a_database_that_is_closed_is_refused_whatever_the_ledger_says_of_older_versions[sqlite]"
    ],
    "postgres: a closed database is opened where older versions may": [
        NEWER_SCHEMA + "test_a_database_that_is_closed_is_refused_whatever_the_ledger_says_of_older_versions[postgres]"
    ],
    "a copy leaves out what a newer version added": [
        NEWER_SCHEMA + "test_a_version_does_not_move_what_it_knows_only_in_part"
    ],
    "an alarm claimed again keeps the fire of before": [
        STOPPING
        + "test_a_report_stands_when_its_alarm_is_claimed_again_by_who_is_delivering_it[sqlite-completed-completed]"
    ],
    "a claim ends with the settlement before it": [
        STOPPING + "test_a_retry_that_is_claimed_before_the_answer_to_its_own_settlement_is_delivered[sqlite]"
    ],
    "sqlite: a settlement replaces what a report has said": [REPORTED.format("sqlite")],
    "postgres: a settlement replaces what a report has said": [REPORTED.format("postgres")],
    "setting an alarm aside replaces what a report has said": [
        "tests/rules/test_settle.py::test_an_alarm_set_aside_keeps_what_a_report_has_said"
    ],
    "a page shows all of a long text": [
        "tests/dashboard/test_words.py::test_a_page_shows_the_beginning_of_a_long_text_and_no_more"
    ],
    "a deep payload is indented": ["tests/dashboard/test_words.py::test_a_deep_or_long_payload_is_not_indented"],
    "a page is rendered in the event loop": [SAFETY + "test_a_page_is_not_rendered_in_the_event_loop"],
    "the way back of a form is anywhere": [
        "tests/dashboard/pages/test_bulk.py::test_the_way_back_leads_to_a_page_of_ours"
    ],
    "a payload stands twice in a form": [
        "tests/dashboard/pages/test_alarm_page.py::test_a_payload_that_fits_the_form_is_sent_in_it_once[sqlite]"
    ],
    "a changed payload is not shown before it is saved": [
        "tests/dashboard/pages/test_alarm_page.py::test_a_payload_is_changed_on_the_page"
    ],
    "a wait over MCP outlives its connection": [
        "tests/interfaces/test_mcp_waiting.py::test_an_agent_with_a_short_timeout_gets_every_wake[auto]"
    ],
    "a cancelled wait over MCP goes on": [
        "tests/interfaces/test_mcp_waiting.py::test_an_agent_with_a_short_timeout_gets_every_wake[legacy]"
    ],
    "anyone cancels a wait over MCP": ["tests/interfaces/test_mcp_waiting.py::test_only_who_made_a_call_cancels_it"],
    "a wait over HTTP outlives its connection": [
        "tests/interfaces/test_mcp_waiting.py::test_who_stops_waiting_over_http_leaves_the_wake_to_the_next"
    ],
    "a wake stays with a reader who has gone where its alarm was claimed meanwhile": [
        "tests/service/test_gone_readers.py::"
        "test_who_leaves_while_the_next_fire_of_the_series_is_claimed_has_taken_nothing[sqlite]"
    ],
    "a wake stays with a reader who has gone": [
        "tests/service/test_gone_readers.py::test_what_one_reader_leaves_goes_to_the_next_who_waits[sqlite]"
    ],
    "tools are listed for each call over MCP": ["tests/interfaces/test_mcp_http.py::test_a_call_lists_no_tools[auto]"],
    "schemas are built for each list of tools": ["tests/interfaces/test_mcp_http.py::test_schemas_are_built_once"],
    "a window over midnight ends in the afternoon": [
        "tests/schedule/test_windows.py::test_a_window_that_begins_on_the_24_hour_clock_ends_on_it[18-8-{}:00]"
    ],
    "one of two windows is guessed": [
        "tests/schedule/test_windows.py::test_two_readings_are_refused_with_both[from 5 to 1-readings0]"
    ],
    "what programs write is an afternoon": [
        "tests/schedule/test_machine_times.py::test_with_seconds_the_24_hour_clock_counts[friday-5]"
    ],
    "a date in numbers says nothing of its clock": [
        "tests/schedule/test_machine_times.py::test_beside_a_date_in_numbers_the_24_hour_clock_counts[2026/11/20-{}:05-4]"
    ],
    "1800 hours is a length of time": [
        "tests/schedule/test_machine_times.py::test_four_digits_and_hours_are_a_time_of_day[1800- -hours]"
    ],
    "an afternoon is assumed without a word": [
        "tests/service/test_said_bounds.py::test_a_note_says_that_1_to_5_was_read_as_the_afternoon[sqlite-series]"
    ],
    "the day beside an end of day is lost": [
        "tests/schedule/test_suggestions_keep.py::test_the_first_suggestion[friday EOD-friday at 5pm]"
    ],
    "a suggestion loses what stands around it": [
        "tests/schedule/test_suggestions_keep.py::test_the_first_suggestion[friday EOD-friday at 5pm]"
    ],
    "a suggestion fires once for several times": [
        KEEP + "test_where_nothing_says_all_of_it_nothing_is_suggested_as_meant[twice a week]"
    ],
    "a suggestion loses its zone": [
        "tests/schedule/test_suggestions_keep.py::test_one_moment_keeps_its_day_its_time_and_its_zone"
    ],
    "a suggestion loses its end": [
        "tests/schedule/test_suggestions_keep.py::test_a_series_keeps_its_days_its_times_its_zone_and_its_end"
    ],
    "a suggestion fires on holidays": [
        KEEP + "test_a_suggestion_leaves_holidays_out_where_that_was_said[every friday eod-meant1-holidays]"
    ],
    "one of two rhythms is suggested": [WINDOWS + "test_where_only_one_of_two_readings_could_be_suggested_none_is"],
    "one of several moments is suggested": [KEEP + "test_of_several_moments_none_is_suggested_alone"],
    "hours in other words are one night": [WINDOWS + "test_hours_in_other_words_are_refused_with_both_readings"],
    "a bound in UTC is an afternoon": [
        "tests/schedule/test_machine_times.py::test_the_bounds_of_a_series_in_utc_are_on_the_24_hour_clock"
    ],
    "a window in UTC is an afternoon": [WINDOWS + "test_in_utc_both_ends_are_on_the_24_hour_clock"],
    "half an hour is a time of day": [
        "tests/schedule/test_machine_times.py::test_hours_and_minutes_alone_are_refused_with_both_readings"
    ],
    "an agent is given one of two meanings": ["tests/interfaces/test_mcp_errors.py"],
    "a reason for all is left out": [
        "tests/interfaces/test_cli_bulk.py::test_cancel_all_keeps_the_reason_that_was_given"
    ],
    "one of two readings is suggested": [
        "tests/schedule/test_suggestions_keep.py::test_half_of_a_span_is_not_suggested"
    ],
    "the wall time of a one-shot is not kept": [
        "tests/store/test_conformance.py::TestWhatIsKept::"
        "test_the_wall_time_of_a_one_shot_is_kept_through_claims_and_edits[sqlite]"
    ],
    "null is a value over MCP": [
        "tests/interfaces/test_mcp.py::test_null_for_an_argument_is_as_if_it_was_not_given[auto]"
    ],
    "a text is only a text over MCP": [
        "tests/interfaces/test_mcp_arguments.py::test_json_and_numbers_in_texts_are_what_they_say"
    ],
    "an optional argument over MCP has one type": [
        "tests/interfaces/test_mcp_arguments.py::test_what_need_not_be_given_is_nullable[alarm_set]"
    ],
    "a host counts more than the call over MCP": [
        "tests/interfaces/test_mcp_host.py::test_the_call_counts_before_its_meta_before_headers_before_the_query[auto]"
    ],
    "a host names the conversation of every tool": [
        "tests/interfaces/test_mcp_host.py::test_other_tools_take_nothing_from_the_host"
    ],
    "a day is 24 hours where alarms are moved": [
        "tests/service/test_moving.py::test_whole_days_keep_the_time_of_day_where_clocks_change[sqlite]"
    ],
    "a series is cancelled for one day of it": [
        "tests/service/test_moving.py::test_what_is_cancelled_tomorrow_leaves_series_out_that_day_only[sqlite]"
    ],
    "a range of time chooses nothing": [
        "tests/service/test_moving.py::test_what_fires_tomorrow_is_moved_to_the_day_after[sqlite]"
    ],
    "blanks behind a header count": [
        "tests/interfaces/test_http_requests.py::test_blanks_behind_a_name_of_mcp_are_not_part_of_it"
    ],
    "a silent receiver is not woken again": [
        "tests/rules/test_sweep.py::test_a_silent_receiver_is_woken_again_under_the_same_fire_id_and_the_same_ladder"
    ],
    "alarms stored before on_silence are woken again": [
        "tests/rules/test_sweep.py::test_an_alarm_that_gives_up_is_not_woken_again"
    ],
    "alarms that come from Alarm are woken again": [
        "tests/seeds/test_alarm_import.py::test_what_is_pending_waits_here"
    ],
    "silence goes back to an older fire": ["tests/rules/test_sweep.py::test_an_older_fire_is_not_gone_back_to"],
    "a further try after silence is charged again": [
        "tests/rules/test_sweep.py::test_a_further_try_is_not_charged_again"
    ],
    "the answer of the attempt before counts for the retry": [ANSWERS_FOR + "[sqlite-the first try]"],
    "a retry that waits for the attempt before loses its lease": [ANSWERS_FOR + "[sqlite-the first try]"],
    "a failure reported during a further try counts as that of before": [ANSWERS_FOR + "[sqlite-a try after silence]"],
    "a failure reported after silence ends as silence": [
        "tests/rules/test_sweep.py::"
        "test_a_failure_reported_after_silence_is_a_failure_where_the_further_try_comes_too_late"
    ],
    "what is refused again and again is settled without a pause": [
        "tests/dispatcher/test_settling.py::"
        "test_a_change_that_is_refused_again_and_again_waits_longer_each_time[sqlite]"
    ],
    "who kills beside a group is never blamed": [
        SUSPECTS + "test_who_has_killed_before_is_not_begun_beside_a_group[sqlite]"
    ],
    "silence ends as a failed delivery": [
        "tests/rules/test_sweep.py::test_a_further_try_that_comes_too_late_is_still_silence_not_a_failed_delivery"
    ],
    "the key of an ended alarm is answered without a word": [
        "tests/service/test_keys.py::"
        "test_the_key_of_an_ended_alarm_is_answered_with_it_and_a_warning_that_nothing_will_fire"
    ],
    "a fast series seems to end on a holiday": [
        "tests/rules/test_holidays.py::test_a_fast_series_is_known_to_go_on_after_a_holiday"
    ],
    "a word of a silent receiver does not end the wait": [
        "tests/rules/test_sweep.py::test_working_ends_the_wait_too_and_asks_for_the_report_again"
    ],
    "a manual fire is an alarm of its own": [MANUAL + "test_it_is_a_fire_of_its_alarm_and_no_alarm_of_its_own[sqlite]"],
    "a manual fire is not among its alarm's": [
        MANUAL + "test_it_is_a_fire_of_its_alarm_and_no_alarm_of_its_own[sqlite]"
    ],
    "a page of fires repeats manual ones": [MANUAL + "test_pages_of_fires_have_each_of_them_once_and_in_order[sqlite]"],
    "nobody is told that a fire was manual": [MANUAL + "test_the_history_says_whose_it_is_before_and_after[sqlite]"],
    "a cancelled chain goes on": [
        "tests/service/test_wake_tokens.py::test_a_cancelled_chain_sets_no_more_also_when_its_root_has_fired"
    ],
    "a chain is cancelled for all time": [
        "tests/service/test_wake_tokens.py::test_an_alarm_that_is_set_anew_after_its_chain_was_cancelled_wakes_with_a_good_token"
    ],
    "an alarm is set behind a cancelled chain": [
        "tests/service/test_wake_tokens.py::test_nothing_is_set_behind_a_cancelled_chain"
    ],
    "sqlite: the first alarm keeps no edition of the zone data": [
        "tests/dispatcher/test_zone_planning.py::test_alarms_set_before_any_worker_ran_follow_the_law_too"
    ],
    "postgres: the first alarm keeps no edition of the zone data": [
        "tests/dispatcher/test_zone_planning.py::test_alarms_set_before_any_worker_ran_follow_the_law_too"
    ],
    "a second first edition counts as planned": [
        "tests/dispatcher/test_zone_planning.py::test_two_first_editions_at_once_leave_no_alarm_behind"
    ],
    "closing refuses alarms that wait for the first edition": [
        CONFORMANCE + "TestClosing::test_closing_finishes_what_was_asked[sqlite]",
        CONFORMANCE + "TestClosing::test_closing_finishes_what_was_asked[postgres]",
    ],
    "what is restored keeps no edition": [
        "tests/store/test_backup.py::test_a_backup_without_an_edition_of_the_zone_data_gets_that_of_who_restores_it"
    ],
    "a store of the parent process is used": [
        "tests/test_programs.py::test_after_a_fork_the_child_is_told_to_open_it_itself"
    ],
    "a handler's exception is not logged": [
        "tests/test_logs.py::test_an_exception_of_a_handler_is_logged_with_its_traceback_and_whose_it_is"
    ],
    "a program's SIGTERM is not handled": ["tests/test_programs.py::test_sigterm_lets_deliveries_in_flight_finish"],
    "run takes the place of a program's own signal handler": [
        "tests/test_programs.py::test_a_handler_of_the_programs_own_stays"
    ],
    "a run that stays when its clock is closed": [
        "tests/test_embedding.py::test_a_clock_that_is_closed_while_it_runs_settles_what_is_in_flight"
    ],
    "an inbox that is served later is forgotten": [
        "tests/remote/test_serving.py::test_a_handler_that_is_registered_while_it_runs_is_served"
    ],
    "a plain script registers beside its loop": [
        "tests/test_embedding.py::test_a_plain_script_registers_handlers_while_it_dispatches"
    ],
    "a repeating interval is worked out in the event loop": [
        HEAVY + "test_a_repeating_interval_is_counted_beside_the_event_loop"
    ],
    "CPU time in the event loop is not charged": [
        CPU + "test_each_step_of_a_request_is_charged_and_what_others_do_meanwhile_is_not"
    ],
    "CPU time in threads is not charged": [
        CPU + "test_what_a_request_has_done_in_threads_is_charged_also_by_its_tasks"
    ],
    "reads of a SQLite file are not charged": [CPU + "test_a_read_of_a_sqlite_file_is_charged"],
    "nobody is refused for CPU time": [CPU + "test_who_used_more_than_its_share_waits_and_nobody_else_does[sqlite]"],
    "calls on a socket are not charged": [CPU + "test_calls_on_a_socket_are_charged"],
    "pages are not charged": [CPU + "test_mcp_and_pages_are_charged"],
    "one owner has all threads": [CPU + "test_one_owner_has_one_of_the_threads_beside_the_event_loop"],
    "a change of a rule is worked out in the event loop": [
        HEAVY + "test_nobody_waits_for_what_is_done_with_a_heavy_rule"
    ],
    "why is worked out in the event loop": [HEAVY + "test_nobody_waits_for_what_is_done_with_a_heavy_rule"],
    "the agenda is worked out in the event loop": [HEAVY + "test_nobody_waits_for_what_is_done_with_a_heavy_rule"],
    "the next fires are worked out in the event loop": [HEAVY + "test_nobody_waits_for_the_page_of_a_heavy_rule"],
    "a search that found nothing is made again": [
        "tests/schedule/test_sharing.py::test_a_search_that_found_nothing_is_not_made_again_that_day"
    ],
    "a preview is worked out in the event loop": [HEAVY + "test_a_heavy_rule_is_previewed_and_set"],
    "the rate is counted after the work": [
        HEAVY + "test_all_or_none_beyond_the_rate_is_refused_before_the_work[sqlite]",
    ],
    "each of a batch is worked out before it is counted": [
        HEAVY + "test_a_batch_of_rare_rules_is_worked_out_as_far_as_the_rate_allows[sqlite]",
    ],
    "a target is looked up after the time is read": [
        HEAVY + "test_a_target_that_is_not_there_is_refused_before_the_time_is_read[sqlite]",
    ],
    "what is refused uses up the rate": [HEAVY + "test_what_is_refused_does_not_use_up_the_rate"],
    "a rule is searched for thousands of years": [HEAVY + "test_a_heavy_rule_is_previewed_and_set"],
    "a check writes": [CONFORMANCE + "TestChecks::test_it_changes_no_setting_of_its_connection[sqlite]"],
    "a check has several statements": [CONFORMANCE + "TestChecks::test_it_is_one_statement[sqlite]"],
    "a forked child registers handlers with what its parent opened": [
        "tests/test_programs.py::test_after_a_fork_the_child_is_told_to_open_it_itself[sqlite-sync, a handler]"
    ],
    "a wait for what was claimed early has no bound": [
        STEPS + "test_an_alarm_claimed_just_before_a_step_back_fires_when_the_clock_is_right_again[sqlite]"
    ],
    "the loop sleeps by the wall clock": [
        STEPS + "test_a_step_while_the_next_moment_is_asked_for_makes_no_long_sleep[sqlite]"
    ],
    "a loop that has stopped running is healthy": [
        STEPS + "test_a_loop_that_does_not_run_any_more_is_told_to_whoever_watches[sqlite]"
    ],
    "a watchdog hears of a process whose loop has stopped": [
        STEPS + "test_a_loop_that_does_not_run_any_more_is_told_to_whoever_watches[sqlite]"
    ],
    "a step of the worker's own clock is not told": [
        STEPS + "test_a_step_of_the_workers_clock_alone_changes_nothing[sqlite--600]"
    ],
    "fires of a rule that is due are counted in the event loop": [
        COUNTED + "test_its_fires_are_counted_in_a_thread_when_it_is_due[sqlite]"
    ],
    "a rule of several parts is worked out in the event loop": [
        COUNTED + "test_rules_that_are_searched_one_after_another_are_searched_in_a_thread[sqlite]"
    ],
    "fires of a rule without a report are counted in the event loop": [
        COUNTED + "test_its_fires_are_counted_in_a_thread_when_its_report_does_not_come[sqlite]"
    ],
    "fires of a rule in another zone are counted in the event loop": [
        COUNTED + "test_its_fires_are_counted_in_a_thread_when_the_rules_of_its_zone_change[sqlite]"
    ],
    "the next suspect waits for a tick": [SUSPECTS + "test_the_next_suspect_does_not_wait_for_a_tick[sqlite]"],
    "a wake whose worker died is charged again": [
        "tests/dispatcher/test_budget.py::test_a_wake_whose_worker_died_is_not_charged_again[sqlite-0]"
    ],
    "what was counted is forgotten at midnight": [
        "tests/dispatcher/test_budget.py::test_a_wake_whose_worker_died_is_not_charged_again[sqlite-1]"
    ],
    "the next group does not wait for the last one": [
        SUSPECTS + "test_the_next_group_waits_until_this_process_has_survived_the_last_one[sqlite]"
    ],
    "the slow one is blamed for the next": [
        SUSPECTS + "test_who_is_slow_is_not_blamed_for_what_was_begun_while_it_was_under_way[sqlite]"
    ],
    "a suspect beside a group counts as alone": [
        SUSPECTS + "test_who_is_begun_while_a_group_is_under_way_is_not_alone[sqlite]"
    ],
    "a group that is released counts as dead": [
        "tests/rules/test_settle.py::test_a_member_of_a_group_handed_back_is_retried_in_a_group_again"
    ],
    "a death in a group counts against its members": [
        "tests/rules/test_settle.py::test_only_deaths_while_an_alarm_was_alone_count_against_it"
    ],
    "sqlite: suspects only one at a time": [ONE_BY_ONE.format("sqlite")],
    "postgres: suspects only one at a time": [ONE_BY_ONE.format("postgres")],
    "sqlite: a group comes where none is wanted": [ONE_BY_ONE.format("sqlite")],
    "postgres: a group comes where none is wanted": [ONE_BY_ONE.format("postgres")],
    "sqlite: a group waits behind those that are tried alone": [NOT_WITH_A_GROUP.format("sqlite")],
    "postgres: a group waits behind those that are tried alone": [NOT_WITH_A_GROUP.format("postgres")],
    "a script changes many without a yes": ["tests/interfaces/test_cli_bulk.py::test_in_one_process_too"],
    "a dry run of named alarms changes them": ["tests/interfaces/test_cli_bulk.py::test_in_one_process_too"],
    "a page asks for no new time": [
        "tests/dashboard/pages/test_alarm_page.py::test_undo_asks_for_a_new_time_where_the_old_one_has_passed[sqlite]"
    ],
    "cancel --all asks nobody": ["tests/interfaces/test_cli_bulk.py::test_in_one_process_too"],
    "a change is taken back over a later one": ["tests/service/test_undo.py::test_what_changed_since_is_said[sqlite]"],
    "a change is taken back days later": [
        "tests/service/test_undo.py::test_a_change_of_the_last_24_hours_and_no_older_one[sqlite]"
    ],
    "a one-shot comes back in the past": [
        "tests/service/test_undo.py::test_a_cancelled_one_shot_whose_time_has_passed_needs_a_new_one[sqlite]"
    ],
    "a skipped fire comes back when it is over": [
        "tests/service/test_undo.py::test_a_skip_of_a_fire_that_is_over_is_refused[sqlite]"
    ],
    "former values of any length are kept": [
        "tests/service/test_undo.py::test_values_that_are_too_long_are_not_kept_and_that_is_said[sqlite]"
    ],
    "a cancelled alarm comes back beyond the limit": [
        "tests/service/test_undo.py::test_who_is_at_the_limit_brings_nothing_back[sqlite]"
    ],
    "former values are shown": [
        "tests/service/test_undo.py::test_former_values_are_shown_to_nobody_and_kept_once[sqlite]"
    ],
    "every former value is kept": [
        "tests/service/test_undo.py::test_former_values_are_shown_to_nobody_and_kept_once[sqlite]"
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


def _selected(config: pytest.Config, faults: Iterable[str]) -> list[str]:
    """All with --long, some of those of the files that changed with --mutants=changed, otherwise none: each takes
    seconds.
    """
    if config.getoption("--long"):
        return list(faults)
    if config.getoption("--mutants") == "none":
        return []
    drawn, _ = changed.chosen(ROOT)
    return [fault for fault in faults if fault in drawn]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "fault" in metafunc.fixturenames:
        metafunc.parametrize("fault", _selected(metafunc.config, CAUGHT_BY))
    elif "found_fault" in metafunc.fixturenames:
        metafunc.parametrize("found_fault", _selected(metafunc.config, FOUND_BY_THE_MACHINE))


def _run(fault: str, tests: list[str], dsn: str) -> Ran:
    examples = "900" if fault else "150"  # of the state machine, which ends at the first that fails
    return run(fault, tests, ROOT, {"WAKEFUL_TEST_PG_DSN": dsn, "WAKEFUL_TEST_MACHINE_SAME_EXAMPLES": examples})


def test_every_fault_has_its_watchman() -> None:
    assert set(CAUGHT_BY) == set(FAULTS)
    assert set(FOUND_BY_THE_MACHINE) < set(FAULTS)


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_fits_the_code_that_it_is_planted_in(name: str) -> None:
    fault = FAULTS[name]
    if not isinstance(fault, Sql):
        for source in fault.sources if isinstance(fault, Several) else (fault,):
            spec = find_spec(source.module)
            assert spec is not None
            assert spec.origin is not None
            assert Path(spec.origin).read_text().count(source.old) == 1
    else:
        statements = queries(fault.dialect, Naming())
        assert any(fault.old in statements[statement] for statement in fault.statements)


@pytest.mark.long  # without --long the tests themselves are in the same run
def test_without_a_fault_they_all_pass(pg_dsn: str) -> None:
    ran = _run("", sorted({test for tests in CAUGHT_BY.values() for test in tests}), pg_dsn)
    assert ran.status == 0, ran.output


def test_a_planted_fault_is_caught(fault: str, pg_dsn: str) -> None:
    ran = _run(fault, CAUGHT_BY[fault], pg_dsn)
    assert ran.status == 1, f"{fault}: nobody noticed\n{ran.output}"
    assert " failed" in ran.output, ran.output


def test_the_machine_finds_a_planted_fault(found_fault: str, pg_dsn: str) -> None:
    ran = _run(found_fault, [MACHINE.format("sqlite")], pg_dsn)
    assert ran.status == 1, f"{found_fault}: nobody noticed\n{ran.output}"
    assert " failed" in ran.output, ran.output
