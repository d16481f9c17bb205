-- name: create_table
-- The columns of seed 001, and two it lacks: what makes a task isolated, and why one is in error.
create table if not exists {tasks} (
    id            text primary key,
    owner         text,
    chat_jid      text,
    prompt        text,
    cron          text,
    next_run      datetime,
    status        text default 'active',
    created_at    datetime default (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')),
    context_mode  text not null default 'group',
    error         text
)

-- name: connected
select name from {t}task_tables;

-- name: disconnect
delete from {t}task_tables where name <> :name returning name;

-- name: disconnect_all
-- What is queued still would be planned by a process that has not noticed yet.
delete from {t}task_changes;
delete from {t}task_tables;

-- name: connect
insert into {t}task_tables (name, connected_at) values (:name, :now) on conflict do nothing;

-- name: watch
-- Only the id is queued: whoever writes a task needs no more than the right to write here, and waits for nobody.
-- As text, whatever it is: an id that is none must not fail the other program's own statement. Triggers follow a table
-- that is renamed, and their names are taken then: they are made anew.
drop trigger if exists {p}task_inserted;
drop trigger if exists {p}task_updated;
drop trigger if exists {p}task_deleted;
create trigger {p}task_inserted after insert on {tasks} when new.id is not null begin
    insert into {t}task_changes (task_id) values (cast(new.id as text));
end;
create trigger {p}task_updated after update on {tasks} begin
    insert into {t}task_changes (task_id) select cast(old.id as text) where old.id is not null;
    insert into {t}task_changes (task_id) select cast(new.id as text) where new.id is not null and new.id is not old.id;
end;
create trigger {p}task_deleted after delete on {tasks} when old.id is not null begin
    insert into {t}task_changes (task_id) values (cast(old.id as text));
end;

-- name: unwatch
drop trigger if exists {p}task_inserted;
drop trigger if exists {p}task_updated;
drop trigger if exists {p}task_deleted;

-- name: watching
select count(*) = 3
  from sqlite_master
 where type = 'trigger'
   and tbl_name = :name collate nocase
   and name in ('{p}task_inserted', '{p}task_updated', '{p}task_deleted');

-- name: queue_all
-- Every row, and every task whose row is gone.
insert into {t}task_changes (task_id)
select cast(id as text) from {tasks} where id is not null
 union
select task_id from {t}task_links;

-- name: news
-- Whatever others put into their table is read as bytes: a text that is none must not fail the rows beside it.
with changed as (
    select task_id, max(seq) as upto
      from (select task_id, seq from {t}task_changes where seq > :after order by seq limit :limit)
     group by task_id)
select cast(changed.task_id as blob),
       changed.upto,
       link.alarm_id,
       link.seen,
       link.note,
       {columns}
  from changed
  left join {t}task_links as link on link.task_id = changed.task_id
  left join {tasks} as task on task.id = changed.task_id
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
  left join {tasks} as task on task.id = link.task_id
 where link.alarm_id = :alarm_id;

-- name: read
select {columns} from {tasks} as task where task.id = :id;

-- name: linked
select task_id, alarm_id, seen, note from {t}task_links where task_id = :id;

-- name: last_change
select coalesce(max(seq), 0) from {t}task_changes;

-- name: write
update {tasks}
   set status = :status, next_run = :next_run{error}
 where id = :id
returning {own_columns};

-- name: write_back
-- Only where the row still stands as wakeful left it: what another program wrote since is news, and comes first.
update {tasks}
   set status = :status, next_run = :next_run
 where id = :id
   and cast(status as text) is :seen_status
   and cast(next_run as text) is :seen_next_run
   and cast(cron as text) is :seen_cron
returning {own_columns};

-- name: forget_own
-- What our own write has queued: nobody else writes inside this transaction.
delete from {t}task_changes where seq > :last;

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
-- SQLite's primary keys take NULL and BLOBs, which no text is equal to. Both are found in an index on the id.
select 'NULL', 'id: it is NULL, so the row never runs'
  from {tasks}
 where id is null
   and status in ('active', 'paused')
 union
select 'x''' || hex(id) || '''', 'id: it is not text'
  from {tasks}
 where id >= x''
 limit 100;

-- name: list
select {columns}
  from {tasks} as task
 where (:owner = '' or task.owner = :owner)
   and (:id = '' or task.id = :id)
 order by task.created_at desc, task.id desc
 limit :limit;

-- name: insert
insert into {tasks} (id, owner, chat_jid, prompt, cron, next_run, status, created_at{name_mode})
values (:id, :owner, :chat_jid, :prompt, :cron, :next_run, :status, :created_at{give_mode})
    on conflict do nothing
returning 1;

-- name: update
-- Only where it still is what it was read as: it may have fired meanwhile, and an older next_run would fire it again.
update {tasks}
   set chat_jid = :chat_jid, prompt = :prompt, cron = :cron, next_run = :next_run, status = :status{set_mode}
 where id = :id
   and owner is :owner
   and cast(prompt as text) is :was_prompt
   and cast(cron as text) is :was_cron
   and cast(next_run as text) is :was_next_run
   and cast(status as text) is :was_status
returning 1;

-- name: delete
delete from {tasks} where id = :id and owner is :owner
returning 1;
