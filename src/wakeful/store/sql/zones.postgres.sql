-- The rules of time zones, and the alarms that go by them; see store/zones.py.

-- name: editions
select version,
       since,
       planned_at
  from {t}zone_rules
 order by version desc;

-- name: rules
select data
  from {t}zone_rules
 where version = $1;

-- name: keep
with now as (
    select date_trunc('milliseconds', coalesce($1::timestamptz, clock_timestamp())) as moment)
insert into {t}zone_rules (version, since, planned_at, data)
select $2,
       moment,
       null,
       $3::bytea
  from now
    on conflict do nothing;

-- name: forget
-- All but the edition in force and the one before it.
delete from {t}zone_rules
 where version not in (
    select version
      from {t}zone_rules
     order by version desc
     limit 2);

-- name: planned
update {t}zone_rules
   set planned_at = date_trunc('milliseconds', coalesce($1::timestamptz, clock_timestamp()))
 where version = $2
   and planned_at is null;

-- name: upto
-- The last of so many alarms behind one; nothing where there are fewer.
select id
  from {t}alarms
 where id > $1::uuid
 order by id
 limit 1 offset $2::integer - 1;

-- name: alarms
-- A zone can also be named in the expression itself.
select {alarm columns}
  from {t}alarms
 where id > $1::uuid
   and id <= $2::uuid
   and status in ('active', 'paused')
   and (timezone = any($3::text[]) or strpos(cron_expr, 'TZ') > 0)
 order by id;
