-- Nothing: an answer cannot get lost inside a process. PostgreSQL keeps the last claim of each process here.
select 1;
