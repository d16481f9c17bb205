// Generated from wakeful's OpenAPI document by generate.py: not edited by hand.

/** The next fires of all alarms, merged, soonest first. `notes`: what is due and not delivered yet. */
export interface AgendaAnswer {
  now: string;
  more?: boolean | undefined;
  agenda: Coming[];
  notes?: string[] | undefined;
}

/** An alarm. Empty fields are left out: `next_fire_at` where it is not active, `fire_at` where it is a series. `wall_time`: what clocks of its zone show when it fires, where it fires once and was set by that. `manual_of`: the alarm that it is a manual fire of. */
export interface AlarmView {
  id: string;
  label: string;
  kind: "cron" | "once";
  fire_at?: string | undefined;
  cron_expr?: string | undefined;
  timezone: string;
  wall_time?: string | undefined;
  next_fire_at?: string | undefined;
  conversation_id?: string | undefined;
  wake_message: string;
  payload: unknown;
  status: "active" | "cancelled" | "failed" | "fired" | "paused";
  idempotency_key?: string | undefined;
  max_failures: number;
  failure_count: number;
  last_error?: string | undefined;
  created_at: string;
  last_fired_at?: string | undefined;
  target: string;
  version: number;
  fire_count: number;
  policy?: PolicyView | undefined;
  paused_reason?: string | undefined;
  cancelled_at?: string | undefined;
  isolated?: boolean | undefined;
  owner_did: string;
  created_by?: string | undefined;
  created_via?: string | undefined;
  root_id?: string | undefined;
  manual_of?: string | undefined;
  parent_fire?: string | undefined;
  generation?: number | undefined;
}

export interface AlarmsAnswer {
  alarms: AlarmView[];
  next_cursor?: string | undefined;
  now: string;
}

/** An object for an object, a list for a list. */
export interface AppendBody {
  payload: unknown;
}

/** One line of a fire's log. */
export interface Attempt {
  at: string;
  ms: number;
  said: string;
}

/** One result per item, in the same order, and the counts. */
export interface BatchAnswer {
  results: BatchItem[];
  created: number;
  deduped: number;
  refused: number;
  now: string;
}

/** Each item is a body of `POST /v1/alarms`; an invalid one gets an error in its place. */
export interface BatchBody {
  alarms: (CreateRequest | unknown)[];
}

/** The result of one item: an alarm (201 created, 200 its key existed) with its `notes`, or a problem. */
export interface BatchItem {
  status: number;
  alarm?: AlarmView | undefined;
  notes?: string[] | undefined;
  problem?: Problem | undefined;
}

/** What is used of budgets in this hour and day (of UTC), those that are used up first. */
export interface BudgetAnswer {
  budget: BudgetUse[];
  now: string;
}

/** What was used of one limit in the hour or day that is now. 0 allowed: not limited. `id`: of the owner (also for `agent`), of the alarm, or of the alarm that the chain began with. `until`: when the hour or day is over. */
export interface BudgetUse {
  scope: "agent" | "alarm" | "chain" | "owner" | "rewake";
  id: string;
  period: "day" | "hour";
  wakes: number;
  wakes_allowed: number;
  cost: number;
  cost_allowed: number;
  used_up: boolean;
  until: string;
}

/** `url`: what a calendar program subscribes to, shown this once. `id` and the like: of the token in it. */
export interface CalendarLinkAnswer {
  url: string;
  id?: string | undefined;
  label?: string | undefined;
  expires_at?: string | undefined;
  now: string;
}

/** `expires`: how long the address is good, such as 90d; otherwise until it is revoked. */
export interface CalendarLinkBody {
  /** What it is for, to tell it from others. */
  label?: string | undefined;
  expires?: number | string | null | undefined;
}

/** Which alarms: `ids` (ids, keys or beginnings of ids), or all pending ones that fit the filters. */
export interface CancelBody {
  ids?: string[] | undefined;
  /** A part of the label, the message or the key, in any case. */
  text?: string | undefined;
  conversation_id?: string | undefined;
  target?: string | undefined;
  label?: string | undefined;
  /** Only what fires from then on: a moment or a phrase. */
  due_from?: string | number | null | undefined;
  /** Only what fires until then; a day is the whole of it. */
  due_to?: string | number | null | undefined;
  reason?: string | undefined;
  /** Cancel nothing: only say which it would be. */
  dry_run?: boolean | undefined;
}

/** How many were cancelled, and the first 500 of them; with `dry_run` none, and those that would be. `in_flight`: of how many an attempt was under way, which may still arrive. `skipped`: how many of them are series that only leave out what falls between due_from and due_to. `notes`, where there are any. */
export interface CancelledAnswer {
  cancelled: number;
  now: string;
  dry_run: boolean;
  in_flight: number;
  alarms: AlarmView[];
  skipped?: number | undefined;
  notes?: string[] | undefined;
}

/** `in_flight`: a worker is delivering it, so this one attempt may still arrive unchanged; or a reader has fetched a wake of it from the inbox and may be working on it. */
export interface ChangedAnswer {
  id: string;
  label: string;
  kind: "cron" | "once";
  fire_at?: string | undefined;
  cron_expr?: string | undefined;
  timezone: string;
  wall_time?: string | undefined;
  next_fire_at?: string | undefined;
  conversation_id?: string | undefined;
  wake_message: string;
  payload: unknown;
  status: "active" | "cancelled" | "failed" | "fired" | "paused";
  idempotency_key?: string | undefined;
  max_failures: number;
  failure_count: number;
  last_error?: string | undefined;
  created_at: string;
  last_fired_at?: string | undefined;
  target: string;
  version: number;
  fire_count: number;
  policy?: PolicyView | undefined;
  paused_reason?: string | undefined;
  cancelled_at?: string | undefined;
  isolated?: boolean | undefined;
  owner_did: string;
  created_by?: string | undefined;
  created_via?: string | undefined;
  root_id?: string | undefined;
  manual_of?: string | undefined;
  parent_fire?: string | undefined;
  generation?: number | undefined;
  now: string;
  notes?: string[] | undefined;
  in_flight: boolean;
}

export interface Coming {
  at: string;
  alarm: AlarmView;
}

/** A requested alarm. Exactly one of when, fire_at, delay_seconds and cron_expr gives the time. */
export interface CreateRequest {
  /** The message for the reader, who may know nothing else. */
  wake_message: string;
  /** A phrase, duration, ISO time with offset, or cron with 5 or 6 fields. Phrases are never guessed. */
  when?: string | null | undefined;
  /** What the time must be. An edit that makes a series fire once, or the other way round, has to say it. */
  kind?: "cron" | "once" | null | undefined;
  /** Once, so many seconds from now. */
  delay_seconds?: number | null | undefined;
  /** Once, at this moment. */
  fire_at?: string | number | null | undefined;
  /** Recurring: cron, @daily and the like, @every 90m, or RRULE:FREQ=DAILY;BYHOUR=9. */
  cron_expr?: string | null | undefined;
  /** The IANA time zone of the time. */
  timezone?: string | null | undefined;
  /** A short name for people. */
  label?: string | null | undefined;
  /** The conversation of this alarm; the wake carries it. */
  conversation_id?: string | null | undefined;
  /** State to get back with the wake, unchanged; at most 128 KiB of JSON. */
  payload?: unknown | undefined;
  /** The name of a configured target, never a URL. */
  target?: string | null | undefined;
  /** Ask the receiver for a run apart from the conversation. */
  isolated?: boolean | null | undefined;
  /** How often a failed delivery is tried again. */
  max_failures?: number | null | undefined;
  policy?: PolicyRequest | null | undefined;
  /** Your name for this alarm: repeating the request does not set a second one. */
  idempotency_key?: string | null | undefined;
  /** When the key is taken: return the alarm that has it, replace it, or refuse. Default: return it if the request is the same, else refuse. */
  on_conflict?: "error" | "replace" | "return" | null | undefined;
  /** The `fire_id` of the wake that led to this alarm; it joins that chain. */
  parent_fire?: string | null | undefined;
}

export interface CreatedAnswer {
  id: string;
  label: string;
  kind: "cron" | "once";
  fire_at?: string | undefined;
  cron_expr?: string | undefined;
  timezone: string;
  wall_time?: string | undefined;
  next_fire_at?: string | undefined;
  conversation_id?: string | undefined;
  wake_message: string;
  payload: unknown;
  status: "active" | "cancelled" | "failed" | "fired" | "paused";
  idempotency_key?: string | undefined;
  max_failures: number;
  failure_count: number;
  last_error?: string | undefined;
  created_at: string;
  last_fired_at?: string | undefined;
  target: string;
  version: number;
  fire_count: number;
  policy?: PolicyView | undefined;
  paused_reason?: string | undefined;
  cancelled_at?: string | undefined;
  isolated?: boolean | undefined;
  owner_did: string;
  created_by?: string | undefined;
  created_via?: string | undefined;
  root_id?: string | undefined;
  manual_of?: string | undefined;
  parent_fire?: string | undefined;
  generation?: number | undefined;
  now: string;
  notes?: string[] | undefined;
  similar?: Similar | undefined;
}

/** The alarm that already has the key. `in_flight`, if it was replaced: see ChangedAnswer. */
export interface DedupedAnswer {
  id: string;
  label: string;
  kind: "cron" | "once";
  fire_at?: string | undefined;
  cron_expr?: string | undefined;
  timezone: string;
  wall_time?: string | undefined;
  next_fire_at?: string | undefined;
  conversation_id?: string | undefined;
  wake_message: string;
  payload: unknown;
  status: "active" | "cancelled" | "failed" | "fired" | "paused";
  idempotency_key?: string | undefined;
  max_failures: number;
  failure_count: number;
  last_error?: string | undefined;
  created_at: string;
  last_fired_at?: string | undefined;
  target: string;
  version: number;
  fire_count: number;
  policy?: PolicyView | undefined;
  paused_reason?: string | undefined;
  cancelled_at?: string | undefined;
  isolated?: boolean | undefined;
  owner_did: string;
  created_by?: string | undefined;
  created_via?: string | undefined;
  root_id?: string | undefined;
  manual_of?: string | undefined;
  parent_fire?: string | undefined;
  generation?: number | undefined;
  now: string;
  notes?: string[] | undefined;
  deduped: boolean;
  in_flight?: boolean | undefined;
}

/** The changes to an alarm; fields left out or null stay as they are, and so do those of its `policy` left out. */
export interface EditRequest {
  /** The message for the reader, who may know nothing else. */
  wake_message?: string | null | undefined;
  /** A phrase, duration, ISO time with offset, or cron with 5 or 6 fields. Phrases are never guessed. */
  when?: string | null | undefined;
  /** What the time must be. An edit that makes a series fire once, or the other way round, has to say it. */
  kind?: "cron" | "once" | null | undefined;
  /** Once, so many seconds from now. */
  delay_seconds?: number | null | undefined;
  /** Once, at this moment. */
  fire_at?: string | number | null | undefined;
  /** Recurring: cron, @daily and the like, @every 90m, or RRULE:FREQ=DAILY;BYHOUR=9. */
  cron_expr?: string | null | undefined;
  /** The IANA time zone of the time. */
  timezone?: string | null | undefined;
  /** A short name for people. */
  label?: string | null | undefined;
  /** The conversation of this alarm; the wake carries it. */
  conversation_id?: string | null | undefined;
  /** State to get back with the wake, unchanged; at most 128 KiB of JSON. */
  payload?: unknown | undefined;
  /** The name of a configured target, never a URL. */
  target?: string | null | undefined;
  /** Ask the receiver for a run apart from the conversation. */
  isolated?: boolean | null | undefined;
  /** How often a failed delivery is tried again. */
  max_failures?: number | null | undefined;
  policy?: PolicyRequest | null | undefined;
}

export interface FailedAnswer {
  now: string;
  more?: boolean | undefined;
  failed: HistoryEntry[];
}

export interface FireAnswer {
  id: string;
  alarm_id: string;
  scheduled_for: string;
  owner_did: string;
  target: string;
  status: "completed" | "delivered" | "failed" | "retrying" | "skipped" | "snoozed" | "timed_out" | "waiting";
  reason?: string | undefined;
  attempts: number;
  failures: number;
  started_at?: string | undefined;
  delivered_at?: string | undefined;
  report_by?: string | undefined;
  completed_at?: string | undefined;
  duration_ms?: number | undefined;
  result?: string | undefined;
  last_error?: string | undefined;
  log?: Attempt[] | undefined;
  through?: string | undefined;
  count?: number | undefined;
  manual?: boolean | undefined;
  updated_at: string;
  now: string;
}

/** One occurrence of an alarm and its outcome. `manual`: `fire` made it; its `alarm_id` is that of the copy. */
export interface FireView {
  id: string;
  alarm_id: string;
  scheduled_for: string;
  owner_did: string;
  target: string;
  status: "completed" | "delivered" | "failed" | "retrying" | "skipped" | "snoozed" | "timed_out" | "waiting";
  reason?: string | undefined;
  attempts: number;
  failures: number;
  started_at?: string | undefined;
  delivered_at?: string | undefined;
  report_by?: string | undefined;
  completed_at?: string | undefined;
  duration_ms?: number | undefined;
  result?: string | undefined;
  last_error?: string | undefined;
  log?: Attempt[] | undefined;
  through?: string | undefined;
  count?: number | undefined;
  manual?: boolean | undefined;
  updated_at: string;
}

export interface FiresAnswer {
  fires: FireView[];
  next_cursor?: string | undefined;
  now: string;
}

/** `target`: whom to wake in place of whoever has the wake. */
export interface HandOverBody {
  target: string;
}

/** `missed`: how many fires of these were passed over without anybody having asked for it. `notes`: what is due and not delivered yet. */
export interface HistoryAnswer {
  now: string;
  more?: boolean | undefined;
  history: HistoryEntry[];
  missed: number;
  notes?: string[] | undefined;
}

/** One line of history: a fire, or an alarm that has not fired. */
export interface HistoryEntry {
  id: string;
  alarm_id: string;
  status: string;
  target: string;
  scheduled_for: string;
  label?: string | undefined;
  message?: string | undefined;
  reason?: string | undefined;
  attempts?: number | undefined;
  started_at?: string | null | undefined;
  completed_at?: string | null | undefined;
  duration_ms?: number | null | undefined;
  late_ms?: number | null | undefined;
  result?: string | undefined;
  error?: string | undefined;
  count?: number | undefined;
  manual?: boolean | undefined;
  max_failures?: number | undefined;
  cancelled_at?: string | null | undefined;
  created_by?: string | undefined;
  created_via?: string | undefined;
}

/** `notes`, where there is no wake: what is due and not delivered yet. */
export interface InboxAnswer {
  wakes: InboxWake[];
  notes?: string[] | undefined;
  now: string;
}

/** `done`: earlier wakes by their fire_id, with what came of each; they are reported as completed first. */
export interface InboxBody {
  done?: Record<string, string> | undefined;
}

/** A wake from the inbox, to be reported by `report_by`; else it waits again, as often as a failure is retried. `late_ms`: how long after its scheduled time it was handed out. `missed`: how many later fires of its series passed meanwhile without a wake of their own. `attempt`: how often it has been handed out. `number`: which fire of its alarm it is, of `max_fires` at most; `previous`: what became of the one before; `next_fire_at`: when the next comes. */
export interface InboxWake {
  fire_id: string;
  alarm_id: string;
  owner_did: string;
  user_id: string;
  conversation_id: string;
  label: string;
  message: string;
  payload: unknown;
  scheduled_for: string;
  isolated: boolean;
  created_by: string;
  created_via: string;
  created_at: string;
  author: "agent" | "import" | "owner" | "task" | "template";
  parent_fire: string;
  root_id: string;
  generation: number;
  ends_at: string | null;
  renewable: boolean;
  origin: string;
  token: string;
  report: ReportTo;
  signal?: SignalBody | undefined;
  attempt: number;
  late_ms: number;
  missed: number;
  number: number;
  max_fires?: number | undefined;
  previous?: PreviousFire | undefined;
  next_fire_at?: string | undefined;
  report_by?: string | undefined;
}

/** Something that happened. `seq` counts its owner's in this process; `status` is that of the fire, or the alarm. */
export interface LiveEvent {
  seq: number;
  at: string;
  what: string;
  alarm_id: string;
  fire_id?: string | undefined;
  owner?: string | undefined;
  target?: string | undefined;
  status?: string | undefined;
  reason?: string | undefined;
}

/** Which alarms: `ids`, those that fit the filters, or `all` pending ones. Exactly one of `by` and `timezone`. */
export interface MoveBody {
  ids?: string[] | undefined;
  all?: boolean | undefined;
  /** Move the next fire by this; whole days keep the time of day. */
  by?: number | string | null | undefined;
  /** Move them to this zone: a series keeps its time of day, what fires once its moment. */
  timezone?: string | undefined;
  /** A part of the label, the message or the key, in any case. */
  text?: string | undefined;
  conversation_id?: string | undefined;
  target?: string | undefined;
  label?: string | undefined;
  /** Only what fires from then on: a moment or a phrase. */
  due_from?: string | number | null | undefined;
  /** Only what fires until then; a day is the whole of it. */
  due_to?: string | number | null | undefined;
  /** Move nothing: only say which it would be. */
  dry_run?: boolean | undefined;
}

/** How many were moved, and the first 500 of them; with `dry_run` none, and those that would be. `in_flight`: of how many an attempt was under way, which may still arrive. `notes`: which were not moved, and why. */
export interface MovedAnswer {
  moved: number;
  dry_run: boolean;
  in_flight: number;
  alarms: AlarmView[];
  now: string;
  notes?: string[] | undefined;
}

/** `notes`, where there are any: an assumed time zone, times that clock changes move, which of two days was meant, how often a series wakes, a target nobody serves, a key whose alarm has ended, a time that an edit made another kind of. */
export interface NotedAnswer {
  id: string;
  label: string;
  kind: "cron" | "once";
  fire_at?: string | undefined;
  cron_expr?: string | undefined;
  timezone: string;
  wall_time?: string | undefined;
  next_fire_at?: string | undefined;
  conversation_id?: string | undefined;
  wake_message: string;
  payload: unknown;
  status: "active" | "cancelled" | "failed" | "fired" | "paused";
  idempotency_key?: string | undefined;
  max_failures: number;
  failure_count: number;
  last_error?: string | undefined;
  created_at: string;
  last_fired_at?: string | undefined;
  target: string;
  version: number;
  fire_count: number;
  policy?: PolicyView | undefined;
  paused_reason?: string | undefined;
  cancelled_at?: string | undefined;
  isolated?: boolean | undefined;
  owner_did: string;
  created_by?: string | undefined;
  created_via?: string | undefined;
  root_id?: string | undefined;
  manual_of?: string | undefined;
  parent_fire?: string | undefined;
  generation?: number | undefined;
  now: string;
  notes?: string[] | undefined;
}

/** One moment, in UTC and in local time. */
export interface Occurrence {
  utc: string;
  local: string;
}

/** How much is due, in flight and next; and of each target, with the fires of the last hour. */
export interface OverviewAnswer {
  now: string;
  due: number;
  in_flight: number;
  ahead: number;
  more: boolean;
  per_minute: number;
  fired: number;
  failed: number;
  retrying: number;
  targets: TargetOverview[];
  next: AlarmView[];
}

export interface PauseBody {
  reason?: string | undefined;
}

/** What an alarm does when something goes wrong. Fields that are left out come from the settings. In an edit they stay as they are, and null is what takes one back to the settings. */
export interface PolicyRequest {
  /** The wait before the first retry; it doubles from there. */
  backoff_base?: number | string | null | undefined;
  /** The longest wait between two retries. */
  backoff_cap?: number | string | null | undefined;
  /** Retry after exactly these waits, not up to a tenth later. */
  exact_backoff?: boolean | null | undefined;
  /** After downtime: fire once for what was missed, or skip it. */
  catch_up?: "one" | "skip" | null | undefined;
  /** With catch_up skip: how late a fire may still happen. */
  grace?: number | string | null | undefined;
  /** Start no attempt later than this after the scheduled time. */
  expires?: number | string | null | undefined;
  /** While the report of the fire before is awaited: skip, or fire all the same. */
  overlap?: "allow" | "skip" | null | undefined;
  /** How long to wait for a report after delivery. */
  report_within?: number | string | null | undefined;
  /** When an expected report does not come: wake again, like a failed try, or give up. */
  on_silence?: "again" | "give_up" | null | undefined;
  /** No fire before this moment. */
  starts_at?: string | number | null | undefined;
  /** No fire after this moment. */
  ends_at?: string | number | null | undefined;
  /** End after this many fires. */
  max_fires?: number | null | undefined;
  /** Delay each fire by a random time up to this. */
  jitter?: number | string | null | undefined;
  /** Pause after this many failed fires in a row. */
  auto_pause_after?: number | null | undefined;
  /** The most wakes of this alarm in an hour. */
  wakes_per_hour?: number | null | undefined;
  /** The most wakes of this alarm in a day. */
  wakes_per_day?: number | null | undefined;
  /** The most cost that reports on this alarm may name in a day. */
  cost_per_day?: number | null | undefined;
  /** When a budget is used up: defer the wake until it is free again, or skip it. Default: a series skips. */
  at_limit?: "defer" | "skip" | null | undefined;
  /** A check of the operator's: skip the fire unless it finds a change. */
  only_if?: string | null | undefined;
  /** When this signal comes: skip the next fire of a series, cancel a one-shot. */
  unless?: string | null | undefined;
  /** Ignore signals for `unless` that come earlier than this before the fire. */
  unless_since?: number | string | null | undefined;
  /** The signal for `unless` moves the alarm, which fires once, to this long after it. */
  rearm?: number | string | null | undefined;
  /** Fire at once when this signal comes. */
  or_when?: string | null | undefined;
  /** Whose holidays a series keeps: a calendar of the server's. */
  calendar?: string | null | undefined;
  /** What falls on a holiday: skip it, or fire on the next or previous working day. */
  on_holiday?: "next_working_day" | "previous_working_day" | "skip" | null | undefined;
  /** The days it may be moved to; default: its owner's. */
  working_days?: string | null | undefined;
}

/** What an alarm does when something goes wrong: retries, missed fires, reports. Durations are seconds. */
export interface PolicyView {
  backoff_base?: number | undefined;
  backoff_cap?: number | undefined;
  exact_backoff?: boolean | undefined;
  catch_up?: "one" | "skip" | undefined;
  grace?: number | undefined;
  expires?: number | null | undefined;
  overlap?: "allow" | "skip" | undefined;
  report_within?: number | null | undefined;
  on_silence?: "again" | "give_up" | null | undefined;
  starts_at?: string | null | undefined;
  ends_at?: string | null | undefined;
  max_fires?: number | null | undefined;
  jitter?: number | undefined;
  auto_pause_after?: number | null | undefined;
  wakes_per_hour?: number | null | undefined;
  wakes_per_day?: number | null | undefined;
  cost_per_day?: number | null | undefined;
  at_limit?: "defer" | "skip" | null | undefined;
  only_if?: string | null | undefined;
  unless?: string | null | undefined;
  unless_since?: number | null | undefined;
  rearm?: number | null | undefined;
  or_when?: string | null | undefined;
  calendar?: string | undefined;
  on_holiday?: "next_working_day" | "previous_working_day" | "skip" | null | undefined;
  working_days?: string | undefined;
}

/** How a `when` was understood; `remarks`: an assumed time zone, the effect of clock changes, which of two days or dates was meant, how often a rule fires. `starts_at`, `ends_at` and `max_fires` are the bounds that a phrase says, such as "until friday" or "10 times". */
export interface PreviewAnswer {
  kind: "cron" | "once";
  fire_at?: string | undefined;
  cron_expr?: string | undefined;
  starts_at?: string | undefined;
  ends_at?: string | undefined;
  max_fires?: number | undefined;
  timezone: string;
  description: string;
  next: Occurrence[];
  skipped?: SkippedOccurrence[] | undefined;
  calendar?: string | undefined;
  remarks: string[];
  now: string;
}

export interface PreviewBody {
  when: string;
  timezone?: string | null | undefined;
  n?: number | undefined;
}

/** The fire of the same series before a wake: what became of it. */
export interface PreviousFire {
  fire_id: string;
  status: "completed" | "delivered" | "failed" | "retrying" | "skipped" | "snoozed" | "timed_out" | "waiting";
  result?: string | undefined;
  error?: string | undefined;
}

/** RFC 9457: what was wrong, with a stable `code`, the `field` at fault, and what to do instead. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  code: string;
  detail: string;
  field?: string | undefined;
  fix?: string | undefined;
  /** The request that was refused is accepted with these fields so; null: without that one. */
  repair?: Record<string, unknown> | undefined;
}

/** The latest live events, oldest first. */
export interface RecentEventsAnswer {
  events: LiveEvent[];
  now: string;
}

export interface ReportRequest {
  outcome: "completed" | "failed" | "snooze" | "working";
  result?: string | undefined;
  reason?: string | undefined;
  for?: number | string | null | undefined;
  /** What the work cost since the last report, in any unit; it counts against budgets of cost. */
  cost?: number | null | undefined;
  /** Keep its series, which was set with the token of a wake, for as long again from now. */
  renew?: boolean | undefined;
}

/** Where to say what became of a wake, and with which token. */
export interface ReportTo {
  url: string;
  token: string;
}

/** A fire after a report. `retry_at`: when it is tried again; absent if it is not. `notes`: where it had been completed with another result, that this one is not kept. */
export interface ReportedAnswer {
  id: string;
  alarm_id: string;
  scheduled_for: string;
  owner_did: string;
  target: string;
  status: "completed" | "delivered" | "failed" | "retrying" | "skipped" | "snoozed" | "timed_out" | "waiting";
  reason?: string | undefined;
  attempts: number;
  failures: number;
  started_at?: string | undefined;
  delivered_at?: string | undefined;
  report_by?: string | undefined;
  completed_at?: string | undefined;
  duration_ms?: number | undefined;
  result?: string | undefined;
  last_error?: string | undefined;
  log?: Attempt[] | undefined;
  through?: string | undefined;
  count?: number | undefined;
  manual?: boolean | undefined;
  updated_at: string;
  now: string;
  retry_at?: string | undefined;
  notes?: string[] | undefined;
}

export interface ResetAnswer {
  cancelled: number;
  now: string;
}

/** How many fires matched the filters, and how many of them are retried. */
export interface RetriedAnswer {
  found: number;
  retried: number;
  refused: number;
  next_cursor?: string | undefined;
  now: string;
}

export interface RevokedLinkAnswer {
  id: string;
  state: string;
  now: string;
}

/** What counts for the caller's alarms. `own`: which of it the caller has set; the rest is the server's. */
export interface SettingsAnswer {
  timezone: string;
  date_order: string;
  working_days: string;
  calendar: string;
  own: string[];
  calendars: string[];
  now: string;
}

/** Changes to the caller's own settings. Fields left out stay as they are; null or "" takes the server's again. */
export interface SettingsRequest {
  /** Your IANA time zone, for times given without one. */
  timezone?: string | null | undefined;
  /** How you write 3/4/2030: dmy (day first) or mdy (month first). */
  date_order?: string | null | undefined;
  /** The days you work on. */
  working_days?: string | null | undefined;
  /** The calendar whose holidays you have; the operator names them. */
  calendar?: string | null | undefined;
}

/** The signal that a wake comes for, before its time or besides its schedule. */
export interface SignalBody {
  name: string;
  payload: unknown;
}

/** What a signal did to one alarm. `at`: the fire that is skipped or is not, or where the alarm is moved to. */
export interface SignalEffectView {
  alarm_id: string;
  effect: "already_skipped" | "cancelled" | "fired" | "moved" | "skipped" | "too_early" | "too_late";
  at?: string | undefined;
}

/** `payload`: any JSON up to 16 KiB; a wake that comes for the signal carries it. */
export interface SignalRequest {
  payload?: unknown | undefined;
}

/** How many alarms a signal cancelled, fired, skipped a fire of and moved, and the first 500 of those it reached. `effects` says of each of them what became of it, in the same order. `in_flight`: of how many an attempt was under way already: it may still arrive, and one that was to fire is on its way as it was. `notes`: where nothing waited for it, and why an alarm was not changed. */
export interface SignalledAnswer {
  cancelled: number;
  fired: number;
  skipped: number;
  moved: number;
  in_flight: number;
  alarms: AlarmView[];
  effects: SignalEffectView[];
  notes?: string[] | undefined;
  now: string;
}

/** An active alarm of the same owner with the same target, schedule and message. */
export interface Similar {
  id: string;
  label: string;
  created_at: string;
  next_fire_at: string;
}

/** `at`: the fire that is meant, such as `next_fire_at` or "tomorrow at 9am"; another one is not skipped. */
export interface SkipBody {
  at?: string | number | null | undefined;
}

/** One moment that is left out, and the holiday it falls on. */
export interface SkippedOccurrence {
  utc: string;
  local: string;
  holiday: string;
}

/** Exactly one of `for` (a length) and `until` (a moment). */
export interface SnoozeBody {
  for?: number | string | null | undefined;
  until?: string | number | null | undefined;
}

export interface StatsAnswer {
  total?: number | undefined;
  pending?: number | undefined;
  paused?: number | undefined;
  fired?: number | undefined;
  completed?: number | undefined;
  failed?: number | undefined;
  cancelled?: number | undefined;
  timeout_unknown?: number | undefined;
  skipped?: number | undefined;
  avg_duration_ms?: number | null | undefined;
  more?: boolean | undefined;
  now: string;
}

export interface TargetOverview {
  target: string;
  state: string;
  workers: number;
  due?: number | undefined;
  in_flight?: number | undefined;
  ahead?: number | undefined;
  fired?: number | undefined;
  failed?: number | undefined;
  retrying?: number | undefined;
}

/** A target that the caller may use, and how it is. */
export interface TargetStatus {
  target: string;
  state: string;
  workers: number;
  since?: string | null | undefined;
  by?: string | undefined;
  reason?: string | undefined;
}

/** The targets that the caller may use. `since`, `by` and `reason` of one that is paused or failing. */
export interface TargetsAnswer {
  targets: TargetStatus[];
  now: string;
}

/** `when`: a new time, needed where that of a cancelled or edited one-shot has passed. */
export interface UndoBody {
  when?: string | null | undefined;
}

/** An explanation: one paragraph in words, the facts it rests on, and the moment it holds for. */
export interface Why {
  summary: string;
  facts: string[];
  now: string;
}

export interface AlarmsFindQuery {
  /** Alarms in this state. Several are separated by commas: active, paused, fired, failed, cancelled. */
  status?: string | undefined;
  /** One-shots or series. */
  kind?: "" | "once" | "cron" | undefined;
  /** Alarms of this target. */
  target?: string | undefined;
  /** Alarms with exactly this label. */
  label?: string | undefined;
  /** Alarms of this conversation. */
  conversation_id?: string | undefined;
  /** Alarms of the chain that this alarm started. */
  root_id?: string | undefined;
  /** The alarm with exactly this idempotency_key. */
  key?: string | undefined;
  /** A part of the label, the message or the key, in any case. */
  q?: string | undefined;
  /** Created at or after. RFC 3339 with an offset, or unix seconds. */
  since?: string | undefined;
  /** Created before. RFC 3339 with an offset, or unix seconds. */
  until?: string | undefined;
  /** The most to return; fewer if they are long. */
  limit?: number | undefined;
  /** The next_cursor of the previous page. */
  cursor?: string | undefined;
}

export interface AlarmsResetQuery {
  /** Must be true, unless root_id is given. */
  all?: "" | "true" | undefined;
  /** Cancel only this alarm and those set because of its wakes. */
  root_id?: string | undefined;
}

export interface AlarmsCreateManyQuery {
  /** Refuse them all where one is bad; a taken key answers with its alarm. */
  all_or_none?: "" | "true" | undefined;
}

export interface AlarmsCancelQuery {
  /** Why, for those who ask later. */
  reason?: string | undefined;
}

export interface FiresFiresQuery {
  /** Fires with this status. Several are separated by commas: retrying, waiting, delivered, completed, failed, timed_out, snoozed, skipped. */
  status?: string | undefined;
  /** Fires of this target. */
  target?: string | undefined;
  /** Scheduled at or after. RFC 3339 with an offset, or unix seconds. */
  since?: string | undefined;
  /** Scheduled before. RFC 3339 with an offset, or unix seconds. */
  until?: string | undefined;
  /** The most to return; fewer if they are long. */
  limit?: number | undefined;
  /** The next_cursor of the previous page. */
  cursor?: string | undefined;
}

export interface FiresFiresOfQuery {
  /** Fires with this status. Several are separated by commas: retrying, waiting, delivered, completed, failed, timed_out, snoozed, skipped. */
  status?: string | undefined;
  /** Scheduled at or after. RFC 3339 with an offset, or unix seconds. */
  since?: string | undefined;
  /** Scheduled before. RFC 3339 with an offset, or unix seconds. */
  until?: string | undefined;
  /** The most to return; fewer if they are long. */
  limit?: number | undefined;
  /** The next_cursor of the previous page. */
  cursor?: string | undefined;
}

export interface FiresRetryManyQuery {
  /** Which to retry; both unless said. Several are separated by commas: failed, timed_out. */
  status?: string | undefined;
  /** Fires of this target. */
  target?: string | undefined;
  /** Scheduled at or after. RFC 3339 with an offset, or unix seconds. */
  since?: string | undefined;
  /** Scheduled before. RFC 3339 with an offset, or unix seconds. */
  until?: string | undefined;
  /** The most to retry. */
  limit?: number | undefined;
  /** The next_cursor of the previous page. */
  cursor?: string | undefined;
}

export interface FiresTakeQuery {
  /** How many seconds to wait for a wake; 0 answers at once. */
  wait?: number | undefined;
  /** The most to return; fewer if they are long. */
  limit?: number | undefined;
  /** Another inbox than the usual one, by its name. */
  target?: string | undefined;
  /** Only wakes of this conversation; the others stay. */
  conversation_id?: string | undefined;
}

export interface FiresInboxQuery {
  /** How many seconds to wait for a wake; 0 answers at once. */
  wait?: number | undefined;
  /** The most to return; fewer if they are long. */
  limit?: number | undefined;
  /** Another inbox than the usual one, by its name. */
  target?: string | undefined;
  /** Only wakes of this conversation; the others stay. */
  conversation_id?: string | undefined;
}

export interface LookHistoryQuery {
  /** Only entries with this status. */
  status?: "" | "pending" | "cancelled" | "fired" | "completed" | "failed" | "timed_out" | "snoozed" | "skipped" | undefined;
  /** Only entries of this target. */
  target?: string | undefined;
  /** Fires scheduled, and alarms created, at or after. RFC 3339 with an offset, or unix seconds. Or how long ago, such as 8h. */
  since?: string | undefined;
  /** The most to return; fewer if they are long. */
  limit?: number | undefined;
}

export interface LookFailedQuery {
  /** The most to return; fewer if they are long. */
  limit?: number | undefined;
}

export interface LookAgendaQuery {
  /** How far to look ahead. */
  hours?: number | undefined;
  /** The most to return; fewer if they are long. */
  limit?: number | undefined;
}

export interface LookBudgetQuery {
  /** All limits on one alarm. */
  alarm_id?: string | undefined;
}

export interface LookRecentEventsQuery {
  /** Only these. Several are separated by commas: created, fired, retrying, delivered, completed, failed, timed_out, snoozed, skipped, cancelled, paused, resumed, updated, signalled, replaced, undone, budget_reached, ending, renewed, holidays_unknown. */
  events?: string | undefined;
  /** Only those of one alarm. */
  alarm_id?: string | undefined;
  /** The most to return. */
  limit?: number | undefined;
}

export interface CalendarFeedQuery {
  /** A token with the scope calendar, for programs that send no headers. */
  token?: string | undefined;
}
