-- The schema of a store. `schema.py` replaces the names in braces.
--
-- User-defined names (of waits, nodes and tags) may be longer than an index entry, so indexes use their hash. Text is compared
-- byte by byte. There are no foreign keys: a foreign key would lock the head for every row.
--
-- Every statement in a function sees the rows committed before the statement began. So each function first locks the heads that
-- it needs, in the order of their ids, and then reads. Plans must use the indexes: a plan made for small tables would otherwise
-- scan large ones. A lock wait ends after ten seconds with the error "busy".

create schema if not exists {s};

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
create index head_ready on {s}.head (id) where ready and not closed;
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
    exclusive text collate "C" not null,
    created bigint not null,
    updated bigint not null,
    text text collate "C" not null,
    body bytea not null
);
create index catalogue_created on {s}.catalogue (created, run);
create index catalogue_status on {s}.catalogue (status, created, run);
create index catalogue_workflow on {s}.catalogue (left(workflow, 200), created, run);
create index catalogue_parent on {s}.catalogue (parent, created, run) where parent != '';
create index catalogue_exclusive on {s}.catalogue (md5(exclusive)) where exclusive != '';

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

create table {s}.worker (
    id text collate "C" primary key,
    expires bigint not null,
    seen bigint not null,
    workflows text not null
) with (fillfactor = 50);

create table {s}.claim (
    run bigint primary key,
    worker text collate "C" not null,
    epoch bigint not null
);
create index claim_worker on {s}.claim (worker);

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

create table {s}.document (
    name text collate "C" primary key,
    version text collate "C" not null,
    body bytea not null
);

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

-- One row per event, for use at a SQL prompt. `log.body` is a JSON array; its exact bytes are hashed.
create view {s}.event as
    select head.run as run, log.first + item.place - 1 as seq, log.branch as branch,
           item.event ->> 'type' as type, item.event ->> 'node' as node,
           to_timestamp(log.time / 1000000.0) as time, item.event as body
    from {s}.log join {s}.head on head.id = log.run,
         json_array_elements(convert_from(log.body, 'UTF8')::json) with ordinality as item (event, place);

create function {s}.clock(skew bigint) returns bigint language sql volatile as $$
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint + skew $$;

-- Sets whether the commit of this transaction waits for the disk, overriding the setting of the database.
create function {s}.flushed(relaxed boolean) returns void language plpgsql as $$
begin
    if relaxed then
        perform set_config('synchronous_commit', 'off', true);
    elsif current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
end $$;

-- Writes appends of different runs, each completely or not at all. Returns the losing ones with the reason and the tail.
create function {s}.append(
    runs text[], firsts bigint[], counts bigint[], branches bigint[], epochs bigint[], kinds smallint[], append_ids bytea[],
    times bigint[], bodies bytea[], digests bytea[],
    versions bigint[], head_digests bytea[], head_epochs bigint[], head_branches bigint[], branch_firsts bigint[],
    closes_run boolean[], readies boolean[], releases boolean[], claimants text[],
    summary_at int[], summary_runs text[], summary_versions bigint[], statuses text[], workflows text[], parents text[],
    exclusives text[], createds bigint[], updateds bigint[], texts text[], summaries bytea[],
    tag_at int[], tags text[],
    need_at int[], need_runs text[], needs text[],
    close_at int[], closes text[],
    open_at int[], opens text[], open_kinds text[], open_dues bigint[], open_bodies bytea[],
    has_births boolean, has_claims boolean, has_releases boolean, relaxed boolean
) returns table (
    lost int, why text, version bigint, digest bytea, epoch bigint, branch bigint, branch_first bigint, closed boolean,
    ready boolean, tail_first bigint, tail_count bigint, tail_branch bigint, tail_epoch bigint, tail_kind smallint,
    tail_id bytea, tail_time bigint, tail_body bytea, tail_digest bytea
) language plpgsql {by_index} as $$
#variable_conflict use_column
declare
    size int := cardinality(runs);
    ids bigint[] := array_fill(null::bigint, array[cardinality(runs)]);
    unmet int[] := '{}';
    fresh boolean[];
    landed int := 0;
    place int;
    found_id bigint;
    this_tx bigint;
begin
    perform {s}.flushed(relaxed);
    perform 1 from {s}.head h where h.run = any(runs) order by h.id for update;
    if cardinality(needs) > 0 then
        unmet := array(
            select n.at from unnest(need_at, need_runs, needs) as n (at, run, name)
            where not exists (
                select 1 from {s}.head h join {s}.wait w on w.run = h.id and md5(w.name) = md5(n.name)
                where h.run = n.run));
    end if;
    for place, found_id in
        update {s}.head h set version = a.version, digest = a.digest, epoch = a.head_epoch, branch = a.branch,
            branch_first = a.branch_first, closed = a.closed,
            ready = case when a.release or a.epoch = 0 then a.ready else h.ready end,
            interrupted = case when a.release then ''
                when a.kind = 2 then coalesce((select c.worker from {s}.claim c where c.run = h.id), '')
                else h.interrupted end
        from unnest(runs, firsts, kinds, epochs, versions, head_digests, head_epochs, head_branches, branch_firsts,
                    closes_run, readies, releases) with ordinality
            as a (run, first, kind, epoch, version, digest, head_epoch, branch, branch_first, closed, ready, release, at)
        where h.run = a.run and h.version = a.first - 1
            and case a.kind when 1 then h.epoch = a.epoch when 2 then h.epoch < a.epoch else true end
            and not a.at = any(unmet)
        returning a.at, h.id
    loop
        ids[place] := found_id;
        landed := landed + 1;
    end loop;
    if has_births then
        fresh := array(
            select a.first = 1 and a.kind != 2 and not a.at = any(unmet)
                and not exists (select 1 from {s}.head h where h.run = a.run)
            from unnest(runs, firsts, kinds) with ordinality as a (run, first, kind, at) order by a.at);
        insert into {s}.head (run, version, digest, epoch, branch, branch_first, closed, ready, granted, interrupted)
        select a.run, a.version, a.digest, a.epoch, a.branch, a.branch_first, a.closed, a.ready, a.epoch,
            coalesce(a.claimant, '')
        from unnest(fresh, runs, versions, head_digests, head_epochs, head_branches, branch_firsts, closes_run, readies,
                    claimants)
            as a (is_fresh, run, version, digest, epoch, branch, branch_first, closed, ready, claimant)
        where a.is_fresh order by a.run
        on conflict (run) do nothing;
        for place, found_id in
            select a.at, h.id
            from unnest(fresh, runs) with ordinality as a (is_fresh, run, at) join {s}.head h on h.run = a.run
            where a.is_fresh and h.xmin = pg_current_xact_id()::xid  -- else another transaction created it
        loop
            ids[place] := found_id;
            landed := landed + 1;
        end loop;
    end if;
    if landed > 0 then
        this_tx := pg_current_xact_id()::text::bigint;
        insert into {s}.log (run, first, count, branch, epoch, kind, append_id, time, tx, body, digest)
        select a.id, a.first, a.count, a.branch, a.epoch, a.kind, a.append_id, a.time, this_tx, a.body, a.digest
        from unnest(ids, firsts, counts, branches, epochs, kinds, append_ids, times, bodies, digests)
            as a (id, first, count, branch, epoch, kind, append_id, time, body, digest)
        where a.id is not null;
        if cardinality(summary_at) > 0 then
            insert into {s}.catalogue as c (id, run, at, status, workflow, parent, exclusive, created, updated, text, body)
            select ids[a.place], a.run, a.at, a.status, a.workflow, a.parent, a.exclusive, a.created, a.updated, a.text,
                a.body
            from unnest(summary_at, summary_runs, summary_versions, statuses, workflows, parents, exclusives, createds,
                        updateds, texts, summaries)
                as a (place, run, at, status, workflow, parent, exclusive, created, updated, text, body)
            where ids[a.place] is not null
            on conflict (id) do update set at = excluded.at, status = excluded.status, workflow = excluded.workflow,
                parent = excluded.parent, exclusive = excluded.exclusive, created = excluded.created,
                updated = excluded.updated, text = excluded.text, body = excluded.body;
            delete from {s}.tag t using unnest(summary_at) as a (place) where t.run = ids[a.place];
            if cardinality(tag_at) > 0 then
                insert into {s}.tag (run, tag)
                select ids[a.place], a.tag from unnest(tag_at, tags) as a (place, tag) where ids[a.place] is not null;
            end if;
        end if;
        if cardinality(close_at) > 0 then
            delete from {s}.wait w using unnest(close_at, closes) as a (place, name)
            where w.run = ids[a.place] and md5(w.name) = md5(a.name);
        end if;
        if cardinality(open_at) > 0 then
            insert into {s}.wait (run, name, kind, due, body)
            select ids[a.place], a.name, a.kind, a.due, a.body
            from unnest(open_at, opens, open_kinds, open_dues, open_bodies) as a (place, name, kind, due, body)
            where ids[a.place] is not null
            on conflict (run, md5(name)) do update set kind = excluded.kind, due = excluded.due, body = excluded.body;
        end if;
        if has_claims then
            insert into {s}.claim (run, worker, epoch)
            select a.id, a.worker, a.epoch from unnest(ids, claimants, epochs) as a (id, worker, epoch)
            where a.id is not null and a.worker is not null
            on conflict (run) do update set worker = excluded.worker, epoch = excluded.epoch;
        end if;
        if has_releases then
            delete from {s}.claim c using unnest(ids, epochs, releases) as a (id, epoch, release)
            where a.release and c.run = a.id and c.epoch = a.epoch;
        end if;
    end if;
    if landed < size then
        return query
        select a.at::int,
            case when coalesce(h.version, 0) != a.first - 1 then 'version'
                 when a.kind = 1 and h.epoch != a.epoch or a.kind = 2 and coalesce(h.epoch >= a.epoch, true) then 'epoch'
                 when a.at = any(unmet) then 'wait'
                 else 'version' end,
            h.version, h.digest, h.epoch, h.branch, h.branch_first, h.closed, h.ready,
            t.first, t.count, t.branch, t.epoch, t.kind, t.append_id, t.time, t.body, t.digest
        from unnest(runs, ids, firsts, kinds, epochs) with ordinality as a (run, id, first, kind, epoch, at)
        left join {s}.head h on h.run = a.run
        left join lateral (
            select * from {s}.log l
            where l.run = h.id and h.version != a.first - 1 and l.first <= h.version and l.first + l.count > a.first
                and l.first >= coalesce(
                    (select max(o.first) from {s}.log o where o.run = h.id and o.first <= a.first), a.first)
            order by l.first limit 256) t on true
        where a.id is null
        order by a.at, t.first;
    end if;
end $$;

-- Claims up to `most` runs: the `named` ones, or those with an expired lease and those that are ready.
create function {s}.claim_runs(claimant text, skew bigint, named text[], workflows text[], most bigint)
returns table (run text, epoch bigint, previous text) language plpgsql {by_index} as $$
#variable_conflict use_column
declare
    candidates bigint[];
    given int := 0;
    got int;
begin
    loop
        exit when given >= most;
        if named is not null then
            candidates := array(select h.id from {s}.head h where h.run = any(named) order by h.id for update);
        else
            candidates := array(
                select h.id from {s}.claim c join {s}.head h on h.id = c.run
                where c.worker = any(array(
                        select held.worker from (
                            with recursive holder as (
                                (select min(worker) as worker from {s}.claim)
                                union all
                                select (select min(worker) from {s}.claim o where o.worker > holder.worker)
                                from holder where holder.worker is not null)
                            select worker from holder where worker is not null) held
                        left join {s}.worker w on w.id = held.worker
                        where held.worker != claimant and coalesce(w.expires, 0) <= {s}.clock(skew)))
                    and (workflows is null
                         or exists (select 1 from {s}.catalogue k where k.id = h.id and k.workflow = any(workflows)))
                limit most - given for update of h skip locked);
            candidates := candidates || array(
                select h.id from {s}.head h
                where h.ready and not h.closed and not exists (select 1 from {s}.claim c where c.run = h.id)
                    and (workflows is null
                         or exists (select 1 from {s}.catalogue k where k.id = h.id and k.workflow = any(workflows)))
                order by h.id limit greatest(0, most - given - cardinality(candidates)) for update of h skip locked);
        end if;
        exit when cardinality(candidates) = 0;
        return query
        with free as (
            select h.id, c.worker as holder
            from {s}.head h left join {s}.claim c on c.run = h.id left join {s}.worker w on w.id = c.worker
            where h.id = any(candidates)
                and (c.worker is null or (named is not null and c.worker = claimant)
                     or (c.worker != claimant and coalesce(w.expires, 0) <= {s}.clock(skew)))
                and (named is not null or c.worker is not null or (h.ready and not h.closed))
            order by case when named is null then 0 else array_position(named, h.run) end, h.id
            limit most - given),
        granted as (
            update {s}.head h set granted = greatest(h.granted, h.epoch) + 1,
                interrupted = case when free.holder is null or free.holder = claimant then h.interrupted else free.holder end
            from free where h.id = free.id
            returning h.id, h.run, h.granted as epoch, h.interrupted),
        taken as (
            insert into {s}.claim (run, worker, epoch) select g.id, claimant, g.epoch from granted g
            on conflict (run) do update set worker = excluded.worker, epoch = excluded.epoch)
        select g.run, g.epoch, case when g.interrupted = claimant then '' else g.interrupted end
        from granted g order by g.id;
        get diagnostics got = row_count;
        given := given + got;
        exit when named is not null;
    end loop;
end $$;

create function {s}.retire(leaver text) returns void language plpgsql as $$
begin
    perform 1 from {s}.head h join {s}.claim c on c.run = h.id where c.worker = leaver order by h.id for update of h;
    update {s}.head h set ready = true, interrupted = case when h.interrupted = leaver then '' else h.interrupted end
    from {s}.claim c where c.run = h.id and c.worker = leaver;
    delete from {s}.claim where worker = leaver;
    delete from {s}.worker where id = leaver;
end $$;

-- Releases a run if its log is still at that version; else returns false.
create function {s}.release(given text, holder text, known bigint, is_ready boolean) returns boolean language plpgsql as $$
declare
    found_id bigint;
    found_version bigint;
begin
    select h.id, h.version into found_id, found_version from {s}.head h where h.run = given for update;
    if not exists (select 1 from {s}.claim c where c.run = found_id and c.worker = holder) then
        return true;
    end if;
    if found_version != known then
        return false;
    end if;
    delete from {s}.claim where run = found_id;
    update {s}.head set ready = is_ready, interrupted = case when interrupted = holder then '' else interrupted end
    where id = found_id;
    return true;
end $$;

-- Numbers and stores lines, except those that later lines of the same call would displace.
create function {s}.keep(
    runs text[], nodes text[], attempts bigint[], times bigint[], levels text[], loggers text[], texts text[], most bigint
) returns void language plpgsql {by_index} as $$
declare
    ids bigint[];
begin
    perform set_config('synchronous_commit', 'off', true);
    ids := array(select (select h.id from {s}.head h where h.run = a.run) from unnest(runs) with ordinality as a (run, at)
                 order by a.at);
    insert into {s}.spoken (run, number)
    select distinct a.id, 0 from unnest(ids) as a (id) where a.id is not null order by 1 on conflict do nothing;
    perform 1 from {s}.spoken p where p.run = any(ids) order by p.run for update;
    with numbered as (
        select a.*, row_number() over (partition by a.id order by a.at) as nth,
            row_number() over (partition by a.id, a.node, a.attempt order by a.at) as nth_of_attempt,
            count(*) over (partition by a.id, a.node, a.attempt) as of_attempt
        from unnest(ids, nodes, attempts, times, levels, loggers, texts) with ordinality
            as a (id, node, attempt, time, level, logger, text, at)
        where a.id is not null)
    insert into {s}.line (run, number, node, attempt, place, time, level, logger, text)
    select t.id, p.number + t.nth, t.node, t.attempt, coalesce(o.place, 0) + t.nth_of_attempt, t.time, t.level,
        t.logger, t.text
    from numbered t join {s}.spoken p on p.run = t.id
    left join lateral (
        select l.place from {s}.line l where l.run = t.id and md5(l.node) = md5(t.node) and l.attempt = t.attempt
        order by l.place desc limit 1) o on true
    where t.nth_of_attempt > t.of_attempt - most;
    update {s}.spoken p set number = p.number + a.added
    from (select id, count(*) as added from unnest(ids) as i (id) where id is not null group by id) a where p.run = a.id;
    delete from {s}.line l using (
        select a.id, a.node, a.attempt, (
            select max(n.place) from {s}.line n
            where n.run = a.id and md5(n.node) = md5(a.node) and n.attempt = a.attempt) as newest
        from (select distinct id, node, attempt from unnest(ids, nodes, attempts) as u (id, node, attempt)
              where id is not null) a) b
    where l.run = b.id and md5(l.node) = md5(b.node) and l.attempt = b.attempt and l.place <= b.newest - most;
end $$;

-- Replaces a summary if the stored one still has the version `seen`; never by an older one.
create function {s}.correct(
    given text, seen bigint, now_at bigint, now_status text, now_workflow text, now_parent text,
    now_exclusive text, now_created bigint, now_updated bigint, now_text text, now_body bytea, now_tags text[]
) returns boolean language plpgsql as $$
declare
    found_id bigint;
begin
    select h.id into found_id from {s}.head h where h.run = given for update;
    if found_id is null or now_at < seen
       or coalesce((select c.at from {s}.catalogue c where c.id = found_id), 0) != seen then
        return false;
    end if;
    insert into {s}.catalogue (id, run, at, status, workflow, parent, exclusive, created, updated, text, body)
    values (found_id, given, now_at, now_status, now_workflow, now_parent, now_exclusive, now_created, now_updated, now_text,
        now_body)
    on conflict (id) do update set at = excluded.at, status = excluded.status, workflow = excluded.workflow,
        parent = excluded.parent, exclusive = excluded.exclusive, created = excluded.created,
        updated = excluded.updated, text = excluded.text, body = excluded.body;
    delete from {s}.tag where run = found_id;
    insert into {s}.tag (run, tag) select found_id, t.tag from unnest(now_tags) as t (tag);
    return true;
end $$;

-- Replaces the records computed from the log of a run, if the log still ends at `now_at`.
create function {s}.rewrite(
    given text, now_closed boolean,
    now_at bigint, now_status text, now_workflow text, now_parent text, now_exclusive text, now_created bigint,
    now_updated bigint, now_text text, now_body bytea, now_tags text[], names text[], kinds text[], dues bigint[], bodies bytea[]
) returns boolean language plpgsql as $$
declare
    found_id bigint;
begin
    update {s}.head h set closed = now_closed where h.run = given and h.version = now_at returning h.id into found_id;
    if found_id is null then
        return false;
    end if;
    delete from {s}.catalogue c where c.id = found_id;
    perform {s}.correct(given, 0, now_at, now_status, now_workflow, now_parent, now_exclusive, now_created, now_updated,
        now_text, now_body, now_tags);
    delete from {s}.wait where run = found_id;
    insert into {s}.wait (run, name, kind, due, body)
    select found_id, w.name, w.kind, w.due, w.body from unnest(names, kinds, dues, bodies) as w (name, kind, due, body);
    return true;
end $$;

-- Sets the name of a blob, or deletes its chunks if a blob of that name exists.
create function {s}.name_blob(part bigint, name bytea, bytes bigint, relaxed boolean) returns void language plpgsql as $$
begin
    perform {s}.flushed(relaxed);
    if exists (select 1 from {s}.blob where id = part and hash = name) then
        return;
    end if;
    begin
        update {s}.blob set hash = name, size = bytes, touched = now() where id = part;
    exception when unique_violation then
        update {s}.blob set touched = now() where hash = name;
        delete from {s}.chunk where blob = part;
        delete from {s}.blob where id = part;
    end;
end $$;
