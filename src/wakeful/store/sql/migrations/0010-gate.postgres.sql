-- Alarms that wait for a signal, by its name: most wait for none, and cost these indexes nothing.
create index {p}alarms_unless_idx on {t}alarms (owner_did, (policy ->> 'unless'), id)
 where status = 'active' and policy ->> 'unless' is not null;
create index {p}alarms_or_when_idx on {t}alarms (owner_did, (policy ->> 'or_when'), id)
 where status = 'active' and policy ->> 'or_when' is not null;

-- What an alarm's last wake told of a check: a digest.
create table {t}check_values (
    alarm_id uuid not null,
    name     text collate "C" not null,
    value    text not null,
    primary key (alarm_id, name)
);
