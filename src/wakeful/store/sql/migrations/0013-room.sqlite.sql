-- PostgreSQL's tables get room for claims; here a row is changed in its place.
select 1;
