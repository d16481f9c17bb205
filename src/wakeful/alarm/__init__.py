"""An alarm and every decision about it. Pure: no clock, no database, no network."""

from wakeful.alarm.attempts import attempt_number
from wakeful.alarm.create import GivenTime, Origin, Timing, Wanted, create, differences, understand, user_of
from wakeful.alarm.defaults import Defaults, default_policy
from wakeful.alarm.edit import cancel, fire_now, pause, replace_with, resume, skip_next, snooze, update
from wakeful.alarm.inbox import in_hand
from wakeful.alarm.model import (
    ALARM_STATUSES,
    DEFAULT_POLICY,
    FIRE_STATUSES,
    INBOX,
    TASKS,
    Alarm,
    Attempt,
    Change,
    Event,
    Fire,
    Policy,
    Row,
    fire_id,
    is_fire_id,
    parse_fire_id,
)
from wakeful.alarm.outcome import Completed, Delivered, Failed, Outcome, Report, Snoozed, Try, Waiting
from wakeful.alarm.pace import HELD_BACK, hold_back
from wakeful.alarm.passing import pass_over
from wakeful.alarm.plan import coming, first_due, following, missed_before
from wakeful.alarm.quarantine import quarantine
from wakeful.alarm.report import check_reportable, fetch, report, retry, sweep, unfetch
from wakeful.alarm.rezone import REZONED, rezone
from wakeful.alarm.settle import begin, clock_set_back, note, release, retry_at, settle, skip
from wakeful.alarm.suspect import acquitted, is_alone, put_on_trial
from wakeful.alarm.task import Planner, Task, TaskNews, TaskPlan, shows, speaks, task_state
from wakeful.alarm.undo import last_change, undo, with_former
from wakeful.alarm.users import Users, task_users, users_of
from wakeful.alarm.wake import KEY_GRACE, Wake, report_token, reports_under

__all__ = [
    "ALARM_STATUSES",
    "DEFAULT_POLICY",
    "FIRE_STATUSES",
    "HELD_BACK",
    "INBOX",
    "KEY_GRACE",
    "REZONED",
    "TASKS",
    "Alarm",
    "Attempt",
    "Change",
    "Completed",
    "Defaults",
    "Delivered",
    "Event",
    "Failed",
    "Fire",
    "GivenTime",
    "Origin",
    "Outcome",
    "Planner",
    "Policy",
    "Report",
    "Row",
    "Snoozed",
    "Task",
    "TaskNews",
    "TaskPlan",
    "Timing",
    "Try",
    "Users",
    "Waiting",
    "Wake",
    "Wanted",
    "acquitted",
    "attempt_number",
    "begin",
    "cancel",
    "check_reportable",
    "clock_set_back",
    "coming",
    "create",
    "default_policy",
    "differences",
    "fetch",
    "fire_id",
    "fire_now",
    "first_due",
    "following",
    "hold_back",
    "in_hand",
    "is_alone",
    "is_fire_id",
    "last_change",
    "missed_before",
    "note",
    "parse_fire_id",
    "pass_over",
    "pause",
    "put_on_trial",
    "quarantine",
    "release",
    "replace_with",
    "report",
    "report_token",
    "reports_under",
    "resume",
    "retry",
    "retry_at",
    "rezone",
    "settle",
    "shows",
    "skip",
    "skip_next",
    "snooze",
    "speaks",
    "sweep",
    "task_state",
    "task_users",
    "understand",
    "undo",
    "unfetch",
    "update",
    "user_of",
    "users_of",
    "with_former",
]
