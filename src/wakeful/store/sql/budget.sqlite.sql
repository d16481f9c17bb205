-- What was used of budgets; see store/budget.py and alarm/budget.py.

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

-- name: forget_counts
delete from {t}budget_counts
 where starts_at < :before
returning 1;
