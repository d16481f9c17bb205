-- Room for as many rows again on each new page: a batch of claims rewrites neighbours, and with less than half of the page
-- free the last of them went elsewhere and rewrote every index. Pages that are full stay as they are.
alter table {t}alarms set (fillfactor = 50);
