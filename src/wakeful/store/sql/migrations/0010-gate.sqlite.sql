-- Alarms that wait for a signal, by its name: most wait for none, and cost these indexes nothing. A policy may have been
-- written by hand, so it is only asked where it is JSON.
create index {p}alarms_unless_idx
    on {t}alarms (owner_did, case when json_valid(policy) then json_extract(policy, '$.unless') end, id)
 where status = 'active' and case when json_valid(policy) then json_extract(policy, '$.unless') end is not null;
create index {p}alarms_or_when_idx
    on {t}alarms (owner_did, case when json_valid(policy) then json_extract(policy, '$.or_when') end, id)
 where status = 'active' and case when json_valid(policy) then json_extract(policy, '$.or_when') end is not null;

-- What an alarm's last wake told of a check: a digest.
create table {t}check_values (
    alarm_id text not null,
    name     text not null,
    value    text not null,
    primary key (alarm_id, name)
) strict;
