-- Reads that take no longer where there are a million rows.
--
-- What a purge may delete, the oldest first: an alarm is written here once, when it ends.
create index {p}alarms_ended_idx on {t}alarms (updated_at, id) where status in ('fired', 'failed', 'cancelled');
create index {p}events_at_idx on {t}events (at);

-- Few alarms are cancelled and few fires passed over, and they are listed and counted.
create index {p}alarms_cancelled_idx on {t}alarms (owner_did, created_at desc, id desc) where status = 'cancelled';
create index {p}fires_passed_idx on {t}fires (owner_did, scheduled_for) where status in ('skipped', 'snoozed');

-- All owners' fires, for the operator. The condition holds for every row: it is there so that a statement has to say it.
-- One that names an owner does not, and is never answered by going through everybody's rows for one owner's.
create index {p}fires_scheduled_idx on {t}fires (scheduled_for, alarm_id) where count > -1;
