-- The schema of a store.

create table head (
    id integer primary key,
    run text not null unique,
    version integer not null,
    digest blob not null,
    epoch integer not null,
    branch integer not null,
    branch_first integer not null,
    closed integer not null,
    ready integer not null,
    granted integer not null,
    interrupted text not null default ''
);
create index head_ready on head (id) where ready = 1 and closed = 0;
create index head_open on head (id) where closed = 0;

create table log (
    id integer primary key,
    run integer not null references head (id),
    first integer not null,
    count integer not null,
    branch integer not null,
    epoch integer not null,
    kind integer not null,
    append_id blob not null,
    time integer not null,
    body blob not null,
    digest blob not null
);
create unique index log_run_first on log (run, first);

create table catalogue (
    id integer primary key references head (id),
    run text not null,
    at integer not null,
    status text not null,
    workflow text not null,
    parent text not null,
    exclusive text not null,
    created integer not null,
    text text not null,
    body blob not null
);
create index catalogue_created on catalogue (created, run);
create index catalogue_status on catalogue (status, created, run);
create index catalogue_workflow on catalogue (workflow, created, run);
create index catalogue_parent on catalogue (parent, created, run) where parent != '';
create index catalogue_exclusive on catalogue (exclusive) where exclusive != '';

create table tag (
    tag text not null,
    run integer not null references head (id),
    primary key (tag, run)
) without rowid;
create index tag_run on tag (run);

create table scratch (
    run integer primary key references head (id),
    body blob not null
);

create table wait (
    run integer not null references head (id),
    name text not null,
    kind text not null,
    due integer,
    body blob not null,
    primary key (run, name)
) without rowid;
create index wait_due on wait (due) where due is not null;
create index wait_kind on wait (kind, run, name);

create table worker (
    id text primary key,
    expires integer not null,
    seen integer not null,
    workflows text not null
) without rowid;

create table claim (
    run integer primary key references head (id),
    worker text not null,
    epoch integer not null
);
create index claim_worker on claim (worker);

create table line (
    id integer primary key,
    run integer not null,
    number integer not null,
    node text not null,
    attempt integer not null,
    place integer not null,
    time integer not null,
    level text not null,
    logger text not null,
    text text not null
);
create unique index line_run_number on line (run, number);
create unique index line_attempt on line (run, node, attempt, place);

create table document (
    name text primary key,
    version text not null,
    body blob not null
) without rowid;

-- One row per event, for use at a SQL prompt. `log.body` is a JSON array; its exact bytes are hashed.
create view event as
    select head.run as run, log.first + item.key as seq, log.branch as branch,
           item.value ->> 'type' as type, item.value ->> 'node' as node,
           datetime(log.time / 1000000, 'unixepoch') as time, item.value as body
    from log join head on head.id = log.run, json_each(cast(log.body as text)) as item;
