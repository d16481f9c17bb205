-- What owners say once for all their alarms; see store/owner_settings.py.

-- name: owner_settings
select timezone,
       date_order,
       working_days,
       calendar
  from {t}owner_settings
 where owner_did = $1;

-- name: put_owner_settings
insert into {t}owner_settings (owner_did, timezone, date_order, working_days, calendar)
values ($1, $2, $3, $4, $5)
    on conflict (owner_did) do update
   set timezone = excluded.timezone,
       date_order = excluded.date_order,
       working_days = excluded.working_days,
       calendar = excluded.calendar;
