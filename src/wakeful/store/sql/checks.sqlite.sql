-- What checks have seen; see store/checks.py and alarm/checks.py.

-- name: seen
select value
  from {t}check_values
 where alarm_id = :alarm_id
   and name = :name;

-- name: keep_seen
insert into {t}check_values (alarm_id, name, value)
values {rows}
    on conflict (alarm_id, name) do update
   set value = excluded.value;

-- name: forget_seen
delete from {t}check_values
 where rowid in (
    select rowid
      from {t}check_values
     where not exists (select 1 from {t}alarms where {t}alarms.id = {t}check_values.alarm_id)
     limit :limit)
returning 1;
