-- Another program may insert into alarms what Chronos's table needs; the rest comes from here. A table that grew large is
-- not rewritten: defaults are only read when a row is inserted, so they may be changed in the schema's own text.
-- A row that wakeful writes names every column: the trigger is passed by.
pragma writable_schema = on;

update sqlite_master
   set sql = replace(replace(replace(replace(sql,
        'id               text primary key not null,',
        'id               text primary key not null default (printf(''%08x-%04x-7%s-%s%s-%s'','
        || ' cast((julianday(''now'') - 2440587.5) * 86400000 as integer) >> 16,'
        || ' cast((julianday(''now'') - 2440587.5) * 86400000 as integer) & 65535,'
        || ' substr(lower(hex(randomblob(2))), 2), substr(''89ab'', 1 + (random() & 3), 1),'
        || ' substr(lower(hex(randomblob(2))), 2), lower(hex(randomblob(6))))),'),
        'created_at       integer not null,',
        'created_at       integer not null default (cast((julianday(''now'') - 2440587.5) * 86400000 as integer)),'),
        'updated_at       integer not null,',
        'updated_at       integer not null default (cast((julianday(''now'') - 2440587.5) * 86400000 as integer)),'),
        'occurrence_at    integer not null,',
        'occurrence_at    integer not null default -1,')
 where type = 'table'
   and name = '{p}alarms';

create trigger {p}alarms_as_planned after insert on {t}alarms
when new.occurrence_at = -1
begin
    update {t}alarms
       set occurrence_at = next_fire_at,
           policy = case when cron_expr like '@every %' and policy is null
                         then '{"anchor":"' || strftime('%Y-%m-%dT%H:%M:%fZ', next_fire_at / 1000.0, 'unixepoch') || '"}'
                         else policy end
     where rowid = new.rowid;
end;

pragma writable_schema = reset;
