-- What was used of budgets; see store/budget.py and alarm/budget.py.

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

-- name: forget_counts
delete from {t}budget_counts
 where starts_at < $1
returning 1;
