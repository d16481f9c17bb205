-- The SQL door: which table of another program is connected, what was changed in it, and the alarms its rows stand for.
create table {t}task_tables (
    name          text primary key,
    connected_at  timestamptz not null
);

create table {t}task_changes (
    seq      bigint generated always as identity primary key,
    task_id  text not null
);

create table {t}task_links (
    task_id   text primary key,
    alarm_id  text not null default '',
    seen      json not null, -- the row as wakeful last left it
    note      text not null default ''
);

create index {p}task_links_alarm_idx on {t}task_links (alarm_id) where alarm_id <> '';

-- Queues the id of a changed task, and nothing else. What wakeful writes itself it does not queue: see `write_back`.
create function {t}queue_task() returns trigger
    language plpgsql
    set search_path from current
as $$
begin
    if current_setting('wakeful.quiet', true) = 'on' then
        return null;
    elsif tg_op = 'TRUNCATE' then
        insert into {t}task_changes (task_id) select task_id from {t}task_links;
        return null;
    end if;
    if tg_op <> 'INSERT' then
        insert into {t}task_changes (task_id) values (old.id::text);
    end if;
    if tg_op = 'INSERT' or tg_op = 'UPDATE' and new.id is distinct from old.id then
        insert into {t}task_changes (task_id) values (new.id::text);
    end if;
    return null;
end
$$;
