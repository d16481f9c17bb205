-- Figures for people who look. Bounded in every step; see store/figures.py.

-- part: step
-- Pairs of moments, in their order.
(select key as number,
        value ->> 0 as since,
        value ->> 1 as until
   from json_each(:steps));

-- name: storage
select 'SQLite ' || sqlite_version(), pages.page_count * page.page_size
  from pragma_page_count as pages, pragma_page_size as page;

-- name: fires_by_step
-- What failed has an index of its own: a busy hour does not hide it behind the bound.
select (select json_group_object(status, number)
          from (select status, count(*) as number
                  from (select status
                          from {t}fires indexed by {p}fires_owner_idx
                         where owner_did = :owner
                           and scheduled_for >= step.since
                           and scheduled_for < step.until
                         limit :most)
                 group by status)),
       (select count(*)
          from (select 1
                  from {t}fires indexed by {p}fires_failed_idx
                 where status in ('failed', 'timed_out')
                   and owner_did = :owner
                   and scheduled_for >= step.since
                   and scheduled_for < step.until
                 limit :most))
  from {step} as step
 order by step.number;

-- name: latest_of_owner
select fire.target, fire.owner_did, fire.status, fire.scheduled_for, fire.started_at, fire.delivered_at,
       fire.updated_at, substr(coalesce(nullif(fire.last_error, ''), fire.reason), 1, 300)
  from {step} as step
  join {t}fires as fire on fire.rowid in (
    select rowid
      from {t}fires indexed by {p}fires_owner_idx
     where owner_did = :owner
       and scheduled_for >= step.since
       and scheduled_for < step.until
     order by scheduled_for desc, alarm_id desc
     limit :each);

-- name: latest_of_all
select fire.target, fire.owner_did, fire.status, fire.scheduled_for, fire.started_at, fire.delivered_at,
       fire.updated_at, substr(coalesce(nullif(fire.last_error, ''), fire.reason), 1, 300)
  from {step} as step
  join {t}fires as fire on fire.rowid in (
    select rowid
      from {t}fires indexed by {p}fires_updated_idx
     where updated_at >= step.since
       and updated_at < step.until
     order by updated_at desc
     limit :each);

-- name: changed_by_step
select (select count(*)
          from (select 1
                  from {t}fires indexed by {p}fires_updated_idx
                 where updated_at >= step.since
                   and updated_at < step.until
                 limit :most))
  from {step} as step
 order by step.number;

-- name: due_by_owner
-- From target to target in the index, and in each no further than is asked, as `backlog` does.
with recursive {served_targets}
select served.target,
       due.owner_did,
       count(*),
       min(due.next_fire_at)
  from served
  join {t}alarms as due on due.rowid in (
    select rowid
      from {t}alarms indexed by {p}alarms_due_idx
     where status = 'active'
       and target = served.target
       and next_fire_at <= :now
       and {unleased}
     order by next_fire_at
     limit :most)
 group by served.target, due.owner_did
 order by 3 desc, 1, 2;

-- name: owners
-- From owner to owner in the index; the length of a text stands at the head of its row, so long ones are not read.
with recursive named (owner_did) as (
    select min(owner_did)
      from {t}alarms indexed by {p}alarms_owner_idx
     where owner_did > :after
    union all
    select (select min(alarm.owner_did)
              from {t}alarms as alarm indexed by {p}alarms_owner_idx
             where alarm.owner_did > named.owner_did)
      from named
     where named.owner_did is not null
     limit :limit)
select named.owner_did,
       (select json_array(count(*), count(*) filter (where status in ('active', 'paused')), coalesce(sum(size), 0))
          from (select status, octet_length(wake_message) + octet_length(payload) as size
                  from {t}alarms indexed by {p}alarms_owner_idx
                 where owner_did = named.owner_did
                 order by created_at desc, id desc
                 limit :most)),
       (select count(*)
          from (select 1
                  from {t}fires indexed by {p}fires_failed_idx
                 where status in ('failed', 'timed_out')
                   and owner_did = named.owner_did
                   and scheduled_for >= :since
                 limit :most))
  from named
 where named.owner_did is not null
 order by named.owner_did;
