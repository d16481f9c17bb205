-- Figures for people who look. Bounded in every step; see store/figures.py.

-- part: step
-- Pairs of moments, in their order.
unnest($1::timestamptz[], $2::timestamptz[]) with ordinality;

-- name: storage
select 'PostgreSQL ' || current_setting('server_version') as engine,
       pg_database_size(current_database()) as size;

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

-- name: due_by_owner
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

-- name: owners
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
