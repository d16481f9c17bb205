-- The statements of access and settings, by name: tokens, keys, what owners set, counts of budgets, what checks have seen.

-- name: new_report_key
insert into {t}secrets (name, value)
values ('report', ?1)
    on conflict do nothing;

-- name: report_keys
select name, value
  from {t}secrets
 where name in ('report', 'report-1', 'report-2');

-- name: held_report_keys
-- One writer at a time: whoever asks inside its transaction holds them.
select name, value
  from {t}secrets
 where name in ('report', 'report-1', 'report-2');

-- name: put_report_keys
insert into {t}secrets (name, value)
values {rows}
    on conflict (name) do update
   set value = excluded.value;

-- name: auth_state
select value
  from {t}secrets
 where name = 'door';

-- name: open_auth
insert into {t}secrets (name, value)
values ('door', cast('open' as blob))
    on conflict (name) do update
   set value = excluded.value;

-- name: add_token
insert into {t}tokens ({token columns})
values {rows}
    on conflict do nothing;

-- name: tokens
select {token columns}
  from {t}tokens
 order by created_at, id;

-- name: token
select {token columns}
  from {t}tokens
 where id = :id;

-- name: update_token
update {t}tokens
   set revoked_at = coalesce(revoked_at, :revoked_at),
       last_used_at = coalesce(max(coalesce(last_used_at, 0), :last_used_at), last_used_at)
 where id = :id;

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

-- name: held_counts
-- Only the writer asks, and nobody else writes before it is done.
select {count columns}
  from {t}budget_counts
 where (scope, id, period, starts_at)
    in (select value ->> 0, value ->> 1, value ->> 2, value ->> 3 from json_each(:keys));

-- name: counts
select {count columns}
  from {t}budget_counts
 where (scope, id, period, starts_at)
    in (select value ->> 0, value ->> 1, value ->> 2, value ->> 3 from json_each(:keys));

-- name: put_counts
insert into {t}budget_counts ({count columns})
values {rows}
    on conflict (scope, id, period, starts_at) do update
   set wakes = excluded.wakes,
       told = excluded.told;

-- name: add_costs
insert into {t}budget_counts as known ({count columns})
values {rows}
    on conflict (scope, id, period, starts_at) do update
   set cost = known.cost + excluded.cost;

-- name: check_value
select value
  from {t}check_values
 where alarm_id = :alarm_id
   and name = :name;

-- name: keep_seen
insert into {t}check_values (alarm_id, name, value)
values {rows}
    on conflict (alarm_id, name) do update
   set value = excluded.value;
