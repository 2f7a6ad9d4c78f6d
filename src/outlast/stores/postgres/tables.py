"""The tables. `{s}` stands for the schema.

Names that people choose (of waits, nodes and tags) may be longer than an index takes, so they are indexed by their hash.
Text is compared byte by byte. Nothing refers to anything by a foreign key: a key would lock the head with every row.
"""

from __future__ import annotations

HEAD = """
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
create index head_ready on {s}.head (id) where ready and not closed;
create index head_open on {s}.head (id) where not closed;
"""

LOG = """
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
"""

CATALOGUE = """
create table {s}.catalogue (
    id bigint primary key,
    run text collate "C" not null,
    at bigint not null,
    status text collate "C" not null,
    workflow text collate "C" not null,
    parent text collate "C" not null,
    created bigint not null,
    updated bigint not null,
    text text collate "C" not null,
    body bytea not null
);
create index catalogue_created on {s}.catalogue (created, run);
create index catalogue_status on {s}.catalogue (status, created, run);
create index catalogue_workflow on {s}.catalogue (left(workflow, 200), created, run);
create index catalogue_parent on {s}.catalogue (parent, created, run) where parent != '';

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
"""

WAIT = """
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
"""

CLAIM = """
create table {s}.worker (
    id text collate "C" primary key,
    expires bigint not null
) with (fillfactor = 50);

create table {s}.claim (
    run bigint primary key,
    worker text collate "C" not null,
    epoch bigint not null
);
create index claim_worker on {s}.claim (worker);
"""

LINE = """
create table {s}.spoken (
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
"""

BLOB = """
create table {s}.blob (
    id bigint generated always as identity primary key,
    hash bytea unique,
    size bigint,
    touched timestamptz not null default now()
);
create index blob_unfinished on {s}.blob (touched) where hash is null;

create table {s}.chunk (
    blob bigint not null,
    number bigint not null,
    body bytea not null,
    primary key (blob, number)
);
alter table {s}.chunk alter column body set storage external;
"""

VIEW = """
-- One row per event, for people with a SQL prompt: a body is a JSON array in its exact bytes.
create view {s}.event as
    select head.run as run, log.first + item.place - 1 as seq, log.branch as branch,
           item.event ->> 'type' as type, item.event ->> 'node' as node,
           to_timestamp(log.time / 1000000.0) as time, item.event as body
    from {s}.log join {s}.head on head.id = log.run,
         json_array_elements(convert_from(log.body, 'UTF8')::json) with ordinality as item (event, place);
"""

TABLES = HEAD + LOG + CATALOGUE + WAIT + CLAIM + LINE + BLOB + VIEW
