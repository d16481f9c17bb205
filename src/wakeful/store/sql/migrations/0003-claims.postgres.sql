-- The last claim of each process, by its token: one whose answer was lost on the way takes its alarms back.
create table {t}claim_tokens (
    claimer    uuid primary key,
    token      uuid not null,
    at         timestamptz not null,
    alarm_ids  uuid[] not null,
    numbers    integer[] not null -- of the claims, in the same order
);
