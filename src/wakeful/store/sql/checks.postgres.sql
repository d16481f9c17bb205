-- What checks have seen; see store/checks.py and alarm/checks.py.

-- name: seen
select value
  from {t}check_values
 where alarm_id = $1::uuid
   and name = $2;

-- name: keep_seen
insert into {t}check_values as known (alarm_id, name, value)
select seen.alarm_id, seen.name, seen.value
  from unnest($1::uuid[], $2::text[], $3::text[]) as seen (alarm_id, name, value)
    on conflict (alarm_id, name) do update
   set value = excluded.value;

-- name: forget_seen
delete from {t}check_values
 where (alarm_id, name) in (
    select value.alarm_id, value.name
      from {t}check_values as value
     where not exists (select 1 from {t}alarms as alarm where alarm.id = value.alarm_id)
     limit $1)
returning 1;
