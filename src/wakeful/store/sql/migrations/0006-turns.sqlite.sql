-- A target's owners one after the other, each with what it has due: claims that take them in turn walk along it.
create index {p}alarms_turns_idx on {t}alarms (target, owner_did, next_fire_at) where status = 'active';
