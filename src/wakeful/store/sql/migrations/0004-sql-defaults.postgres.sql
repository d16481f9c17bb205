-- Another program may insert into alarms what Chronos's table needs; the rest comes from here. Nothing is rewritten, and
-- a row that wakeful writes names every column: the trigger is passed by.
alter table {t}alarms
    alter column id set default (
        lpad(to_hex(floor(extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0')
        || '7' || substr(gen_random_uuid()::text, 16))::uuid,
    alter column created_at set default date_trunc('milliseconds', now()),
    alter column updated_at set default date_trunc('milliseconds', now());

create function {t}alarms_as_planned() returns trigger language plpgsql as $$
begin
    -- Round up to whole milliseconds: an alarm is never early.
    new.fire_at := date_trunc('milliseconds', new.fire_at + interval '999 microseconds');
    new.next_fire_at := date_trunc('milliseconds', new.next_fire_at + interval '999 microseconds');
    new.created_at := date_trunc('milliseconds', new.created_at);
    new.updated_at := date_trunc('milliseconds', new.updated_at);
    new.occurrence_at := new.next_fire_at;
    if new.cron_expr like '@every %' and new.policy is null then
        new.policy := json_build_object(
            'anchor', to_char(new.next_fire_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'));
    end if;
    return new;
end $$;

create trigger {p}alarms_as_planned before insert on {t}alarms
    for each row when (new.occurrence_at is null) execute function {t}alarms_as_planned();
