-- name: columns
select name from pragma_table_info('{p}{table}') order by cid;

-- name: all_rows
select {columns} from {t}{table} where {which} order by {key};

-- name: rows_after
select {columns} from {t}{table} where {which} and ({key}) > ({marks}) order by {key};

-- name: last_key
select {key} from {t}{table} where {which} order by {last} limit 1;

-- name: count
select count(*) from {t}{table} where {which};

-- name: put
insert into {t}{table} ({columns}) values ({marks});

-- name: clear
delete from {t}{table} where {which};

-- name: release_leases
-- Who held them is gone. Sharing a crash with others does not make one a suspect.
update {t}alarms
   set claim = claim + 1,
       claimed_at = null,
       unsettled = case when unsettled = 1 then 0 else unsettled end
 where claimed_at is not null
    or unsettled = 1;

-- name: raise_claims
-- A worker of before that comes back must not settle by a number it got from the database that was lost.
update {t}alarms set claim = claim + 1000000 where status in ('active', 'paused') and claim < 1000000000;

-- name: raise_versions
-- Whoever read an alarm in the database that was lost must not change this one by that version. HTTP takes nine digits.
update {t}alarms set version = version + 1000000 where version < 900000000;

-- name: due
select count(*),
       count(*) filter (where next_fire_at > :since)
  from {t}alarms
 where status = 'active'
   and next_fire_at <= :now;

-- name: last_change
select max(coalesce((select max(updated_at) from {t}alarms), 0),
           coalesce((select max(updated_at) from {t}fires), 0),
           coalesce((select max(seen_at) from {t}workers), 0));

-- name: workers
select host, pid, seen_at from {t}workers where stopped_at is null;

-- name: forget_workers
delete from {t}workers;

-- name: note
insert into {t}events (at, what, by, reason) values (:at, :what, :by, :reason);

-- name: transfer
select value from {t}secrets where name = 'transfer';

-- name: set_transfer
insert into {t}secrets (name, value)
values ('transfer', :value)
    on conflict (name) do update
   set value = excluded.value;

-- name: end_transfer
delete from {t}secrets where name = 'transfer';

-- name: task_table
select name from {t}task_tables;

-- name: queue_links
-- What was queued before is not copied: every task is looked at anew.
insert into {t}task_changes (task_id) select task_id from {t}task_links;

-- name: fence
-- For processes that have it open already, of whatever version: nothing of theirs is written any more.
create trigger {p}alarms_moved_insert before insert on {t}alarms begin select raise(abort, '{words}'); end;
create trigger {p}alarms_moved_update before update on {t}alarms begin select raise(abort, '{words}'); end;
create trigger {p}alarms_moved_delete before delete on {t}alarms begin select raise(abort, '{words}'); end;
create trigger {p}fires_moved_insert before insert on {t}fires begin select raise(abort, '{words}'); end;
create trigger {p}fires_moved_update before update on {t}fires begin select raise(abort, '{words}'); end;
create trigger {p}fires_moved_delete before delete on {t}fires begin select raise(abort, '{words}'); end;
create trigger {p}tokens_moved_insert before insert on {t}tokens begin select raise(abort, '{words}'); end;
create trigger {p}tokens_moved_update before update on {t}tokens begin select raise(abort, '{words}'); end;
create trigger {p}tokens_moved_delete before delete on {t}tokens begin select raise(abort, '{words}'); end;

-- name: lift_fence
drop trigger if exists {p}alarms_moved_insert;
drop trigger if exists {p}alarms_moved_update;
drop trigger if exists {p}alarms_moved_delete;
drop trigger if exists {p}fires_moved_insert;
drop trigger if exists {p}fires_moved_update;
drop trigger if exists {p}fires_moved_delete;
drop trigger if exists {p}tokens_moved_insert;
drop trigger if exists {p}tokens_moved_update;
drop trigger if exists {p}tokens_moved_delete;

-- name: describe_backup
create table wakeful_backup (name text primary key not null, value text not null) strict;
insert into wakeful_backup (name, value) values ('at', :at), ('source', :source), ('version', :version);

-- name: backup
select name, value from wakeful_backup;

-- name: forget_backup
drop table if exists wakeful_backup;
