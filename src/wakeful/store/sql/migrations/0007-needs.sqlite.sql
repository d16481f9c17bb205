-- What needs somebody, found without reading what does not: few alarms are paused and few fires are being retried, so a
-- create writes neither of these, and a settlement only where an attempt has failed.
create index {p}alarms_paused_idx on {t}alarms (owner_did, created_at desc, id desc) where status = 'paused';
create index {p}fires_retrying_idx on {t}fires (owner_did, scheduled_for) where status = 'retrying';
