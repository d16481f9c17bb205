-- Whether the server may be entered without a token: nothing here, and no token was ever made; `closed` from the first
-- one on, whoever writes it and however it ends; `open` where the operator said so since. A row of `secrets`.
create function {t}close_door() returns trigger
    language plpgsql
    set search_path from current
as $$
begin
    insert into {t}secrets as door (name, value)
    values ('door', 'closed')
        on conflict (name) do update
       set value = excluded.value
     where door.value <> excluded.value;
    return null;
end
$$;

create trigger {p}tokens_close after insert on {t}tokens
    for each row execute function {t}close_door();

insert into {t}secrets (name, value)
select 'door',
       'closed'
 where exists (select from {t}tokens);
