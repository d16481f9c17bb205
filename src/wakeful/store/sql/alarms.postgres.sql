-- The statements of alarms and fires in PostgreSQL, by name. alarms.sqlite.sql has the same names and order; what is in pieces
-- because SQLite has no arrays and only one writer is here a single statement and a single round trip.
--
-- Rows come as one array per column, so a batch of any size is the same statement. `moment` stands first in every write:
-- it tells the time (the database's own, where none is handed in) and settles for this one transaction how long to wait
-- for a lock, and that the commit is on disk before it is answered, whatever the server or the role is set to. No session
-- keeps any of it: that is what makes each statement work behind pgbouncer.
-- {… columns}, {… arrays}, {… values}: the columns of a table or some of them, as store/columns.py has them. A `part`
-- stands where its name does.

-- part: unleased
-- Nobody has it: it was never leased, the lease has ended, or it is from a clock that was set back since.
(claimed_at is null
  or claimed_at <= (select now from moment) - $2::interval
  or claimed_at > (select now from moment) + $2::interval);

-- part: in_group
-- A suspect that is due and was not retried in a group yet, where such are claimed now.
(unsettled = 1 and next_fire_at <= (select now from moment) and (select in_group from suspect));

-- part: noted
-- What a claim has leased, under the caller's token, for a caller who never hears the answer.
noted as (
    insert into {t}claim_tokens (claimer, token, at, alarm_ids, numbers)
    select $6::uuid,
           $7::uuid,
           (select now from moment),
           array_agg(id),
           array_agg(claim)
      from leased
    having count(*) > 0
        on conflict (claimer) do update
       set token = excluded.token,
           at = excluded.at,
           alarm_ids = excluded.alarm_ids,
           numbers = excluded.numbers);

-- name: add
-- Either unique index may be the one that says no: the id (a repeated call) or the owner's key. What all alarms of a
-- batch have alike comes once, in $4. The answer is one row; it names alarms only where some were not added.
with moment as materialized (
    select coalesce($1::timestamptz, date_trunc('milliseconds', clock_timestamp())) as now,
           set_config('lock_timeout', $2, true),
           set_config('synchronous_commit', 'on', true)),
added as (
    insert into {t}alarms ({alarm columns})
    select {alarm unfolded of sent from $5}
      from moment
     cross join json_to_record($4::json) as alike ({alarm definitions})
     cross join rows from ({alarm lists from $5}) as sent ({alarm columns})
        on conflict do nothing
    returning id,
              status = 'active' and next_fire_at <= (select now from moment) + $3::interval as soon)
select coalesce(bool_or(soon), false) as soon,
       case when count(*) < json_array_length($5::json) then coalesce(array_agg(id), '{}') end as ids
  from added;

-- name: same_key
select {alarm columns of alarm}
  from unnest($1::text[], $2::text[]) as wanted (owner_did, idempotency_key)
  join {t}alarms as alarm on alarm.owner_did = wanted.owner_did
   and alarm.idempotency_key = wanted.idempotency_key
   and alarm.idempotency_key <> ''; -- says so that the partial index can be used

-- name: same_id
select {alarm columns}
  from {t}alarms
 where id = any($1::uuid[]);

-- name: claim
-- Rows another worker is claiming right now are skipped, not waited for. Each target is looked up on its own in the due
-- index: a backlog on one is never read for another. The moment comes back even when nothing is due. A claim need not
-- survive a crash of the server, so it does not wait for the disk: the alarm is then due still, and is claimed again.
-- `suspect`: the alarm that was claimed before and never settled with the least against it. If it was not retried in a
-- group yet (`in_group`), all such count as any others. Other suspects are passed over; they are never many, and stand
-- in front: of those only the first that are due are looked at.
with moment as materialized (
    select coalesce($1::timestamptz, date_trunc('milliseconds', clock_timestamp())) as now,
           set_config('synchronous_commit', 'off', true)),
slot as materialized (
    select target,
           free,
           early
      from unnest($3::text[], $4::integer[], $8::interval[]) as slot (target, free, early)),
suspect as materialized (
    select due.id,
           due.unsettled = 1 as in_group,
           due.claimed_at > (select now from moment) as is_ahead
      from slot
     cross join lateral (
        (select id,
                unsettled,
                next_fire_at,
                claimed_at
           from {t}alarms
          where status = 'active'
            and target = slot.target
            and next_fire_at <= (select now from moment)
            and {unleased}
            and unsettled <= 1
          order by next_fire_at
          limit slot.free)
         union all
        (select id,
                unsettled,
                next_fire_at,
                claimed_at
           from {t}alarms
          where status = 'active'
            and target = slot.target
            and next_fire_at <= (select now from moment)
            and {unleased}
          order by next_fire_at
          limit slot.free)) as due
     where $5::boolean
       and due.unsettled > 0
     order by due.unsettled, due.next_fire_at
     limit 1),
leased as (
    update {t}alarms
       set claimed_at = (select now from moment),
           claim = claim + 1,
           unsettled = least(unsettled + 1, greatest(unsettled, 3))
     where id = any(array( -- an array, not a join: always looked up by primary key, whatever the planner believes
        select due.id
          from slot
         cross join lateral (
            select id
              from {t}alarms
             where status = 'active'
               and target = slot.target
               and next_fire_at <= (select now from moment) + slot.early
               and {unleased}
               and (unsettled = 0 or id = (select id from suspect) or {in_group})
             order by next_fire_at
             limit slot.free
               for update skip locked) as due))
    returning {alarm columns}),
{noted}
select moment.now,
       coalesce((select is_ahead from suspect), false),
       {alarm columns of leased}
  from moment
  left join leased on true
 order by leased.next_fire_at, leased.id;

-- name: claim_in_turn
-- As `claim`, where some targets' owners are taken in turn. `walk`: such a target's owners one after the other, from
-- behind `after` on, until as many have something due as there are places (`share`) or enough were looked at ($12), each
-- with its oldest. `stood`: the last one looked at, nobody where the walk has come to the end. `in_front`: the suspect,
-- and the oldest of each owner, then the second oldest of each, and so on; the rest is claimed in the order it is due.
with recursive moment as materialized (
    select coalesce($1::timestamptz, date_trunc('milliseconds', clock_timestamp())) as now,
           set_config('synchronous_commit', 'off', true)),
slot as materialized (
    select target,
           free,
           early,
           share,
           each,
           after
      from unnest($3::text[], $4::integer[], $8::interval[], $9::integer[], $10::integer[], $11::text[])
        as slot (target, free, early, share, each, after)),
suspect as materialized (
    select due.id,
           slot.target,
           due.unsettled = 1 as in_group,
           due.claimed_at > (select now from moment) as is_ahead
      from slot
     cross join lateral (
        (select id,
                unsettled,
                next_fire_at,
                claimed_at
           from {t}alarms
          where status = 'active'
            and target = slot.target
            and next_fire_at <= (select now from moment)
            and {unleased}
            and unsettled <= 1
          order by next_fire_at
          limit slot.free)
         union all
        (select id,
                unsettled,
                next_fire_at,
                claimed_at
           from {t}alarms
          where status = 'active'
            and target = slot.target
            and next_fire_at <= (select now from moment)
            and {unleased}
          order by next_fire_at
          limit slot.free)) as due
     where $5::boolean
       and due.unsettled > 0
     order by due.unsettled, due.next_fire_at
     limit 1),
walk (target, share, each, step, owner, due, served) as (
    select target,
           share,
           each,
           0,
           after,
           array[]::uuid[],
           0
      from slot
     where share > 0
     union all
    select walk.target,
           walk.share,
           walk.each,
           walk.step + 1,
           next.owner_did,
           array(
            select id
              from {t}alarms
             where status = 'active'
               and target = walk.target
               and owner_did = next.owner_did
               and next_fire_at <= (select now from moment)
               and {unleased}
               and unsettled = 0
             order by next_fire_at
             limit walk.each),
           walk.served + (cardinality(walk.due) > 0)::integer
      from walk
     cross join lateral (
        select owner_did
          from {t}alarms
         where status = 'active'
           and target = walk.target
           and owner_did > walk.owner
         order by owner_did
         limit 1) as next
     where walk.step < $12::integer
       and walk.served + (cardinality(walk.due) > 0)::integer < walk.share),
stood as materialized (
    select last.target,
           case when next.owner_did is null then '' else last.owner end as owner
      from (
        select distinct on (target)
               target,
               owner
          from walk
         order by target, step desc) as last
      left join lateral (
        select owner_did
          from {t}alarms
         where status = 'active'
           and target = last.target
           and owner_did > last.owner
         order by owner_did -- an `exists` would be looked for in the whole table
         limit 1) as next on true),
in_turn as (
    select walk.target,
           one.id,
           row_number() over (partition by walk.target order by one.nr, walk.step) as place
      from walk
     cross join unnest(walk.due) with ordinality as one (id, nr)),
in_front as materialized (
    select alarm.id,
           alarm.target
      from (
        select id
          from suspect
         union all
        select in_turn.id
          from slot
          join in_turn using (target)
         where in_turn.place <= least(
            slot.share,
            slot.free - (select count(*) from suspect where suspect.target = slot.target))) as wanted
     cross join lateral ( -- one by one: always looked up by primary key, whatever the planner believes
        select id,
               target
          from {t}alarms
         where id = wanted.id
           and status = 'active'
           and next_fire_at <= (select now from moment)
           and {unleased}
           and (unsettled = 0 or id = (select id from suspect))
         limit 1
           for update skip locked) as alarm),
leased as (
    update {t}alarms
       set claimed_at = (select now from moment),
           claim = claim + 1,
           unsettled = least(unsettled + 1, greatest(unsettled, 3))
     where id = any(array( -- an array, not a join: always looked up by primary key, whatever the planner believes
        select id
          from in_front
         union all
        select due.id
          from slot
         cross join lateral (
            select id
              from {t}alarms
             where status = 'active'
               and target = slot.target
               and next_fire_at <= (select now from moment) + slot.early
               and {unleased}
               and (unsettled = 0 or {in_group})
               and id <> all(array(select id from in_front))
             order by next_fire_at
             limit slot.free - (select count(*) from in_front where in_front.target = slot.target)
               for update skip locked) as due))
    returning {alarm columns}),
{noted}
select moment.now,
       coalesce((select is_ahead from suspect), false),
       case row_number() over in_order when 1 then array(select target from stood order by target) end, -- said once
       case row_number() over in_order when 1 then array(select owner from stood order by target) end,
       {alarm columns of leased}
  from moment
  left join leased on true
window in_order as (order by leased.next_fire_at, leased.id)
 order by leased.next_fire_at, leased.id;

-- name: claimed_unheard
-- What was leased under tokens whose answers never came, as far as nobody has taken it since.
select coalesce($1::timestamptz, date_trunc('milliseconds', clock_timestamp())),
       noted.token,
       {alarm columns of alarm}
  from {t}claim_tokens as noted
 cross join lateral unnest(noted.alarm_ids, noted.numbers) as mine (id, claim)
  join {t}alarms as alarm on alarm.id = mine.id
   and alarm.claim = mine.claim
   and alarm.claimed_at is not null
   and alarm.status = 'active'
 where (noted.claimer, noted.token) in (
    select asked.claimer, asked.token from unnest($2::uuid[], $3::uuid[]) as asked (claimer, token))
 order by alarm.next_fire_at, alarm.id;

-- name: settle
-- Dispatch columns only: what an owner edited meanwhile is not overwritten. Fires and events of a change are written only
-- where the change was, and the settlement of an attempt (it has a `settled_for`) never replaces a status that a report has
-- set. A reader follows events by seq, so whoever writes some takes turns until commit: otherwise a lower
-- seq could appear after a higher one was read, and be missed.
with moment as materialized (
    select coalesce($1::timestamptz, date_trunc('milliseconds', clock_timestamp())) as now,
           set_config('lock_timeout', $2, true),
           set_config('synchronous_commit', 'on', true)),
applied as (
    update {t}alarms as alarm
       set {dispatch columns from change}
      from moment
     cross join unnest(
            $4::uuid[], $5::integer[], $6::integer[], $8::timestamptz[], $9::text[], {dispatch arrays from $10})
        as change (id, held_claim, held_version, settled_for, fire_status, {dispatch columns})
     where alarm.id = change.id
       and alarm.claim = change.held_claim
       and alarm.version = change.held_version
       and (
        select (known.status = 'completed' and change.fire_status <> 'completed')
            or (known.reason = 'reported' and change.fire_status not in ('failed', 'retrying'))
          from {t}fires as known
         where known.alarm_id = change.id
           and known.scheduled_for = change.settled_for) is not true
    returning alarm.id,
              alarm.status = 'active' and alarm.next_fire_at <= moment.now + $3::interval as soon),
put_fires as (
    insert into {t}fires ({fire columns})
    select {fire columns of fire}
      from unnest({fire arrays}) as fire ({fire columns})
      join applied on applied.id = fire.alarm_id
        on conflict (alarm_id, scheduled_for) do update
       set {fire columns but alarm_id, scheduled_for from excluded}),
turn as materialized (
    select pg_advisory_xact_lock(hashtextextended('{t}events', 0))
     where cardinality($7::uuid[]) > 0),
add_events as (
    insert into {t}events ({event columns})
    select {event columns of event}
      from turn
     cross join unnest($7::uuid[], {event arrays}) with ordinality as event (change_id, {event columns}, nr)
      join applied on applied.id = event.change_id
     order by event.nr)
select id,
       soon
  from applied;

-- name: settle_at_once
-- First attempts that arrived (rules/settle.py): what `settle` would write of them, from a few columns, of which those
-- that are alike in a batch come once. A one-shot stays at its moment, so it names none. Nothing is on record of such a
-- fire unless a clock was set back. The answer is one row; it names alarms only where some were not ours any more.
with moment as materialized (
    select coalesce($1::timestamptz, date_trunc('milliseconds', clock_timestamp())) as now,
           set_config('lock_timeout', $2, true),
           set_config('synchronous_commit', 'on', true)),
change ({first_try columns}) as (
    select {first_try unfolded of sent from $5}
      from json_to_record($4::json) as alike ({first_try definitions})
     cross join rows from ({first_try lists from $5}) as sent ({first_try columns})),
applied as (
    update {t}alarms as alarm
       set next_fire_at = coalesce(change.next_fire_at, alarm.next_fire_at),
           status = change.status,
           failure_count = 0,
           last_error = '',
           claimed_at = null,
           updated_at = change.started_at + change.ms * interval '1 ms',
           last_fired_at = change.started_at + change.ms * interval '1 ms',
           occurrence_at = coalesce(change.occurrence_at, alarm.occurrence_at),
           claim = alarm.claim + 1,
           unsettled = 0,
           awaiting = null,
           fire_count = alarm.fire_count + 1,
           failed_in_a_row = 0
      from moment
     cross join change
     where alarm.id = change.id
       and alarm.claim = change.held_claim
       and alarm.version = change.held_version
       and (
        select known.status = 'completed' or known.reason = 'reported'
          from {t}fires as known
         where known.alarm_id = change.id
           and known.scheduled_for = coalesce(change.scheduled_for, alarm.occurrence_at)) is not true
    returning alarm.id,
              alarm.owner_did,
              alarm.target,
              coalesce(change.scheduled_for, alarm.occurrence_at) as scheduled_for,
              change.started_at,
              alarm.updated_at as ended,
              change.completed,
              change.ms,
              change.result,
              change.log,
              alarm.status = 'active' and alarm.next_fire_at <= moment.now + $3::interval as soon),
put_fires as (
    insert into {t}fires (alarm_id, scheduled_for, owner_did, target, status, attempts, started_at, delivered_at,
                          completed_at, duration_ms, result, log, updated_at)
    select id, scheduled_for, owner_did, target, case when completed then 'completed' else 'delivered' end,
           1, started_at, ended, case when completed then ended end,
           case when completed then greatest(ms, 0) end, result, log, ended
      from applied
        on conflict (alarm_id, scheduled_for) do update
       set {fire columns but alarm_id, scheduled_for from excluded})
select coalesce(bool_or(soon), false) as soon,
       case when count(*) < json_array_length($5::json) then coalesce(array_agg(id), '{}') end as ids
  from applied;

-- name: settle_edited
-- The owner's own columns, just before `settle` writes the others: everything but whose it is, its
-- key, and when it was created.
with moment as materialized (
    select set_config('lock_timeout', $1, true),
           set_config('synchronous_commit', 'on', true))
update {t}alarms as alarm
   set {intent columns from change}
  from moment
 cross join unnest($2::uuid[], $3::integer[], $4::integer[], {intent arrays from $5})
    as change (id, held_claim, held_version, {intent columns})
 where alarm.id = change.id
   and alarm.claim = change.held_claim
   and alarm.version = change.held_version;

-- name: held_claim
select id,
       claim,
       version,
       updated_at
  from {t}alarms
 where id = any($1::uuid[]);

-- name: forget_former
-- All but the newest. It was written with the last change, so an older one is among the alarm's latest events.
delete
  from {t}events
 where seq in (
    select old.seq
      from unnest($1::text[]) as changed (id)
     cross join lateral (
        select latest.seq
          from (select seq, what
                  from {t}events
                 where alarm_id = changed.id
                 order by seq desc
                 limit 50) as latest
         where latest.what = 'former'
         order by latest.seq desc
        offset 1) as old);

-- name: renew
-- A row that somebody holds just now is being settled or edited: it is passed over, not waited for, so that one locked row
-- cannot let all the other leases run out. It is not lost; the next renewal tells.
with moment as materialized (
    select coalesce($1::timestamptz, date_trunc('milliseconds', clock_timestamp())) as now,
           set_config('synchronous_commit', 'on', true)),
held as materialized (
    select alarm.id
      from unnest($2::uuid[], $3::integer[]) as mine (id, claim)
      join {t}alarms as alarm on alarm.id = mine.id
       and alarm.claim = mine.claim
       and alarm.status = 'active'
       and alarm.claimed_at is not null
     order by alarm.id
       for update of alarm skip locked),
renewed as (
    update {t}alarms
       set claimed_at = (select now from moment)
     where id = any(array(select id from held)))
select mine.id,
       mine.claim
  from unnest($2::uuid[], $3::integer[]) as mine (id, claim)
 where not exists (
    select
      from {t}alarms as alarm
     where alarm.id = mine.id
       and alarm.claim = mine.claim
       and alarm.status = 'active'
       and alarm.claimed_at is not null);

-- name: next_due
-- In order of the index. What is leased, or was and never settled, comes before it and is passed over: that is never much.
select min(free.next_fire_at)
  from unnest($1::text[]) as wanted (target)
 cross join lateral (
    select next_fire_at
      from {t}alarms
     where status = 'active'
       and target = wanted.target
       and claimed_at is null
       and unsettled = 0
     order by next_fire_at
     limit 1) as free;

-- part: served_targets
-- From target to target in the index of what is due.
served (target) as (
    (select target
       from {t}alarms
      where status = 'active'
      order by target
      limit 1)
    union all
    select (select alarm.target
              from {t}alarms as alarm
             where alarm.status = 'active'
               and alarm.target > served.target
             order by alarm.target
             limit 1)
      from served
     where served.target is not null);

-- name: get
select {alarm columns}
  from {t}alarms
 where id = $1::uuid
   and ($2::text = '' or owner_did = $2);

-- name: named
-- By keys; or by the beginning of an id, as a range of ids. Either is found by its index.
select {alarm columns}
  from {t}alarms
 where id between $3::uuid and $4::uuid
   and ($1::text = '' or owner_did = $1)
 union all
select {alarm columns}
  from {t}alarms
 where owner_did = $1
   and idempotency_key = any($2::text[])
   and idempotency_key <> ''
 limit $5;

-- name: listening
-- Each half by its index.
select {alarm columns}
  from (
    select {alarm columns}
      from {t}alarms
     where owner_did = $1
       and policy ->> 'unless' = $2
       and policy ->> 'unless' is not null
       and status = 'active'
       and id > $3::uuid
     union all
    select {alarm columns}
      from {t}alarms
     where owner_did = $1
       and policy ->> 'or_when' = $2
       and policy ->> 'or_when' is not null
       and status = 'active'
       and id > $3::uuid) as alarms
 order by id
 limit $4;

-- part: asked_alarms
-- Every plan is made for its own values (see the connection's settings): a filter that is empty costs nothing. All
-- owners' alarms are in the order of their ids, which the primary key has: no create pays for another index.
 where ($1::text = '' or owner_did = $1)
   and (cardinality($2::text[]) = 0 or status = any($2))
   and ($3::text = '' or kind = $3)
   and ($4::text = '' or target = $4)
   and ($5::text = '' or label = $5)
   and ($6::text = '' or conversation_id = $6)
   and ($7::text = '' or (root_id = $7 and root_id <> ''))
   and ($8::timestamptz is null or created_at >= $8)
   and ($9::timestamptz is null or created_at < $9)
   and ($1 = '' or $10::timestamptz is null or (created_at, id) < ($10, $11::uuid))
   and ($1 = '' or $12::timestamptz is null or (created_at, id) >= ($12, $13::uuid))
   and ($1 <> '' or $11::uuid is null or id < $11)
   and ($1 <> '' or $13::uuid is null or id >= $13)
   and ($14::text = '' or (idempotency_key = $14 and idempotency_key <> ''))
 order by case when $1 <> '' then created_at end desc, id desc
 limit $15;

-- name: find
select {alarm columns}
  from {t}alarms
{asked_alarms};

-- name: find_end
-- The last alarm that is looked at where no more than so many are, and one behind it if there is one.
select created_at, id
  from {t}alarms
 where ($1::text = '' or owner_did = $1)
   and (cardinality($2::text[]) = 0 or status = any($2))
   and ($1 = '' or $3::timestamptz is null or created_at >= $3) -- moments, and for all owners ids are the order
   and ($1 = '' or $4::timestamptz is null or created_at < $4)
   and ($1 = '' or $5::timestamptz is null or (created_at, id) < ($5, $6::uuid))
   and ($1 <> '' or $6::uuid is null or id < $6)
 order by case when $1 <> '' then created_at end desc, id desc
 limit 2 offset $7::integer - 1;

-- name: count_alarms
select count(*)
  from (select 1
          from {t}alarms
{asked_alarms}) as found;

-- name: similar
select {alarm columns}
  from (select {alarm columns}
          from {t}alarms
         where owner_did = $1
         order by created_at desc, id desc
         limit $2) as latest
 where status = 'active'
   and id <> $3::uuid
   and target = $4
   and kind = $5
   and fire_at is not distinct from $6::timestamptz
   and (kind = 'once' or cron_expr = $7)
   and timezone = $8
   and wake_message = $9
   and conversation_id = $10
   and payload::text = $11
   and coalesce(policy::text, '') = $12
 order by created_at desc, id desc
 limit 1;

-- part: asked_fires
 where ($1::text = '' or fire.owner_did = $1)
   and ($1 <> '' or $2::uuid is not null or fire.count > -1) -- all owners' fires: see migration 0012
   and ($2::uuid is null or fire.alarm_id = $2)
   and (cardinality($3::text[]) = 0 or fire.status = any($3))
   and ($4::text = '' or fire.target = $4)
   and ($5::timestamptz is null or fire.scheduled_for >= $5)
   and ($6::timestamptz is null or fire.scheduled_for < $6)
   and ($7::timestamptz is null or (fire.scheduled_for, fire.alarm_id) < ($7, $8::uuid))
   and ($9::timestamptz is null or (fire.scheduled_for, fire.alarm_id) >= ($9, $10::uuid))
 order by fire.scheduled_for desc, fire.alarm_id desc
 limit $11;

-- name: fires
select {fire columns of fire}
  from {t}fires as fire
{asked_fires};

-- name: fires_end
-- As `find_end`.
select scheduled_for, alarm_id
  from {t}fires
 where ($1::text = '' or owner_did = $1)
   and ($1 <> '' or count > -1)
   and (cardinality($2::text[]) = 0 or status = any($2))
   and ($3::timestamptz is null or scheduled_for >= $3)
   and ($4::timestamptz is null or scheduled_for < $4)
   and ($5::timestamptz is null or (scheduled_for, alarm_id) < ($5, $6::uuid))
 order by scheduled_for desc, alarm_id desc
 limit 2 offset $7::integer - 1;

-- name: described_fires
-- `offset 0`: each alarm is looked up by its primary key, for the fires of the page only, whatever the planner believes.
select alarm.label, alarm.wake_message, alarm.max_failures, alarm.created_by, alarm.created_via, alarm.manual_of,
       {fire columns of fire}
  from {t}fires as fire
  left join lateral (
        select label, wake_message, max_failures, created_by, created_via, policy ->> 'manual_of' as manual_of
          from {t}alarms
         where id = fire.alarm_id
        offset 0) as alarm on true
{asked_fires};

-- name: count_fires
select count(*)
  from (select 1
          from {t}fires as fire
{asked_fires}) as found;

-- name: fire_at
-- One by one by primary key, whatever the planner believes.
select {fire columns of fire}
  from unnest($1::uuid[], $2::timestamptz[]) as wanted (alarm_id, scheduled_for)
 cross join lateral (
    select {fire columns}
      from {t}fires
     where alarm_id = wanted.alarm_id
       and scheduled_for = wanted.scheduled_for
    offset 0) as fire;

-- name: overdue
-- A fire and its alarm in one statement: read one after the other, an old fire could meet a newer alarm, whose version
-- then lets a change through that was decided on the old one.
select {fire columns of fire},
       {alarm columns of alarm}
  from {t}fires as fire
  join {t}alarms as alarm on alarm.id = fire.alarm_id
 where fire.report_by is not null
   and fire.report_by <= (select coalesce($1::timestamptz, date_trunc('milliseconds', clock_timestamp())))
   and fire.status <> 'retrying'
 order by fire.report_by, fire.alarm_id, fire.scheduled_for
 limit $2;

-- name: waiting
select {fire columns of fire},
       {alarm columns of alarm}
  from {t}fires as fire
  join {t}alarms as alarm on alarm.id = fire.alarm_id
 where fire.status = 'waiting'
   and fire.owner_did = $1
   and fire.target = $2
   and ($3::text = '' or alarm.conversation_id = $3)
 order by fire.scheduled_for, fire.alarm_id
 limit $4;

-- name: agenda
-- From target to target in the index: first the moment up to which so many are due, from the index alone, then where
-- these stand, and no other row is read in full. Where the last ones are due at the same moment as others that no longer
-- fit, which of them it is does not matter.
with recursive {served_targets},
    last (moment) as materialized (
    select max(next_fire_at)
      from (select due.next_fire_at
              from served
             cross join lateral (
                select next_fire_at
                  from {t}alarms
                 where status = 'active'
                   and target = served.target
                   and ($1::text = '' or owner_did = $1)
                   and next_fire_at < $2
                 order by next_fire_at
                 limit $3) as due
             order by due.next_fire_at
             limit $3) as counted),
    soonest (place) as materialized (
    select due.place
      from served
     cross join lateral (
        select ctid as place,
               next_fire_at
          from {t}alarms
         where status = 'active'
           and target = served.target
           and ($1::text = '' or owner_did = $1)
           and next_fire_at <= (select moment from last)
         order by next_fire_at
         limit $3) as due
     order by due.next_fire_at
     limit $3)
select {alarm columns of alarm}
  from soonest
  join {t}alarms as alarm on alarm.ctid = soonest.place
 order by alarm.next_fire_at, alarm.id;

-- name: alarms_upto
-- The last of so many alarms behind one; nothing where there are fewer.
select id
  from {t}alarms
 where id > $1::uuid
 order by id
 limit 1 offset $2::integer - 1;

-- name: alarms_in_zones
-- A zone can also be named in the expression itself.
select {alarm columns}
  from {t}alarms
 where id > $1::uuid
   and id <= $2::uuid
   and status in ('active', 'paused')
   and (timezone = any($3::text[]) or strpos(cron_expr, 'TZ') > 0)
 order by id;

-- name: stats
-- Alarms are counted up to a bound in each of their states, by the index that has them; fires among the latest so many.
with recursive {served_targets},
    own_fires as materialized (
        select status, count, duration_ms
          from {t}fires
         where ($1::text = '' or owner_did = $1)
           and ($1 <> '' or count > -1)
         order by scheduled_for desc, alarm_id desc
         limit $2)
select (select count(*)
          from (select 1
                  from {t}alarms
                 where ($1 = '' or owner_did = $1)
                 order by case when $1 <> '' then created_at end desc, id desc
                 limit $2) as counted) as total,
       (select count(*)
          from (select 1
                  from served
                 cross join lateral (
                    select 1
                      from {t}alarms
                     where status = 'active'
                       and target = served.target
                       and ($1 = '' or owner_did = $1)
                     order by next_fire_at
                     limit $2) as due
                 limit $2) as counted) as pending,
       (select count(*)
          from (select 1
                  from {t}alarms
                 where status = 'paused'
                   and ($1 = '' or owner_did = $1)
                 order by owner_did, created_at desc, id desc
                 limit $2) as counted) as paused,
       (select count(*)
          from (select 1
                  from {t}alarms
                 where status = 'cancelled'
                   and ($1 = '' or owner_did = $1)
                 order by owner_did, created_at desc, id desc
                 limit $2) as counted) as cancelled,
       count(*) filter (where status in ('delivered', 'waiting')) as fired,
       count(*) filter (where status = 'completed') as completed,
       count(*) filter (where status = 'failed') as failed,
       count(*) filter (where status = 'timed_out') as timeout_unknown,
       coalesce(sum(count) filter (where status = 'skipped'), 0)::bigint as skipped,
       round(avg(duration_ms) filter (where status = 'completed'))::bigint as avg_duration_ms,
       count(*) as fires
  from own_fires;

-- name: usage
-- As they are stored: long texts are compressed, and are not unpacked for this.
select count(*) filter (where status in ('active', 'paused')) as alarms,
       coalesce(sum(pg_column_size(wake_message) + pg_column_size(payload)), 0)::bigint as bytes
  from {t}alarms
 where owner_did = $1
   and ($2::timestamptz is null or (created_at, id) < ($2, $3::uuid))
   and ($4::timestamptz is null or (created_at, id) >= ($4, $5::uuid));

-- name: events
select seq, {event columns}
  from {t}events
 where seq > $3
   and what <> 'former'
   and ($1::text = '' or owner_did = $1)
   and ($2::text = '' or alarm_id = $2)
 order by seq
 limit $4;

-- name: events_by
select seq, {event columns}
  from {t}events
 where at >= $3
   and by = $1
   and what = $2
 order by at, seq
 limit $4;

-- name: latest_events
-- Of one alarm, newest first, also what it was before a change.
select seq, {event columns}
  from {t}events
 where alarm_id = $1
   and ($2::text = '' or what = $2)
 order by seq desc
 limit $3;

-- name: last_event
select coalesce(max(seq), 0)
  from {t}events;

-- name: new_alarms
-- An id begins with the millisecond it was made in: the primary key finds them, and a create pays for no index. The upper
-- end leaves out ids of another kind, which imported alarms have.
select id, owner_did, target, status, created_at
  from {t}alarms
 where id >= $1::uuid
   and id < $5::uuid
   and created_at >= $2
   and ($3::text = '' or owner_did = $3)
 order by id
 limit $4;

-- name: changed_fires
-- As much as is told: what a fire answered, and its log, may be long.
select alarm_id, scheduled_for, owner_did, target, status,
       substr(coalesce(nullif(reason, ''), last_error), 1, 500) as reason,
       attempts, delivered_at, count, updated_at
  from {t}fires
 where updated_at >= $1
   and ($2::text = '' or owner_did = $2)
 order by updated_at
 limit $3;

-- name: now
select coalesce($1::timestamptz, date_trunc('milliseconds', clock_timestamp()));

-- name: notify
select pg_notify($1, '');

-- name: tables
-- The columns of the tables that could be in our way; relations of any kind, for a view named `alarms` is in it too.
select relation.relname::text as name,
       array_agg(attribute.attname::text order by attribute.attnum) as columns
  from pg_class as relation
  join pg_namespace as namespace on namespace.oid = relation.relnamespace
  join pg_attribute as attribute on attribute.attrelid = relation.oid
   and attribute.attnum > 0
   and not attribute.attisdropped
 where namespace.nspname = coalesce(nullif($1, ''), current_schema())
   and relation.relname = any($2::text[])
   and relation.relkind in ('r', 'p', 'v', 'm', 'f')
 group by relation.relname;
