-- Nothing: another change takes this number.
select 1;
