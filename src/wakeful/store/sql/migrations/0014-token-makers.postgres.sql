-- Which token made a token: an address of the calendar feed ends with the token that made it.
alter table {t}tokens add column made_by text not null default '';
