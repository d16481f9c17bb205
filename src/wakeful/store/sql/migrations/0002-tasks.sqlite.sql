-- The SQL door: which table of another program is connected, what was changed in it, and the alarms its rows stand for.
create table {t}task_tables (
    name          text primary key not null,
    connected_at  integer not null
) strict;

create table {t}task_changes (
    seq      integer primary key autoincrement,
    task_id  text not null
) strict;

create table {t}task_links (
    task_id   text primary key not null,
    alarm_id  text not null default '',
    seen      text not null, -- the row as wakeful last left it, as JSON
    note      text not null default ''
) strict;

create index {p}task_links_alarm_idx on {t}task_links (alarm_id) where alarm_id <> '';
