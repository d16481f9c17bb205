-- The rules of all time zones that alarms were planned by: the edition in force and the one before it. An edition whose
-- `planned_at` is empty counts already, and alarms are being planned again.
create table {t}zone_rules (
    version    text primary key not null,
    since      integer not null,
    planned_at integer,
    data       blob not null
) strict;
