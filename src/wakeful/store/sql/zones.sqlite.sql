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
 where version = :version;

-- name: keep
insert into {t}zone_rules (version, since, planned_at, data)
values (:version, :now, null, :data)
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
   set planned_at = :now
 where version = :version
   and planned_at is null;

-- name: upto
-- The last of so many alarms behind one; nothing where there are fewer.
select id
  from {t}alarms
 where id > :after
 order by id
 limit 1 offset :looked_at - 1;

-- name: alarms
-- A zone can also be named in the expression itself.
select {alarm columns}
  from {t}alarms
 where id > :after
   and (:upto = '' or id <= :upto)
   and status in ('active', 'paused')
   and (timezone in (select value from json_each(:names)) or instr(cron_expr, 'TZ') > 0)
 order by id;
