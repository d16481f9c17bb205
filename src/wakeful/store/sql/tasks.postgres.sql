-- name: create_table
-- The columns of seed 001, and two it lacks: what makes a task isolated, and why one is in error.
create table if not exists {tasks} (
    id            text primary key,
    owner         text,
    chat_jid      text,
    prompt        text,
    cron          text,
    next_run      timestamptz,
    status        text default 'active',
    created_at    timestamptz default now(),
    context_mode  text not null default 'group',
    error         text
);

-- name: connected
select name from {t}task_tables;

-- name: disconnect
delete from {t}task_tables where name <> :name returning name;

-- name: disconnect_all
-- What is queued still would be planned by a process that has not noticed yet.
delete from {t}task_changes;
delete from {t}task_tables;

-- name: connect
insert into {t}task_tables (name, connected_at) values (:name, coalesce(:now::timestamptz, now())) on conflict do nothing;

-- name: watch
-- Only the id is queued: whoever writes a task needs no more than the right to write here, and waits for nobody.
create or replace trigger {p}task_changed after insert or update or delete on {tasks}
    for each row execute function {t}queue_task();
create or replace trigger {p}tasks_emptied after truncate on {tasks}
    for each statement execute function {t}queue_task();

-- name: unwatch
drop trigger if exists {p}task_changed on {tasks};
drop trigger if exists {p}tasks_emptied on {tasks};

-- name: watching
select count(*) = 2
  from pg_trigger
 where tgrelid = to_regclass(:quoted)
   and tgname in ('{p}task_changed', '{p}tasks_emptied');

-- name: queue_all
-- Every row, and every task whose row is gone.
insert into {t}task_changes (task_id)
select id::text from {tasks}
 union
select task_id from {t}task_links;

-- name: news
with changed as (
    select task_id, max(seq) as upto
      from (select task_id, seq from {t}task_changes where seq > :after order by seq limit :limit) as first
     group by task_id)
select changed.task_id,
       changed.upto,
       link.alarm_id,
       link.seen,
       link.note,
       {columns}
  from changed
  left join {t}task_links as link on link.task_id = changed.task_id
  left join {tasks} as task on task.id::text = changed.task_id
 order by changed.upto;

-- name: standing
-- What is queued does not matter here: a row that is as it was left means what it meant.
select link.task_id,
       0 as upto,
       link.alarm_id,
       link.seen,
       link.note,
       {columns}
  from {t}task_links as link
  left join {tasks} as task on task.id = link.task_id::{id_type}
 where link.alarm_id = any(:alarm_ids);

-- name: links_of
select alarm_id from {t}task_links where alarm_id = any(:alarm_ids);

-- name: hold_alarms
-- Alarms before rows, everywhere: two that change both then wait for each other instead of blocking each other.
with patience as materialized (select set_config('lock_timeout', :wait, true))
select alarm.id
  from patience
 cross join {t}alarms as alarm
 where alarm.id = any(:alarm_ids::uuid[])
 order by alarm.id
   for no key update of alarm;

-- name: hold_rows
-- Whoever changes one of these now waits until it is said, a few milliseconds. Who was faster is not waited for: the
-- row is being changed. A row that is only referred to (a run log's foreign key) is not in use.
select task.id::text
  from {tasks} as task
 where task.id in (select link.task_id::{id_type} from {t}task_links as link where link.alarm_id = any(:alarm_ids))
 order by task.id
   for no key update skip locked;

-- name: read
-- Locked: whoever changes this task now waits until it is planned, a few milliseconds. Who was faster is not waited for.
select {columns} from {tasks} as task where task.id = :id::text::{id_type} for no key update skip locked;

-- name: linked
select task_id, alarm_id, seen, note from {t}task_links where task_id = :id;

-- name: write
-- Quiet until the transaction ends: what we write ourselves is not queued.
with quiet as materialized (select set_config('wakeful.quiet', 'on', true))
update {tasks} as task
   set status = :status, next_run = :next_run::text::{next_run_type}{error}
  from quiet
 where task.id = :id::text::{id_type}
returning {columns};

-- name: write_back
-- Only where the row still stands as wakeful left it: what another program wrote since is news, and comes first.
with quiet as materialized (select set_config('wakeful.quiet', 'on', true))
update {tasks} as task
   set status = :status, next_run = :next_run::text::{next_run_type}
  from quiet
 where task.id = :id::text::{id_type}
   and task.status::text is not distinct from :seen_status
   and {next_run} is not distinct from :seen_next_run
   and task.cron::text is not distinct from :seen_cron
returning {columns};

-- name: read_all
-- As `read`, of many: in one order everywhere.
select {columns}
  from {tasks} as task
 where task.id = any(:ids::text[]::{id_type}[])
 order by task.id
   for no key update skip locked;

-- name: linked_all
select task_id, alarm_id, seen, note from {t}task_links where task_id = any(:ids);

-- name: write_all
with quiet as materialized (select set_config('wakeful.quiet', 'on', true))
update {tasks} as task
   set status = given.status, next_run = given.next_run::{next_run_type}{error_given}
  from quiet,
       unnest(:ids::text[], :statuses::text[], :next_runs::text[], :notes::text[]) as given (id, status, next_run, note)
 where task.id = given.id::{id_type};

-- name: link_all
insert into {t}task_links (task_id, alarm_id, seen, note)
select given.task_id, given.alarm_id, given.seen::json, given.note
  from unnest(:ids::text[], :alarm_ids::text[], :seen::text[], :notes::text[])
    as given (task_id, alarm_id, seen, note)
    on conflict (task_id) do update
   set alarm_id = excluded.alarm_id,
       seen = excluded.seen,
       note = excluded.note;

-- name: unlink_all
delete from {t}task_links where task_id = any(:ids);

-- name: done_all
delete from {t}task_changes as change
 using unnest(:ids::text[], :uptos::bigint[]) as given (id, upto)
 where change.task_id = given.id and change.seq <= given.upto;

-- name: link
insert into {t}task_links (task_id, alarm_id, seen, note)
values (:id, :alarm_id, :seen, :note)
    on conflict (task_id) do update
   set alarm_id = excluded.alarm_id,
       seen = excluded.seen,
       note = excluded.note;

-- name: unlink
delete from {t}task_links where task_id = :id;

-- name: done
delete from {t}task_changes where task_id = :id and seq <= :upto;

-- name: link_of
select task_id, alarm_id, seen, note from {t}task_links where alarm_id = :alarm_id;

-- name: links
select task_id, alarm_id from {t}task_links order by task_id limit :limit;

-- name: notes
select task_id, note from {t}task_links where note <> '' order by task_id limit :limit;

-- name: nameless
-- Only where the id is not a primary key.
select 'NULL', 'id: it is NULL, so the row never runs'
  from {tasks}
 where id is null
   and status::text in ('active', 'paused')
 limit 1;

-- name: list
select {columns}
  from {tasks} as task
 where (:owner = '' or task.owner = :owner)
   and (:id = '' or task.id::text = :id)
 order by task.created_at desc, task.id desc
 limit :limit;

-- name: insert
insert into {tasks} (id, owner, chat_jid, prompt, cron, next_run, status, created_at{name_mode})
values (:id::text::{id_type}, :owner, :chat_jid, :prompt, :cron, :next_run::text::{next_run_type}, :status, :created_at::text::{created_at_type}{give_mode})
    on conflict do nothing
returning 1;

-- name: update
-- Only where it still is what it was read as: it may have fired meanwhile, and an older next_run would fire it again.
update {tasks} as task
   set chat_jid = :chat_jid, prompt = :prompt, cron = :cron, next_run = :next_run::text::{next_run_type}, status = :status{set_mode}
 where task.id = :id::text::{id_type}
   and task.owner is not distinct from :owner
   and task.prompt::text is not distinct from :was_prompt
   and task.cron::text is not distinct from :was_cron
   and {next_run} is not distinct from :was_next_run
   and task.status::text is not distinct from :was_status
returning 1;

-- name: delete
delete from {tasks} where id = :id::text::{id_type} and owner is not distinct from :owner
returning 1;
