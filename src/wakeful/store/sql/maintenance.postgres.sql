-- The statements of maintenance, by name: workers, targets, inspection, purging, figures, zone data. Every count is
-- bounded in each of its steps.

-- name: default_target
-- The default of the column `target`, and a name as a literal for the next statement, which takes no parameters.
select replace(regexp_replace(pg_get_expr(kept.adbin, kept.adrelid), '^''(.+)''::text$', '\1'), '''''', ''''),
       quote_literal($1::text)
  from pg_attrdef as kept
  join pg_attribute as attribute on attribute.attrelid = kept.adrelid
   and attribute.attnum = kept.adnum
 where kept.adrelid = '{t}alarms'::regclass
   and attribute.attname = 'target';

-- name: set_default_target
alter table {t}alarms alter column target set default;

-- name: broken
-- Indexes that a failed build left behind, and pages whose checksums did not hold since the counters were reset.
select format('the index %s is not valid: reindex it', index.indexrelid::regclass) as problem
  from pg_index as index
 where index.indrelid = any(array[to_regclass('{t}alarms'), to_regclass('{t}fires'), to_regclass('{t}events')])
   and not index.indisvalid
union all
select format('%s pages of this database failed their checksums', checksum_failures)
  from pg_stat_database
 where datname = current_database()
   and checksum_failures > 0;

-- name: impossible
-- What wakeful never writes, in the order of IMPOSSIBLE in inspection.py.
select (select count(*)
          from {t}alarms
         where status in ('active', 'paused')
           and case kind when 'once' then fire_at is null else cron_expr = '' end) as no_time,
       (select count(*) from {t}alarms where owner_did = '') as no_owner,
       (select count(*)
          from {t}alarms
         where version < 1 or claim < 0 or unsettled < 0 or fire_count < 0 or failure_count < 0) as bad_number,
       (select count(*) from {t}alarms where claimed_at > $1) as leased_ahead,
       (select count(*)
          from {t}fires as fire
         where not exists (select from {t}alarms as alarm where alarm.id = fire.alarm_id)) as no_alarm,
       (select count(*)
          from {t}fires as fire
          join {t}alarms as alarm on alarm.id = fire.alarm_id
         where alarm.owner_did <> fire.owner_did) as other_owner,
       (select count(*) from {t}fires where status = 'skipped' and count < 1) as counts_nothing;

-- name: storage
select 'PostgreSQL ' || current_setting('server_version') as engine,
       pg_database_size(current_database()) as size;

-- name: beat
with moment as materialized (
    select coalesce($1::timestamptz, date_trunc('milliseconds', clock_timestamp())) as now,
           set_config('lock_timeout', $2, true),
           set_config('synchronous_commit', 'on', true)),
forgotten as (
    delete from {t}claim_tokens
     where at < (select now from moment) - interval '1 day')
insert into {t}workers (seen_at, {worker columns but seen_at})
select moment.now, {worker values but seen_at from $3}
  from moment
    on conflict (id) do update
   set {worker columns but id from excluded};

-- name: workers
select {worker columns}
  from {t}workers
 order by started_at, id;

-- name: target_states
select {state columns}
  from {t}target_states
 order by target;

-- name: set_target_state
with moment as materialized (
    select set_config('lock_timeout', $1, true),
           set_config('synchronous_commit', 'on', true)),
turn as materialized (
    select pg_advisory_xact_lock(hashtextextended('{t}events', 0))
      from moment
     where cardinality($2::timestamptz[]) > 0),
add_events as (
    insert into {t}events ({event columns})
    select {event columns of event}
      from turn
     cross join unnest({event arrays from $2}) as event ({event columns}))
insert into {t}target_states ({state columns})
select {state values}
  from moment
    on conflict (target) do update
   set {state columns but target from excluded};

-- name: count_old
-- What a purge would delete, kind by kind. An alarm goes only with the last of its fires.
select (select count(*)
          from {t}alarms as alarm
         where updated_at < $1
           and status in ('fired', 'failed', 'cancelled')
           and ($2 = '' or owner_did = $2)
           and not exists (
            select
              from {t}fires as fire
             where fire.alarm_id = alarm.id
               and (fire.updated_at >= $1 or fire.status = 'waiting' or fire.report_by is not null))) as alarms,
       (select count(*)
          from {t}fires as fire
         where updated_at < $1
           and status <> 'waiting'
           and report_by is null
           and ($2 = '' or owner_did = $2)
           and not exists (
            select
              from {t}alarms as alarm
             where alarm.id = fire.alarm_id
               and alarm.status in ('active', 'paused')
               and alarm.occurrence_at = fire.scheduled_for)) as fires,
       (select count(*) from {t}events where at < $1 and ($2 = '' or owner_did = $2)) as events,
       (select count(*)
          from {t}tokens
         where coalesce(revoked_at, expires_at) < $1
           and ($2 = '' or owner_did = $2)) as tokens;

-- name: purge_fires
-- Only what has an end on record and is not what its alarm is working on. What is locked just now is left for next time.
-- By their places, as an array: never by going through the table, whatever the planner believes.
delete
  from {t}fires
 where ctid = any(array(
    select fire.ctid
      from {t}fires as fire
     where fire.updated_at < $1
       and fire.status <> 'waiting'
       and fire.report_by is null
       and not exists (
        select
          from {t}alarms as alarm
         where alarm.id = fire.alarm_id
           and alarm.status in ('active', 'paused')
           and alarm.occurrence_at = fire.scheduled_for
        offset 0)
       and ($3 = '' or fire.owner_did = $3)
     order by fire.updated_at
     limit $2
       for update of fire skip locked))
returning 1;

-- name: purge_alarms
-- The next so many that ended, behind one; those without fires go. Told: how many went, and the last one looked at.
with looked as materialized (
    select id,
           updated_at
      from {t}alarms
     where status in ('fired', 'failed', 'cancelled')
       and updated_at < $1
       and ($4::timestamptz is null or (updated_at, id) > ($4, $5::uuid))
       and ($3 = '' or owner_did = $3)
     order by updated_at, id
     limit $2),
gone as (
    delete
      from {t}alarms
     where id = any(array(
        select alarm.id
          from looked
         cross join lateral (
            select id
              from {t}alarms
             where id = looked.id
               and updated_at < $1
               and status in ('fired', 'failed', 'cancelled')
               for update skip locked) as alarm
         where not exists (
            select
              from {t}fires
             where alarm_id = looked.id
            offset 0)))
    returning 1)
select (select count(*) from gone)::integer as gone,
       (select count(*) from looked)::integer as looked,
       last.updated_at,
       last.id
  from (select 1) as one
  left join lateral (
    select updated_at,
           id
      from looked
     order by updated_at desc, id desc
     limit 1) as last on true;

-- name: purge_events
delete
  from {t}events
 where seq = any(array(
    select seq
      from {t}events
     where at < $1
       and ($3 = '' or owner_did = $3)
     order by at
     limit $2))
returning 1;

-- name: purge_tokens
delete
  from {t}tokens
 where id in (
    select id
      from {t}tokens
     where coalesce(revoked_at, expires_at) < $1
       and ($3 = '' or owner_did = $3)
     limit $2)
returning 1;

-- name: forget_counts
delete from {t}budget_counts
 where starts_at < $1
returning 1;

-- name: forget_seen
delete from {t}check_values
 where (alarm_id, name) in (
    select value.alarm_id, value.name
      from {t}check_values as value
     where not exists (select 1 from {t}alarms as alarm where alarm.id = value.alarm_id)
     limit $1)
returning 1;

-- name: backlog
-- From target to target in the index, and in each no further than is asked: a million due cost no more than that.
with recursive moment as materialized (
    select coalesce($1::timestamptz, date_trunc('milliseconds', clock_timestamp())) as now),
{served_targets}
select served.target,
       count(*)::integer,
       min(due.next_fire_at)
  from served
 cross join lateral (
    select next_fire_at
      from {t}alarms
     where status = 'active'
       and target = served.target
       and next_fire_at <= (select now from moment)
       and {unleased}
     order by next_fire_at
     limit $3) as due
 group by served.target;

-- name: backlog_by_owner
-- From target to target in the index, and in each no further than is asked, as `backlog` does.
with recursive moment as materialized (
    select coalesce($1::timestamptz, date_trunc('milliseconds', clock_timestamp())) as now),
{served_targets}
select served.target,
       due.owner_did,
       count(*)::integer,
       min(due.next_fire_at)
  from served
 cross join lateral (
    select owner_did, next_fire_at
      from {t}alarms
     where status = 'active'
       and target = served.target
       and next_fire_at <= (select now from moment)
       and {unleased}
     order by next_fire_at
     limit $3) as due
 group by served.target, due.owner_did
 order by 3 desc, 1, 2;

-- part: step
-- Pairs of moments, in their order.
unnest($1::timestamptz[], $2::timestamptz[]) with ordinality;

-- name: fires_by_step
-- What failed has an index of its own: a busy hour does not hide it behind the bound.
select (select coalesce(json_object_agg(counted.status, counted.number), '{}'::json)
          from (select looked.status, count(*)::integer as number
                  from (select status
                          from {t}fires
                         where owner_did = $3
                           and scheduled_for >= step.since
                           and scheduled_for < step.until
                         order by scheduled_for desc
                         limit $4) as looked
                 group by looked.status) as counted)::text as statuses,
       (select count(*)::integer
          from (select 1
                  from {t}fires
                 where status in ('failed', 'timed_out')
                   and owner_did = $3
                   and scheduled_for >= step.since
                   and scheduled_for < step.until
                 order by scheduled_for
                 limit $4) as looked) as failed
  from {step} as step (since, until, number)
 order by step.number;

-- name: latest_of_owner
select fire.target, fire.owner_did, fire.status, fire.scheduled_for, fire.started_at, fire.delivered_at,
       fire.updated_at, left(coalesce(nullif(fire.last_error, ''), fire.reason), 300) as error
  from {step} as step (since, until, number)
 cross join lateral (
    select target, owner_did, status, scheduled_for, started_at, delivered_at, updated_at, last_error, reason
      from {t}fires
     where owner_did = $3
       and scheduled_for >= step.since
       and scheduled_for < step.until
     order by scheduled_for desc, alarm_id desc
     limit $4) as fire;

-- name: latest_of_all
select fire.target, fire.owner_did, fire.status, fire.scheduled_for, fire.started_at, fire.delivered_at,
       fire.updated_at, left(coalesce(nullif(fire.last_error, ''), fire.reason), 300) as error
  from {step} as step (since, until, number)
 cross join lateral (
    select target, owner_did, status, scheduled_for, started_at, delivered_at, updated_at, last_error, reason
      from {t}fires
     where updated_at >= step.since
       and updated_at < step.until
     order by updated_at desc
     limit $3) as fire;

-- name: changed_by_step
select (select count(*)::integer
          from (select 1
                  from {t}fires
                 where updated_at >= step.since
                   and updated_at < step.until
                 order by updated_at
                 limit $3) as looked)
  from {step} as step (since, until, number)
 order by step.number;

-- name: owner_use
-- From owner to owner in the index; sizes as they are stored, so that long texts are not unpacked.
with recursive named (owner_did, number) as (
    (select owner_did, 1
       from {t}alarms
      where owner_did > $1
      order by owner_did
      limit 1)
    union all
    select (select alarm.owner_did
              from {t}alarms as alarm
             where alarm.owner_did > named.owner_did
             order by alarm.owner_did
             limit 1), named.number + 1
      from named
     where named.owner_did is not null
       and named.number < $2)
select named.owner_did,
       held.alarms,
       held.active,
       held.bytes,
       (select count(*)::integer
          from (select 1
                  from {t}fires
                 where status in ('failed', 'timed_out')
                   and owner_did = named.owner_did
                   and scheduled_for >= $4
                 order by scheduled_for
                 limit $3) as looked) as failed
  from named
 cross join lateral (
    select count(*)::integer as alarms,
           (count(*) filter (where newest.status in ('active', 'paused')))::integer as active,
           coalesce(sum(newest.size), 0)::bigint as bytes
      from (select status, pg_column_size(wake_message) + pg_column_size(payload) as size
              from {t}alarms
             where owner_did = named.owner_did
             order by created_at desc, id desc
             limit $3) as newest) as held
 where named.owner_did is not null
 order by named.owner_did;

-- name: editions
select version,
       since,
       planned_at
  from {t}zone_rules
 order by version desc;

-- name: zone_rules
select data
  from {t}zone_rules
 where version = $1;

-- name: put_edition
with now as (
    select date_trunc('milliseconds', coalesce($1::timestamptz, clock_timestamp())) as moment)
insert into {t}zone_rules (version, since, planned_at, data)
select $2,
       moment,
       null,
       $3::bytea
  from now
    on conflict do nothing;

-- name: forget_editions
-- All but the edition in force and the one before it.
delete from {t}zone_rules
 where version not in (
    select version
      from {t}zone_rules
     order by version desc
     limit 2);

-- name: note_planned
update {t}zone_rules
   set planned_at = date_trunc('milliseconds', coalesce($1::timestamptz, clock_timestamp()))
 where version = $2
   and planned_at is null;
