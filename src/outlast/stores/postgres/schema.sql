-- The schema of a store. `schema.py` replaces the names in braces.
--
-- User-defined names (of waits, nodes and tags) may be longer than an index entry, so indexes use their hash. Text is compared
-- byte by byte. There are no foreign keys: a foreign key would lock the head for every row.
--
-- Every statement in a function sees the rows committed before the statement began. So each function first locks the heads that
-- it needs, in the order of their ids, and then reads. Plans must use the indexes: a plan made for small tables would otherwise
-- scan large ones. A lock wait ends after ten seconds with the error "busy".

create schema if not exists {s};

-- A name of any length, shortened for an index entry. Distinct names stay distinct.
create function {s}.short(name text) returns text language sql immutable parallel safe as $$
    select case when length(name) <= 150 then name else left(name, 100) || md5(name) end $$;

create table {s}.migration (
    version int primary key,
    applied timestamptz not null default now()
);

create table {s}.head (
    id bigint generated always as identity primary key,
    run text collate "C" not null unique,
    version bigint not null,
    digest bytea not null,
    epoch bigint not null,
    branch bigint not null,
    branch_first bigint not null,
    closed boolean not null,
    ready boolean not null,
    granted bigint not null,
    interrupted text not null default ''
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
create index head_open on {s}.head (id) where not closed;

create table {s}.log (
    run bigint not null,
    first bigint not null,
    count bigint not null,
    branch bigint not null,
    epoch bigint not null,
    kind smallint not null,
    append_id bytea not null,
    time bigint not null,
    tx bigint not null,
    body bytea not null,
    digest bytea not null,
    primary key (run, first)
) with (autovacuum_vacuum_scale_factor = 0.02);
create index log_tx on {s}.log using brin (tx) with (pages_per_range = 16, autosummarize = on);

create table {s}.catalogue (
    id bigint primary key,
    run text collate "C" not null,
    at bigint not null,
    status text collate "C" not null,
    workflow text collate "C" not null,
    parent text collate "C" not null,
    queue text collate "C" not null,
    priority bigint not null,
    fairness_key text collate "C" not null,
    held boolean not null,
    created bigint not null,
    updated bigint not null,
    body bytea not null
);
create index catalogue_created on {s}.catalogue (created, run);
create index catalogue_status on {s}.catalogue (status, created, run);
create index catalogue_workflow on {s}.catalogue ({s}.short(workflow), status, created, run);
create index catalogue_parent on {s}.catalogue (parent, created, run) where parent != '';
create index catalogue_queue on {s}.catalogue ({s}.short(queue), created, run) where queue != '';
create index catalogue_held on {s}.catalogue (created, run) where held;

-- The text that a search looks through, in a narrow table that is read as a whole: its rows hardly change, and an index of
-- parts of text would cost more than everything else that is written when a run begins.
create table {s}.search_text (
    run bigint primary key,
    text text collate "C" not null
) with (parallel_workers = 2);

-- The search attributes of runs. `key` is the name, the type and the value in one text, whose order is that of the values.
create table {s}.attribute (
    run bigint not null,
    id text collate "C" not null,
    created bigint not null,
    key text collate "C" not null
);
create unique index attribute_run on {s}.attribute (run, key);
create index attribute_created on {s}.attribute (key, created, id);
create index attribute_key on {s}.attribute (key, id);

create table {s}.tag (
    run bigint not null,
    tag text collate "C" not null
);
create unique index tag_run on {s}.tag (run, md5(tag));
create index tag_tag on {s}.tag (md5(tag), run);

create table {s}.scratch (
    run bigint primary key,
    body bytea not null
) with (fillfactor = 50);

create table {s}.wait (
    id bigint generated always as identity primary key,
    run bigint not null,
    name text collate "C" not null,
    kind text collate "C" not null,
    due bigint,
    body bytea not null
);
create unique index wait_name on {s}.wait (run, md5(name));
create index wait_due on {s}.wait (due) where due is not null;
create index wait_kind on {s}.wait (kind, id);

-- `session` is when the worker acquired its lock, 0 if it holds none; `free_since` is when the lock was found free since then.
create table {s}.worker (
    id text collate "C" primary key,
    expires bigint not null,
    seen bigint not null,
    info text not null,
    session bigint not null,
    free_since bigint
) with (fillfactor = 50);

create table {s}.claim (
    run bigint primary key,
    worker text collate "C" not null,
    epoch bigint not null,
    workflow text collate "C" not null,
    fairness_key text collate "C" not null,
    queue text collate "C" not null,
    priority bigint not null,
    created bigint not null
);
create index claim_worker on {s}.claim (worker, workflow, fairness_key, queue, priority desc, created, run);

-- The runs that nobody holds and that may be claimed: now (`due` is 0), or from a time on. Long names are shortened.
create table {s}.claimable (
    run bigint primary key,
    workflow text collate "C" not null,
    fairness_key text collate "C" not null,
    queue text collate "C" not null,
    priority bigint not null,
    created bigint not null,
    due bigint not null
) with (autovacuum_vacuum_scale_factor = 0.02);
create index claimable_now on {s}.claimable (workflow, fairness_key, queue, priority desc, created, run) where due = 0;
create index claimable_due on {s}.claimable (due) where due > 0;

-- When a workflow, or one of its fairness keys, was last served by a claim.
create table {s}.turn (
    workflow text collate "C" not null,
    of_key boolean not null,
    fairness_key text collate "C" not null,
    served bigint not null,
    primary key (workflow, of_key, fairness_key)
) with (fillfactor = 50);
create index turn_served on {s}.turn (served);

create table {s}.slot (
    name text collate "C" not null,
    run text collate "C" not null,
    epoch bigint not null,
    until text collate "C" not null
);
create unique index slot_name on {s}.slot ({s}.short(name), run);
create index slot_run on {s}.slot (run);

-- `id` is the number of the deleted run while rows of it remain.
create table {s}.tombstone (
    run text collate "C" primary key,
    id bigint,
    body bytea not null
);
create index tombstone_id on {s}.tombstone (id) where id is not null;

create table {s}.line_count (
    run bigint primary key,
    number bigint not null
) with (fillfactor = 50);

create table {s}.line (
    run bigint not null,
    number bigint not null,
    node text collate "C" not null,
    attempt bigint not null,
    place bigint not null,
    time bigint not null,
    level text not null,
    logger text not null,
    text text not null,
    primary key (run, number)
);
create unique index line_attempt on {s}.line (run, md5(node), attempt, place);

create table {s}.document (
    name text collate "C" primary key,
    version text collate "C" not null,
    body bytea not null
);

create table {s}.blob (
    id bigint generated always as identity primary key,
    hash bytea unique,
    size bigint,
    put bigint not null
);
create index blob_put on {s}.blob (put) where hash is not null;
create index blob_unfinished on {s}.blob (put) where hash is null;

-- The blobs that the log of a run names.
create table {s}.blob_use (
    run bigint not null,
    hash bytea not null,
    primary key (run, hash)
);
create index blob_use_hash on {s}.blob_use (hash);

create table {s}.chunk (
    blob bigint not null,
    number bigint not null,
    body bytea not null,
    primary key (blob, number)
);
alter table {s}.chunk alter column body set storage external;

-- One row per event, for use at a SQL prompt. `log.body` is a JSON array; its exact bytes are hashed.
create view {s}.event as
    select head.run as run, log.first + item.place - 1 as seq, log.branch as branch,
           item.event ->> 'type' as type, item.event ->> 'node' as node,
           to_timestamp(log.time / 1000000.0) as time, item.event as body
    from {s}.log join {s}.head on head.id = log.run,
         json_array_elements(convert_from(log.body, 'UTF8')::json) with ordinality as item (event, place);
