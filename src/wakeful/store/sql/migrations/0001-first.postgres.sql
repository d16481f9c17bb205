-- The first schema. Moments are whole milliseconds; payload is json, not jsonb: it is kept byte for byte.
create table {t}alarms (
    id               uuid primary key,
    owner_did        text not null,
    user_id          text not null,
    label            text not null default '',
    kind             text not null check (kind in ('once', 'cron')),
    fire_at          timestamptz,
    cron_expr        text not null default '',
    timezone         text not null default 'UTC',
    next_fire_at     timestamptz not null,
    conversation_id  text not null default '',
    wake_message     text not null default '',
    payload          json not null default '{}',
    status           text not null default 'active'
                     check (status in ('active', 'paused', 'fired', 'cancelled', 'failed')),
    idempotency_key  text not null default '',
    max_failures     integer not null default 5,
    failure_count    integer not null default 0,
    last_error       text not null default '',
    claimed_at       timestamptz,
    created_at       timestamptz not null,
    updated_at       timestamptz not null,
    last_fired_at    timestamptz,
    target           text not null default 'inbox',
    occurrence_at    timestamptz not null,
    claim            integer not null default 0,
    unsettled        integer not null default 0,
    version          integer not null default 1,
    awaiting         timestamptz,
    policy           json,
    fire_count       integer not null default 0,
    failed_in_a_row  integer not null default 0,
    created_by       text not null default '',
    created_via      text not null default '',
    paused_reason    text not null default '',
    cancelled_at     timestamptz,
    isolated         boolean not null default false,
    parent_fire      text not null default '',
    root_id          text not null default '',
    generation       integer not null default 0
) with (fillfactor = 70); -- room on the page: a claim then rewrites no index

create index {p}alarms_due_idx on {t}alarms (target, next_fire_at) where status = 'active';
create index {p}alarms_owner_idx on {t}alarms (owner_did, created_at desc, id desc);
create unique index {p}alarms_idempotency_idx on {t}alarms (owner_did, idempotency_key) where idempotency_key <> '';
create index {p}alarms_root_idx on {t}alarms (root_id) where root_id <> '';

create table {t}fires (
    alarm_id         uuid not null,
    scheduled_for    timestamptz not null,
    owner_did        text not null,
    target           text not null,
    status           text not null check (status in ('retrying', 'waiting', 'delivered', 'completed', 'failed',
                                                     'timed_out', 'snoozed', 'skipped')),
    reason           text not null default '',
    attempts         integer not null default 0,
    failures         integer not null default 0,
    started_at       timestamptz,
    delivered_at     timestamptz,
    report_by        timestamptz,
    completed_at     timestamptz,
    duration_ms      bigint,
    result           text not null default '',
    last_error       text not null default '',
    log              json not null default '[]',
    through          timestamptz,
    count            integer not null default 1,
    updated_at       timestamptz not null,
    primary key (alarm_id, scheduled_for)
);

create index {p}fires_owner_idx on {t}fires (owner_did, scheduled_for desc, alarm_id desc);
create index {p}fires_updated_idx on {t}fires (updated_at);
create index {p}fires_report_idx on {t}fires (report_by) where report_by is not null;
create index {p}fires_waiting_idx on {t}fires (owner_did, scheduled_for) where status = 'waiting';
create index {p}fires_failed_idx on {t}fires (owner_did, scheduled_for) where status in ('failed', 'timed_out');

-- Who may speak for an owner; the token itself is never kept, only its hash.
create table {t}tokens (
    id               text primary key,
    owner_did        text not null,
    hash             bytea not null,
    scopes           text not null default 'read,write',
    label            text not null default '',
    created_at       timestamptz not null,
    expires_at       timestamptz,
    last_used_at     timestamptz,
    revoked_at       timestamptz
);

-- Which process serves which targets and handlers, and when it was last seen.
create table {t}workers (
    id               text primary key,
    host             text not null,
    pid              integer not null,
    version          text not null,
    started_at       timestamptz not null,
    seen_at          timestamptz not null,
    stopped_at       timestamptz,
    targets          json not null default '[]',
    handlers         json not null default '[]'
);

create table {t}target_states (
    target             text primary key,
    paused_at          timestamptz,
    paused_by          text not null default '',
    paused_reason      text not null default '',
    breaker_opened_at  timestamptz,
    last_error         text not null default '',
    updated_at         timestamptz not null
);

-- What somebody did, for live views and `why`. A hint for readers: no alarm depends on it.
create table {t}events (
    seq              bigint generated always as identity primary key,
    at               timestamptz not null,
    what             text not null,
    alarm_id         text not null default '',
    owner_did        text not null default '',
    fire_id          text not null default '',
    by               text not null default '',
    reason           text not null default ''
);

create index {p}events_alarm_idx on {t}events (alarm_id, seq);

-- One row: the key of report tokens.
create table {t}secrets (
    name             text primary key,
    value            bytea not null
);
