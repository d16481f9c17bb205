-- The statements of maintenance, by name: workers, targets, inspection, purging, figures, zone data. Every count is
-- bounded in each of its steps.

-- name: default_target
-- The schema's own text, in which the default of the column `target` stands.
select sql
  from sqlite_master
 where type = 'table'
   and name = '{p}alarms';

-- name: set_default_target
update sqlite_master
   set sql = ?
 where type = 'table'
   and name = '{p}alarms';

-- name: broken
-- The whole file is read, indexes are compared with their tables.
select integrity_check
  from pragma_integrity_check
 where integrity_check <> 'ok'
 limit 20;

-- name: broken_quickly
select quick_check
  from pragma_quick_check
 where quick_check <> 'ok'
 limit 20;

-- name: impossible
-- What wakeful never writes, in the order of IMPOSSIBLE in inspection.py.
select (select count(*)
          from {t}alarms
         where status in ('active', 'paused')
           and case kind when 'once' then fire_at is null else cron_expr = '' end),
       (select count(*) from {t}alarms where owner_did = ''),
       (select count(*)
          from {t}alarms
         where version < 1 or claim < 0 or unsettled < 0 or fire_count < 0 or failure_count < 0),
       (select count(*) from {t}alarms where claimed_at > :ahead),
       (select count(*)
          from {t}fires as fire
         where not exists (select 1 from {t}alarms as alarm where alarm.id = fire.alarm_id)),
       (select count(*)
          from {t}fires as fire
          join {t}alarms as alarm on alarm.id = fire.alarm_id
         where alarm.owner_did <> fire.owner_did),
       (select count(*) from {t}fires where status = 'skipped' and count < 1);

-- name: storage
select 'SQLite ' || sqlite_version(), pages.page_count * page.page_size
  from pragma_page_count as pages, pragma_page_size as page;

-- name: beat
insert into {t}workers ({worker columns})
values {rows}
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
insert into {t}target_states ({state columns})
values {rows}
    on conflict (target) do update
   set {state columns but target from excluded};

-- name: count_old
-- What a purge would delete, kind by kind. An alarm goes only with the last of its fires.
select (select count(*)
          from {t}alarms as alarm indexed by {p}alarms_ended_idx
         where updated_at < :before
           and status in ('fired', 'failed', 'cancelled')
           and (:owner = '' or owner_did = :owner)
           and not exists (
            select 1
              from {t}fires as fire
             where fire.alarm_id = alarm.id
               and (fire.updated_at >= :before or fire.status = 'waiting' or fire.report_by is not null))) as alarms,
       (select count(*)
          from {t}fires as fire indexed by {p}fires_updated_idx
         where updated_at < :before
           and status <> 'waiting'
           and report_by is null
           and (:owner = '' or owner_did = :owner)
           and not exists (
            select 1
              from {t}alarms as alarm
             where alarm.id = fire.alarm_id
               and alarm.status in ('active', 'paused')
               and alarm.occurrence_at = fire.scheduled_for)) as fires,
       (select count(*)
          from {t}events indexed by {p}events_at_idx
         where at < :before
           and (:owner = '' or owner_did = :owner)) as events,
       (select count(*)
          from {t}tokens
         where coalesce(revoked_at, expires_at) < :before
           and (:owner = '' or owner_did = :owner)) as tokens;

-- name: old_fires
-- Looked for by a reader, deleted by the writer: a long search must not hold the write lock.
select rowid
  from {t}fires as fire indexed by {p}fires_updated_idx
 where updated_at < :before
   and status <> 'waiting'
   and report_by is null
   and not exists (
    select 1
      from {t}alarms as alarm
     where alarm.id = fire.alarm_id
       and alarm.status in ('active', 'paused')
       and alarm.occurrence_at = fire.scheduled_for)
   and (:owner = '' or owner_did = :owner)
 limit :limit;

-- name: old_alarms
-- The next so many that ended, and whether one may go: no fire of it is left.
select rowid,
       updated_at,
       id,
       not exists (select 1 from {t}fires as fire where fire.alarm_id = alarm.id)
  from {t}alarms as alarm indexed by {p}alarms_ended_idx
 where status in ('fired', 'failed', 'cancelled')
   and updated_at < :before
   and (updated_at, id) > (:after, :after_id) -- when after
   and owner_did = :owner -- when owner
 order by updated_at, id
 limit :limit;

-- name: old_events
select rowid
  from {t}events indexed by {p}events_at_idx
 where at < :before
   and (:owner = '' or owner_did = :owner)
 limit :limit;

-- name: old_tokens
select rowid
  from {t}tokens
 where coalesce(revoked_at, expires_at) < :before
   and (:owner = '' or owner_did = :owner)
 limit :limit;

-- name: purge_fires
-- What was found is looked at again: it may have changed since.
delete
  from {t}fires as fire
 where rowid in (select value from json_each(:rowids))
   and updated_at < :before
   and status <> 'waiting'
   and report_by is null
   and not exists (
    select 1
      from {t}alarms as alarm
     where alarm.id = fire.alarm_id
       and alarm.status in ('active', 'paused')
       and alarm.occurrence_at = fire.scheduled_for);

-- name: purge_alarms
delete
  from {t}alarms as alarm
 where rowid in (select value from json_each(:rowids))
   and updated_at < :before
   and status in ('fired', 'failed', 'cancelled')
   and not exists (select 1 from {t}fires as fire where fire.alarm_id = alarm.id);

-- name: purge_events
delete
  from {t}events
 where rowid in (select value from json_each(:rowids))
   and at < :before;

-- name: purge_tokens
delete
  from {t}tokens
 where rowid in (select value from json_each(:rowids))
   and coalesce(revoked_at, expires_at) < :before;

-- name: forget_counts
delete from {t}budget_counts
 where starts_at < :before
returning 1;

-- name: forget_seen
delete from {t}check_values
 where rowid in (
    select rowid
      from {t}check_values
     where not exists (select 1 from {t}alarms where {t}alarms.id = {t}check_values.alarm_id)
     limit :limit)
returning 1;

-- name: backlog
-- From target to target in the index, and in each no further than is asked: a million due cost no more than that.
with recursive {served_targets}
select served.target,
       count(due.next_fire_at),
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
 group by served.target;

-- name: backlog_by_owner
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

-- part: step
-- Pairs of moments, in their order.
(select key as number,
        value ->> 0 as since,
        value ->> 1 as until
   from json_each(:steps));

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

-- name: owner_use
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

-- name: editions
select version,
       since,
       planned_at
  from {t}zone_rules
 order by version desc;

-- name: zone_rules
select data
  from {t}zone_rules
 where version = :version;

-- name: put_edition
insert into {t}zone_rules (version, since, planned_at, data)
values (:version, :now, null, :data)
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
   set planned_at = :now
 where version = :version
   and planned_at is null;
