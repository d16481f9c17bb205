-- What was used of budgets: wakes and reported cost (in millionths) of owners, alarms and chains, by hour and by day.
create table {t}budget_counts (
    scope      text not null,
    id         text not null,
    period     text not null,
    starts_at  integer not null,
    wakes      integer not null default 0,
    cost       integer not null default 0,
    told       integer not null default 0,
    primary key (scope, id, period, starts_at)
) strict;

create index {p}budget_counts_old_idx on {t}budget_counts (starts_at);
