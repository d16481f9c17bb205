-- What owners say once for all their alarms. Empty: as the server's settings say.
create table {t}owner_settings (
    owner_did    text primary key not null,
    timezone     text not null default '',
    date_order   text not null default '',
    working_days text not null default '',
    calendar     text not null default ''
) strict;
