-- Whether the server may be entered without a token: nothing here, and no token was ever made; `closed` from the first
-- one on, whoever writes it and however it ends; `open` where the operator said so since. A row of `secrets`.
create trigger {p}tokens_close after insert on {t}tokens
begin
    insert into {t}secrets (name, value)
    values ('door', cast('closed' as blob))
        on conflict (name) do update
       set value = excluded.value;
end;

insert into {t}secrets (name, value)
select 'door',
       cast('closed' as blob)
 where exists (select 1 from {t}tokens);
