-- The statements of access and settings, by name: tokens, keys, what owners set, counts of budgets, what checks have seen.

-- name: new_report_key
with moment as materialized (
    select set_config('lock_timeout', $1, true),
           set_config('synchronous_commit', 'on', true))
insert into {t}secrets (name, value)
select 'report', $2::bytea
  from moment
    on conflict do nothing;

-- name: report_keys
select name, value
  from {t}secrets
 where name in ('report', 'report-1', 'report-2');

-- name: held_report_keys
-- Whoever changes them holds the one that is always there. Read again afterwards: others may just have been added.
with moment as materialized (
    select set_config('lock_timeout', $1, true),
           set_config('synchronous_commit', 'on', true))
select secret.name
  from moment
 cross join {t}secrets as secret
 where secret.name = 'report'
   for update of secret;

-- name: put_report_keys
with turn as materialized (
    select pg_advisory_xact_lock(hashtextextended('{t}events', 0))),
add_events as (
    insert into {t}events ({event columns})
    select {event columns of event}
      from turn
     cross join unnest({event arrays from $3}) as event ({event columns}))
insert into {t}secrets (name, value)
select key.name, key.value
  from unnest($1::text[], $2::bytea[]) as key (name, value)
    on conflict (name) do update
   set value = excluded.value;

-- name: auth_state
select value
  from {t}secrets
 where name = 'door';

-- name: open_auth
with moment as materialized (
    select set_config('lock_timeout', $1, true),
           set_config('synchronous_commit', 'on', true)),
turn as materialized (
    select pg_advisory_xact_lock(hashtextextended('{t}events', 0))
      from moment),
add_events as (
    insert into {t}events ({event columns})
    select {event columns of event}
      from turn
     cross join unnest({event arrays from $2}) as event ({event columns}))
insert into {t}secrets (name, value)
select 'door',
       'open'::bytea
  from moment
    on conflict (name) do update
   set value = excluded.value;

-- name: add_token
with moment as materialized (
    select set_config('lock_timeout', $1, true),
           set_config('synchronous_commit', 'on', true))
insert into {t}tokens ({token columns})
select {token values from $2}
  from moment
    on conflict do nothing;

-- name: tokens
select {token columns}
  from {t}tokens
 order by created_at, id;

-- name: token
select {token columns}
  from {t}tokens
 where id = $1;

-- name: update_token
with moment as materialized (
    select set_config('lock_timeout', $1, true),
           set_config('synchronous_commit', 'on', true))
update {t}tokens
   set revoked_at = coalesce(revoked_at, $3::timestamptz),
       last_used_at = greatest(last_used_at, $4::timestamptz)
  from moment
 where id = $2
returning 1;

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

-- name: held_counts
-- Made where they are missing, and held until the transaction ends: whoever counts the same waits its turn. In one order
-- everywhere, so that two who share some wait for each other instead of blocking each other.
with moment as materialized (
    select set_config('lock_timeout', $1, true),
           set_config('synchronous_commit', 'on', true))
insert into {t}budget_counts as known (scope, id, period, starts_at)
select key.scope,
       key.id,
       key.period,
       key.starts_at
  from moment
 cross join unnest($2::text[], $3::text[], $4::text[], $5::timestamptz[]) as key (scope, id, period, starts_at)
 order by key.scope, key.id, key.period, key.starts_at
    on conflict (scope, id, period, starts_at) do update
   set wakes = known.wakes
returning {count columns};

-- name: counts
select {count columns of known}
  from unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[]) as key (scope, id, period, starts_at)
  join {t}budget_counts as known using (scope, id, period, starts_at);

-- name: put_counts
update {t}budget_counts as known
   set wakes = count.wakes,
       told = count.told
  from unnest({count arrays from $1}) as count ({count columns})
 where known.scope = count.scope
   and known.id = count.id
   and known.period = count.period
   and known.starts_at = count.starts_at;

-- name: add_costs
insert into {t}budget_counts as known (scope, id, period, starts_at, cost)
select count.scope,
       count.id,
       count.period,
       count.starts_at,
       sum(count.cost)
  from unnest({count arrays from $1}) as count ({count columns})
 group by count.scope, count.id, count.period, count.starts_at
 order by count.scope, count.id, count.period, count.starts_at
    on conflict (scope, id, period, starts_at) do update
   set cost = known.cost + excluded.cost;

-- name: check_value
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
