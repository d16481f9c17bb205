-- What owners say once for all their alarms; see store/owner_settings.py.

-- name: owner_settings
select timezone,
       date_order,
       working_days,
       calendar
  from {t}owner_settings
 where owner_did = :owner;

-- name: put_owner_settings
insert into {t}owner_settings (owner_did, timezone, date_order, working_days, calendar)
values (:owner, :timezone, :date_order, :working_days, :calendar)
    on conflict (owner_did) do update
   set timezone = excluded.timezone,
       date_order = excluded.date_order,
       working_days = excluded.working_days,
       calendar = excluded.calendar;
