-- The statements of alarms and fires in SQLite, by name. alarms.postgres.sql has the same names in the same order.
--
-- {rows} becomes `(?, …), (?, …)`, one group per row. One statement writes many rows because between statements the driver
-- lets go of Python's interpreter lock, and a busy event loop may keep it for milliseconds each time.
-- A line marked `-- when x` counts only where x is given: an `or` instead would keep SQLite from using the index.
-- {… columns}, {… as json}: the columns of a table or some of them, as store/columns.py has them. A `part` stands where
-- its name does.

-- part: unleased
-- Nobody has it: it was never leased, the lease has ended, or it is from a clock that was set back since.
(claimed_at is null or claimed_at <= :now - :lease or claimed_at > :now + :lease);

-- name: add
-- Either unique index may be the one that says no: the id (a repeated call) or the owner's key.
insert into {t}alarms ({alarm columns})
values {rows}
    on conflict do nothing;

-- name: same_key
select {alarm columns}
  from {t}alarms
 where owner_did = ?1
   and idempotency_key = ?2
   and idempotency_key <> '';

-- name: same_id
select {alarm columns}
  from {t}alarms
 where id = ?1;

-- name: suspect
-- Of the first that are due, the alarm that was claimed before and never settled with the least against it. With `:most`
-- 1: one that was not retried in a group yet, wherever it stands behind others that were.
select rowid,
       unsettled,
       next_fire_at,
       coalesce(claimed_at, 0) > :now
  from (
    select rowid,
           unsettled,
           next_fire_at,
           claimed_at
      from {t}alarms indexed by {p}alarms_due_idx
     where status = 'active'
       and target = :target
       and next_fire_at <= :now
       and {unleased}
       and unsettled <= :most
     order by next_fire_at
     limit :slots)
 where unsettled > 0
 order by unsettled, next_fire_at
 limit 1;

-- name: due
-- One writer at a time, so nothing to skip: the whole database is our lock. The index is named, because statistics that
-- the file's other users gather could talk the planner out of it. Suspects are passed over, but for the one, and where
-- `:in_group` for those that were not retried in a group yet. They are never many, and stand in front.
select json_group_array(rowid)
  from (
    select rowid
      from {t}alarms indexed by {p}alarms_due_idx
     where status = 'active'
       and target = :target
       and next_fire_at <= :due
       and {unleased}
       and (unsettled = 0 or rowid = :suspect or (:in_group and unsettled = 1 and next_fire_at <= :now))
     order by next_fire_at
     limit :slots);

-- name: in_turn
-- Some of a target's owners one after the other, from behind :after on, until as many have something due as there are
-- places (:share) or enough were looked at (:owners): the oldest of each, then the second oldest of each, and so on. No
-- suspects among them. Also told: the last owner looked at, nobody where the walk has come to the end.
with recursive walk (step, owner, due, served) as materialized (
    select 0,
           :after,
           '[]',
           0
     union all
    select walk.step + 1,
           next.owner_did,
           (select json_group_array(rowid)
              from (
                select rowid
                  from {t}alarms indexed by {p}alarms_turns_idx
                 where status = 'active'
                   and target = :target
                   and owner_did = next.owner_did
                   and next_fire_at <= :now
                   and {unleased}
                   and unsettled = 0
                 order by next_fire_at
                 limit :each)),
           walk.served + (walk.due <> '[]')
      from walk
      join {t}alarms as next on next.rowid = (
        select rowid
          from {t}alarms indexed by {p}alarms_turns_idx
         where status = 'active'
           and target = :target
           and owner_did > walk.owner
         order by owner_did
         limit 1)
     where walk.step < :owners
       and walk.served + (walk.due <> '[]') < :share)
select (select json_group_array(rowid)
          from (
            select one.value as rowid
              from walk
             cross join json_each(walk.due) as one
             order by one.key, walk.step
             limit :share)),
       iif(
        exists (
            select 1
              from {t}alarms indexed by {p}alarms_turns_idx
             where status = 'active'
               and target = :target
               and owner_did > last.owner),
        last.owner,
        '')
  from walk as last
 order by last.step desc
 limit 1;

-- name: claim
update {t}alarms
   set claimed_at = :now,
       claim = claim + 1,
       unsettled = min(unsettled + 1, max(unsettled, 3))
 where rowid in (select value from json_each(:rowids));

-- name: claimed
-- All of them as one text: a row at a time, the writer would hand the interpreter lock back and forth for each.
select json_group_array(
    json_object({alarm as json}))
  from {t}alarms
 where rowid in (select value from json_each(:rowids));

-- name: settle
-- Dispatch columns only: what an owner edited meanwhile is not overwritten.
with change (id, held_claim, held_version, {dispatch columns}) as (values {rows})
update {t}alarms as alarm
   set {dispatch columns from change}
  from change
 where alarm.id = change.id
   and alarm.claim = change.held_claim
   and alarm.version = change.held_version;

-- name: settle_at_once
-- First attempts that arrived (rules/settle.py): what `settle` would write of them, from a few columns.
with change (id, held_claim, held_version, status, next_fire_at, occurrence_at, ended) as (values {rows})
update {t}alarms as alarm
   set next_fire_at = coalesce(change.next_fire_at, alarm.next_fire_at),
       status = change.status,
       failure_count = 0,
       last_error = '',
       claimed_at = null,
       updated_at = change.ended,
       last_fired_at = change.ended,
       occurrence_at = coalesce(change.occurrence_at, alarm.occurrence_at),
       claim = alarm.claim + 1,
       unsettled = 0,
       awaiting = null,
       fire_count = alarm.fire_count + 1,
       failed_in_a_row = 0
  from change
 where alarm.id = change.id
   and alarm.claim = change.held_claim
   and alarm.version = change.held_version;

-- name: settle_edited
-- Everything but whose it is, its key, and when it was created.
with change (held_claim, held_version, {alarm columns}) as (values {rows})
update {t}alarms as alarm
   set {edited columns from change}
  from change
 where alarm.id = change.id
   and alarm.claim = change.held_claim
   and alarm.version = change.held_version;

-- name: held_claim
select claim
  from {t}alarms
 where id = ?1;

-- name: put_fires
insert into {t}fires ({fire columns})
values {rows}
    on conflict (alarm_id, scheduled_for) do update
   set {fire columns but alarm_id, scheduled_for from excluded};

-- part: not_reported_otherwise
-- Whether a settlement may replace the fire: it never changes a status that a report has set.
(known.status <> 'completed' or excluded.status = 'completed')
   and (known.reason <> 'reported' or excluded.status in ('failed', 'retrying'));

-- name: put_first_fires
-- The fires of first attempts that arrived: what `put_settled_fires` would write of them, from a few columns.
with first (alarm_id, scheduled_for, owner_did, target, status, started_at, ended, completed_at, ms, result, log)
  as (values {rows})
insert into {t}fires as known (alarm_id, scheduled_for, owner_did, target, status, attempts, started_at, delivered_at, completed_at,
                      duration_ms, result, log, updated_at)
select alarm_id, scheduled_for, owner_did, target, status, 1, started_at, ended, completed_at, ms, result, log, ended
  from first
 where true -- else `on` would be read as a join's
    on conflict (alarm_id, scheduled_for) do update
   set {fire columns but alarm_id, scheduled_for from excluded}
 where {not_reported_otherwise};

-- name: put_settled_fires
-- As `put_fires`, for the settlement of an attempt. A fire that is left as it is does not count as changed.
insert into {t}fires as known ({fire columns})
values {rows}
    on conflict (alarm_id, scheduled_for) do update
   set {fire columns but alarm_id, scheduled_for from excluded}
 where {not_reported_otherwise};

-- name: add_events
insert into {t}events ({event columns})
values {rows};

-- name: forget_former
-- All but the newest. It was written with the last change, so an older one is among the alarm's latest events.
delete
  from {t}events
 where seq in (
    select seq
      from (select seq, what
              from {t}events
             where alarm_id = :alarm_id
             order by seq desc
             limit 50)
     where what = 'former'
     order by seq desc
     limit -1 offset 1);

-- name: renew
update {t}alarms
   set claimed_at = :now
 where (id, claim) in (select value ->> 0, value ->> 1 from json_each(:claims))
   and status = 'active'
   and claimed_at is not null;

-- name: renewed
select json_group_array(json_array(id, claim))
  from {t}alarms
 where (id, claim) in (select value ->> 0, value ->> 1 from json_each(:claims))
   and status = 'active'
   and claimed_at = :now;

-- name: next_due
-- In order of the index. What is leased, or was and never settled, comes before it and is passed over: that is never much.
select next_fire_at
  from {t}alarms indexed by {p}alarms_due_idx
 where status = 'active'
   and target = :target
   and claimed_at is null
   and unsettled = 0
 order by next_fire_at
 limit 1;

-- part: served_targets
-- From target to target in the index of what is due.
served (target) as (
    select min(target)
      from {t}alarms indexed by {p}alarms_due_idx
     where status = 'active'
    union all
    select (select min(alarm.target)
              from {t}alarms as alarm indexed by {p}alarms_due_idx
             where alarm.status = 'active'
               and alarm.target > served.target)
      from served
     where served.target is not null);

-- name: get
select {alarm columns}
  from {t}alarms
 where id = :id
   and owner_did = :owner -- when owner
;

-- name: named
-- By keys; or by the beginning of an id, as a range of ids. Either is found by its index.
select {alarm columns}
  from {t}alarms
 where id between :low and :high
   and (:owner = '' or owner_did = :owner)
 union all
select {alarm columns}
  from {t}alarms
 where owner_did = :owner
   and idempotency_key in (select value from json_each(:keys))
   and idempotency_key <> ''
 limit :limit;

-- name: listening
-- Each half by its index, which is named for the same reason as in `due`; its conditions stand here as they do there.
select {alarm columns}
  from {t}alarms indexed by {p}alarms_unless_idx
 where owner_did = :owner
   and case when json_valid(policy) then json_extract(policy, '$.unless') end = :signal
   and case when json_valid(policy) then json_extract(policy, '$.unless') end is not null
   and status = 'active'
   and id > :after
 union all
select {alarm columns}
  from {t}alarms indexed by {p}alarms_or_when_idx
 where owner_did = :owner
   and case when json_valid(policy) then json_extract(policy, '$.or_when') end = :signal
   and case when json_valid(policy) then json_extract(policy, '$.or_when') end is not null
   and status = 'active'
   and id > :after
 order by id
 limit :limit;

-- part: asked_alarms
 where true
   and owner_did = :owner -- when owner
   and status = 'paused' -- when by_paused
   and status = 'cancelled' -- when by_cancelled
   and status in (select value from json_each(:statuses)) -- when statuses
   and kind = :kind -- when kind
   and target = :target -- when target
   and label = :label -- when label
   and conversation_id = :conversation_id -- when conversation_id
   and idempotency_key = :key and idempotency_key <> '' -- when key
   and root_id = :root_id and root_id <> '' -- when root_id
   and created_at >= :since -- when since
   and created_at < :until -- when until
   and (created_at, id) < (:cursor, :cursor_id) -- when cursor
   and (created_at, id) >= (:end, :end_id) -- when end
   and id < :before_id -- when before_id
   and id >= :last_id -- when last_id
 order by
       created_at desc, -- when owner
       id desc
 limit :limit;

-- part: alarms_by_index
-- The one that store/filters.py chose: statistics that the file's other users gather could talk the planner out of it.
-- All owners' alarms are in the order of their ids, which the primary key has: no create pays for another index.
indexed by {p}alarms_owner_idx -- when by_owner
       indexed by {p}alarms_paused_idx -- when by_paused
       indexed by {p}alarms_cancelled_idx -- when by_cancelled
       indexed by {p}alarms_root_idx -- when by_root
       indexed by {p}alarms_idempotency_idx -- when by_key
;

-- name: find
select {alarm columns}
  from {t}alarms
       {alarms_by_index}
{asked_alarms};

-- name: find_end
-- The last alarm that is looked at where no more than so many are, and one behind it if there is one.
select created_at, id
  from {t}alarms
       {alarms_by_index}
 where true
   and owner_did = :owner -- when owner
   and status = 'paused' -- when by_paused
   and status = 'cancelled' -- when by_cancelled
   and created_at >= :since -- when since
   and created_at < :until -- when until
   and (created_at, id) < (:cursor, :cursor_id) -- when cursor
   and id < :before_id -- when before_id
 order by
       created_at desc, -- when owner
       id desc
 limit 2 offset :look_at - 1;

-- name: count_alarms
select count(*)
  from (select 1
          from {t}alarms
               {alarms_by_index}
{asked_alarms});

-- name: similar
select {alarm columns}
  from (select {alarm columns}
          from {t}alarms
         where owner_did = :owner
         order by created_at desc, id desc
         limit :among)
 where status = 'active'
   and id <> :id
   and target = :target
   and kind = :kind
   and fire_at is :fire_at
   and (kind = 'once' or cron_expr = :cron_expr)
   and timezone = :timezone
   and wake_message = :wake_message
   and conversation_id = :conversation_id
   and payload = :payload
   and coalesce(policy, '') = :policy
 order by created_at desc, id desc
 limit 1;

-- part: asked_fires
 where true
   and fire.owner_did = :owner -- when owner
   and fire.alarm_id = :alarm_id -- when alarm_id
   {fires_of_index}
   and fire.status in (select value from json_each(:statuses)) -- when statuses
   and fire.target = :target -- when target
   and fire.scheduled_for >= :since -- when since
   and fire.scheduled_for < :until -- when until
   and (fire.scheduled_for, fire.alarm_id) < (:cursor, :cursor_id) -- when cursor
   and (fire.scheduled_for, fire.alarm_id) >= (:end, :end_id) -- when end
 order by fire.scheduled_for desc, fire.alarm_id desc
 limit :limit;

-- part: fires_by_index
indexed by {p}fires_owner_idx -- when by_owner
       indexed by {p}fires_scheduled_idx -- when by_scheduled
       indexed by {p}fires_waiting_idx -- when by_waiting
       indexed by {p}fires_retrying_idx -- when by_retrying
       indexed by {p}fires_failed_idx -- when by_failed
       indexed by {p}fires_passed_idx -- when by_passed
;

-- part: fires_of_index
and fire.count > -1 -- when by_scheduled
   and fire.status = 'waiting' -- when by_waiting
   and fire.status = 'retrying' -- when by_retrying
   and fire.status in ('failed', 'timed_out') -- when by_failed
   and fire.status in ('skipped', 'snoozed') -- when by_passed
;

-- name: fires
select {fire columns of fire}
  from {t}fires as fire
       {fires_by_index}
{asked_fires};

-- name: fires_end
-- As `find_end`.
select fire.scheduled_for, fire.alarm_id
  from {t}fires as fire
       {fires_by_index}
 where true
   and fire.owner_did = :owner -- when owner
   {fires_of_index}
   and fire.scheduled_for >= :since -- when since
   and fire.scheduled_for < :until -- when until
   and (fire.scheduled_for, fire.alarm_id) < (:cursor, :cursor_id) -- when cursor
 order by fire.scheduled_for desc, fire.alarm_id desc
 limit 2 offset :look_at - 1;

-- name: described_fires
select alarm.label, alarm.wake_message, alarm.max_failures, alarm.created_by, alarm.created_via,
       case when json_valid(alarm.policy) then json_extract(alarm.policy, '$.manual_of') end, {fire columns of fire}
  from {t}fires as fire
       {fires_by_index}
  left join {t}alarms as alarm on alarm.id = fire.alarm_id
{asked_fires};

-- name: count_fires
select count(*)
  from (select 1
          from {t}fires as fire
               {fires_by_index}
{asked_fires});

-- name: fire_at
-- One by one by primary key, whatever the planner believes.
select {fire columns of fire}
  from json_each(:keys) as wanted
 cross join {t}fires as fire on fire.alarm_id = wanted.value ->> 0
   and fire.scheduled_for = wanted.value ->> 1;

-- name: overdue
select {fire columns of fire}, {alarm columns of alarm}
  from {t}fires as fire indexed by {p}fires_report_idx
  join {t}alarms as alarm on alarm.id = fire.alarm_id
 where fire.report_by is not null
   and fire.report_by <= :now
   and fire.status <> 'retrying'
 order by fire.report_by, fire.alarm_id, fire.scheduled_for
 limit :limit;

-- name: waiting
select {fire columns of fire}, {alarm columns of alarm}
  from {t}fires as fire indexed by {p}fires_waiting_idx
  join {t}alarms as alarm on alarm.id = fire.alarm_id
 where fire.status = 'waiting'
   and fire.owner_did = :owner
   and fire.target = :target
   and alarm.conversation_id = :conversation_id -- when conversation_id
 order by fire.scheduled_for, fire.alarm_id
 limit :limit;

-- name: agenda
-- From target to target in the index, and no row is read that is not told. Where the last ones are due at the same
-- moment as others that no longer fit, which of them it is does not matter.
with recursive {served_targets},
    soonest (place) as materialized (
    select alarm.rowid
      from served
     cross join {t}alarms as alarm
           indexed by {p}alarms_turns_idx -- when owner
           indexed by {p}alarms_due_idx -- when everyone
     where alarm.status = 'active'
       and alarm.target = served.target
       and alarm.owner_did = :owner -- when owner
       and alarm.next_fire_at < :until
     order by alarm.next_fire_at
     limit :limit)
select {alarm columns of alarm}
  from soonest
 cross join {t}alarms as alarm on alarm.rowid = soonest.place
 order by alarm.next_fire_at, alarm.id;

-- name: alarms_upto
-- The last of so many alarms behind one; nothing where there are fewer.
select id
  from {t}alarms
 where id > :after
 order by id
 limit 1 offset :scan_limit - 1;

-- name: alarms_in_zones
-- A zone can also be named in the expression itself.
select {alarm columns}
  from {t}alarms
 where id > :after
   and id <= :upto -- when upto
   and status in ('active', 'paused')
   and (timezone in (select value from json_each(:names)) or instr(cron_expr, 'TZ') > 0)
 order by id;

-- name: stats
-- Alarms are counted up to a bound in each of their states, by the index that has them; fires among the latest so many.
with recursive {served_targets},
    own_fires as materialized (
        select status, count, duration_ms
          from {t}fires
               indexed by {p}fires_owner_idx -- when owner
               indexed by {p}fires_scheduled_idx -- when everyone
         where true
           and owner_did = :owner -- when owner
           and count > -1 -- when everyone
         order by scheduled_for desc, alarm_id desc
         limit :most)
select (select count(*)
          from (select 1
                  from {t}alarms
                       indexed by {p}alarms_owner_idx -- when owner
                 where true
                   and owner_did = :owner -- when owner
                 limit :most)) as total,
       (select count(*)
          from (select 1
                  from served
                 cross join {t}alarms as alarm
                       indexed by {p}alarms_turns_idx -- when owner
                       indexed by {p}alarms_due_idx -- when everyone
                 where alarm.status = 'active'
                   and alarm.target = served.target
                   and alarm.owner_did = :owner -- when owner
                 limit :most)) as pending,
       (select count(*)
          from (select 1
                  from {t}alarms indexed by {p}alarms_paused_idx
                 where status = 'paused'
                   and owner_did = :owner -- when owner
                 limit :most)) as paused,
       (select count(*)
          from (select 1
                  from {t}alarms indexed by {p}alarms_cancelled_idx
                 where status = 'cancelled'
                   and owner_did = :owner -- when owner
                 limit :most)) as cancelled,
       count(*) filter (where status in ('delivered', 'waiting')) as fired,
       count(*) filter (where status = 'completed') as completed,
       count(*) filter (where status = 'failed') as failed,
       count(*) filter (where status = 'timed_out') as timeout_unknown,
       coalesce(sum(count) filter (where status = 'skipped'), 0) as skipped,
       cast(round(avg(duration_ms) filter (where status = 'completed')) as integer) as avg_duration_ms,
       count(*) as fires
  from own_fires;

-- name: usage
-- The length of a text stands at the head of its row: long ones are not read for this.
select count(*) filter (where status in ('active', 'paused')),
       coalesce(sum(octet_length(wake_message) + octet_length(payload)), 0)
  from {t}alarms indexed by {p}alarms_owner_idx
 where owner_did = :owner
   and (created_at, id) < (:cursor, :cursor_id) -- when cursor
   and (created_at, id) >= (:end, :end_id) -- when end
;

-- name: events
select seq, {event columns}
  from {t}events
 where seq > :after
   and what <> 'former'
   and owner_did = :owner -- when owner
   and alarm_id = :alarm_id -- when alarm_id
 order by seq
 limit :limit;

-- name: events_by
select seq, {event columns}
  from {t}events indexed by {p}events_at_idx
 where at >= :since
   and by = :by
   and what = :what
 order by at, seq
 limit :limit;

-- name: latest_events
-- Of one alarm, newest first, also what it was before a change.
select seq, {event columns}
  from {t}events
 where alarm_id = :alarm_id
   and what = :what -- when what
 order by seq desc
 limit :limit;

-- name: last_event
select coalesce(max(seq), 0)
  from {t}events;

-- name: new_alarms
-- An id begins with the millisecond it was made in: the primary key finds them, and a create pays for no index. The upper
-- end leaves out ids of another kind, which imported alarms have.
select id, owner_did, target, status, created_at
  from {t}alarms
 where id >= :first_id
   and id < :last_id
   and created_at >= :since
   and owner_did = :owner -- when owner
 order by id
 limit :limit;

-- name: changed_fires
-- As much as is told: what a fire answered, and its log, may be long.
select alarm_id, scheduled_for, owner_did, target, status,
       substr(coalesce(nullif(reason, ''), last_error), 1, 500) as reason,
       attempts, delivered_at, count, updated_at
  from {t}fires indexed by {p}fires_updated_idx
 where updated_at >= :since
   and owner_did = :owner -- when owner
 order by updated_at
 limit :limit;
