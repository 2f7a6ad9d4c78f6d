-- The schema of a store.

-- `worker` holds the run. `interrupted` was its owner and did not release it, `cause` is the evidence for that. `timer` is
-- when the first timer is due that may wake the run; `due` says that a claim has found it due.
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
    worker text not null default '',
    claim_epoch integer not null,
    interrupted text not null default '',
    cause text not null default '',
    workflow text not null default '',
    queue text not null default '',
    priority integer not null default 0,
    fairness_key text not null default '',
    created integer not null default 0,
    timer integer,
    due integer not null default 0
);
create index head_open on head (id) where closed = 0;
create index head_ready on head (workflow, queue, priority, fairness_key, created)
    where worker = '' and closed = 0 and (ready = 1 or due = 1);
create index head_held on head (worker, workflow, queue, priority, fairness_key, created) where worker != '';
create index head_timer on head (timer) where worker = '' and due = 0 and timer is not null;

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
    queue text not null,
    held integer not null,
    created integer not null,
    text text not null,
    body blob not null
);
create index catalogue_created on catalogue (created, run);
create index catalogue_status on catalogue (status, created, run);
create index catalogue_workflow on catalogue (workflow, status, created, run);
create index catalogue_parent on catalogue (parent, created, run) where parent != '';
create index catalogue_queue on catalogue (queue, created, run) where queue != '';
create index catalogue_held on catalogue (created, run) where held = 1;

-- The trigrams of `catalogue.text`, for all rows up to the last one that is indexed. In `text_changed` are the ids of those
-- rows that were changed or removed since.
create virtual table run_text using fts5 (
    text, content = '', contentless_delete = 1, detail = none, tokenize = 'trigram case_sensitive 1'
);
create table text_changed (id integer primary key);

-- Search attributes. `kind` is the type of the value: 0 boolean, 1 number, 2 text, 3 time.
create table attribute (
    name text not null,
    kind integer not null,
    value not null,
    run text not null,
    id integer not null references head (id),
    primary key (name, kind, value, run)
) without rowid;
create index attribute_id on attribute (id, name);

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
create index wait_timer on wait (run, due) where kind = 'timer' and due is not null;
create index wait_kind on wait (kind, run, name);

create table worker (
    id text primary key,
    expires integer not null,
    seen integer not null,
    info text not null
) without rowid;

-- When runs of a workflow, and of one of its fairness keys, were last claimed.
create table workflow_turn (
    workflow text primary key,
    served integer not null
) without rowid;
create table key_turn (
    workflow text not null,
    fairness_key text not null,
    served integer not null,
    primary key (workflow, fairness_key)
) without rowid;
create index key_turn_served on key_turn (served);

create table slot (
    name text not null,
    run text not null,
    id integer not null references head (id),
    epoch integer not null,
    until text not null,
    primary key (name, run)
) without rowid;
create index slot_id on slot (id);

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

create table blob_use (
    run integer not null references head (id),
    blob text not null,
    primary key (run, blob)
) without rowid;
create index blob_use_blob on blob_use (blob);

-- What remains of deleted runs. `id` is the one that the run had in `head`; `purged` says that no other row has it.
create table tombstone (
    run text primary key,
    id integer unique,
    workflow text not null,
    status text not null,
    created integer not null,
    deleted integer not null,
    key text not null,
    by text not null,
    reason text not null,
    purged integer not null
) without rowid;
create index tombstone_unpurged on tombstone (id) where purged = 0;

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
