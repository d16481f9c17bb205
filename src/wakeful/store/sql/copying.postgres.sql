-- name: columns
-- With their types: values travel as SQLite keeps them.
select attname as name,
       format_type(atttypid, null) as type
  from pg_attribute
 where attrelid = to_regclass('{t}{table}')
   and attnum > 0
   and not attisdropped
 order by attnum;

-- name: all_rows
select {columns} from {t}{table} where {which} order by {key};

-- name: rows_after
select {columns} from {t}{table} where {which} and ({key}) > ({marks}) order by {key};

-- name: last_key
select {key} from {t}{table} where {which} order by {last} limit 1;

-- name: count
select count(*) from {t}{table} where {which};

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
       count(*) filter (where next_fire_at > $1::timestamptz)
  from {t}alarms
 where status = 'active'
   and next_fire_at <= $2::timestamptz;

-- name: workers
select host, pid, seen_at from {t}workers where stopped_at is null;

-- name: forget_workers
-- And the claims that they could take back.
with forgotten as (delete from {t}claim_tokens)
delete from {t}workers;

-- name: note
insert into {t}events (at, what, by, reason) values ($1, $2, $3, $4);

-- name: transfer
select value from {t}secrets where name = 'transfer';

-- name: set_transfer
insert into {t}secrets (name, value)
values ('transfer', $1)
    on conflict (name) do update
   set value = excluded.value;

-- name: end_transfer
delete from {t}secrets where name = 'transfer';

-- name: task_table
select name from {t}task_tables;

-- name: queue_links
-- What was queued before is not copied: every task is looked at anew.
insert into {t}task_changes (task_id) select task_id from {t}task_links;

-- name: go_on_numbering
-- Rows that brought their numbers along have not moved the counter.
select setval(pg_get_serial_sequence('{t}events', 'seq'), greatest(1, (select max(seq) from {t}events)));

-- name: fence
-- For processes that have it open already, of whatever version: nothing of theirs is written any more. Making a trigger
-- waits for transactions that are writing there.
create function {t}refuse_moved() returns trigger
    language plpgsql
as $$
begin
    raise exception '%', tg_argv[0] using errcode = '55000';
end
$$;
create trigger {p}alarms_moved before insert or update or delete on {t}alarms
    for each statement execute function {t}refuse_moved('{words}');
create trigger {p}fires_moved before insert or update or delete on {t}fires
    for each statement execute function {t}refuse_moved('{words}');
create trigger {p}tokens_moved before insert or update or delete on {t}tokens
    for each statement execute function {t}refuse_moved('{words}');

-- name: lift_fence
drop trigger if exists {p}alarms_moved on {t}alarms;
drop trigger if exists {p}fires_moved on {t}fires;
drop trigger if exists {p}tokens_moved on {t}tokens;
drop function if exists {t}refuse_moved();
