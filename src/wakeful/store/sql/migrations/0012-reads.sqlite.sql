-- Reads that take no longer where there are a million rows.
--
-- What a purge may delete, the oldest first: an alarm is written here once, when it ends.
create index {p}alarms_ended_idx on {t}alarms (updated_at, id) where status in ('fired', 'failed', 'cancelled');
create index {p}events_at_idx on {t}events (at);

-- Few alarms are cancelled, and they are listed and counted.
create index {p}alarms_cancelled_idx on {t}alarms (owner_did, created_at desc, id desc) where status = 'cancelled';

-- What all owners have, for the operator. The conditions hold for every row: they are there so that a statement has to
-- say them. One that names an owner does not, and is never answered by going through everybody's rows for one owner's.
create index {p}alarms_created_idx on {t}alarms (created_at, id) where generation > -1;
create index {p}fires_scheduled_idx on {t}fires (scheduled_for, alarm_id) where count > -1;
