-- The rules of all time zones that alarms were planned by: the edition in force and the one before it. An edition whose
-- `planned_at` is empty counts already, and alarms are being planned again.
create table {t}zone_rules (
    version    text collate "C" primary key,
    since      timestamptz not null,
    planned_at timestamptz,
    data       bytea not null
);
