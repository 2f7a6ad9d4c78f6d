-- The functions of a store. An upgrade drops and creates them all.

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

-- Raises OL001 with the version of the store if the process knows another one.
create function {s}.check_version(known int) returns void language plpgsql as $$
declare
    stored int := (select max(version) from {s}.migration);
begin
    if stored != known then
        raise exception using errcode = 'OL001', message = stored::text;
    end if;
end $$;

-- --- slots

-- Locks slots until the end of the transaction. The order of the keys is the same for everybody, so no two takers block each
-- other for ever.
create function {s}.lock_slots(names text[]) returns void language plpgsql as $$
declare
    key bigint;
begin
    for key in select distinct hashtextextended('{s} slot ' || n.name, 0) from unnest(names) as n (name) order by 1 loop
        perform pg_advisory_xact_lock(key);
    end loop;
end $$;

-- Takes locked slots for a run, or none. Returns the holders of the full ones; null: all are taken.
create function {s}.take_slots(given text, under bigint, names text[], limits bigint[], untils text[]) returns json
language plpgsql as $$
#variable_conflict use_column
declare
    others json;
begin
    select json_agg(json_build_array(o.name, o.run, o.epoch, o.until) order by o.name, o.run) into others
    from unnest(names, limits) as n (name, most) join {s}.slot o on {s}.short(o.name) = {s}.short(n.name) and o.run != given
    where (select count(*) from {s}.slot h where {s}.short(h.name) = {s}.short(n.name) and h.run != given) >= n.most;
    if others is null then
        insert into {s}.slot (name, run, epoch, until)
        select distinct on (n.name) n.name, given, under, n.until from unnest(names, untils) as n (name, until)
        on conflict ({s}.short(name), run) do update set epoch = excluded.epoch, until = excluded.until;
    end if;
    return others;
end $$;

-- Takes slots for a run whose current claim has this epoch. Returns false if it has another one.
create function {s}.take(
    given text, under bigint, names text[], limits bigint[], untils text[], out is_current boolean, out others json
) language plpgsql {by_index} as $$
declare
    found_id bigint;
begin
    select h.id into found_id from {s}.head h where h.run = given for update;
    is_current := exists (select 1 from {s}.claim c where c.run = found_id and c.epoch = under);
    if is_current then
        perform {s}.lock_slots(names);
        others := {s}.take_slots(given, under, names, limits, untils);
    end if;
end $$;

-- The rows of `claimable` that these runs should have. A timer counts only while the run may continue.
create function {s}.claimable_rows(ids bigint[]) returns setof {s}.claimable language sql stable as $$
    select h.id, {s}.short(coalesce(c.workflow, '')), {s}.short(coalesce(c.fairness_key, '')), {s}.short(coalesce(c.queue, '')),
        coalesce(c.priority, 0), coalesce(c.created, 0), d.due
    from {s}.head h left join {s}.catalogue c on c.id = h.id
    cross join lateral (
        select case when h.ready then 0
            when c.status in ('running', 'waiting', 'compensating')
            then (select greatest(w.due, 1) from {s}.wait w
                  where w.run = h.id and w.kind = 'timer' and w.due is not null order by w.due limit 1) end as due) d
    where h.id = any(ids) and not h.closed and d.due is not null
        and not exists (select 1 from {s}.claim k where k.run = h.id) $$;

-- Writes these rows again, for locked runs.
create function {s}.refresh(ids bigint[]) returns void language plpgsql as $$
begin
    delete from {s}.claimable where run = any(ids);
    insert into {s}.claimable select * from {s}.claimable_rows(ids);
end $$;

-- Writes appends of different runs, each completely or not at all. Returns the losing ones with the reason and the tail.
create function {s}.append(
    runs text[], firsts bigint[], counts bigint[], branches bigint[], epochs bigint[], kinds smallint[], append_ids bytea[],
    times bigint[], bodies bytea[], digests bytea[],
    versions bigint[], head_digests bytea[], head_epochs bigint[], head_branches bigint[], branch_firsts bigint[],
    closes_run boolean[], readies boolean[], releases boolean[], claimants text[],
    summary_at int[], summary_runs text[], summary_versions bigint[], statuses text[], workflows text[], parents text[],
    queues text[], priorities bigint[], fairness_keys text[], helds boolean[], createds bigint[], updateds bigint[],
    summaries bytea[], texts text[],
    tag_at int[], tags text[],
    need_at int[], need_runs text[], needs text[],
    close_at int[], closes text[],
    open_at int[], opens text[], open_kinds text[], open_dues bigint[], open_bodies bytea[],
    birth_at int[], release_at int[], takeover_at int[], unclaimed_at int[],
    use_at int[], uses bytea[],
    relaxed boolean, extras json
) returns table (
    lost int, why text, version bigint, digest bytea, epoch bigint, branch bigint, branch_first bigint, closed boolean,
    ready boolean, tail_first bigint, tail_count bigint, tail_branch bigint, tail_epoch bigint, tail_kind smallint,
    tail_id bytea, tail_time bigint, tail_body bytea, tail_digest bytea, full_slots json
) language plpgsql {by_index} as $$
#variable_conflict use_column
declare
    size int := cardinality(runs);
    ids bigint[] := array_fill(null::bigint, array[cardinality(runs)]);
    unmet int[] := '{}';
    changed bigint[];
    idle bigint[];
    takes json;
    frees json;
    attributes json;
    full_at int[] := '{}';
    holders json[] := '{}';
    found json;
    fresh int[];
    places int[];
    found_ids bigint[];
    landed int := 0;
    known int;
    written int;
    born text[];
    place int;
    this_tx bigint;
begin
    perform {s}.flushed(relaxed);
    perform 1 from {s}.head h where h.run = any(runs) order by h.id for update;
    get diagnostics known = row_count;
    if extras is not null then
        select e.takes, e.frees, e.attributes into takes, frees, attributes
        from json_to_record(extras) as e (takes json, frees json, attributes json);
    end if;
    if cardinality(needs) > 0 then
        unmet := array(
            select n.at from unnest(need_at, need_runs, needs) as n (at, run, name)
            where not exists (
                select 1 from {s}.head h join {s}.wait w on w.run = h.id and md5(w.name) = md5(n.name)
                where h.run = n.run));
    end if;
    if takes is not null then
        perform {s}.lock_slots(array(
            select n.name from json_array_elements(takes) as t (item),
                json_array_elements_text(t.item -> 1) as n (name)));
        for place, found in
            select (t.item ->> 0)::int, t.item
            from json_array_elements(takes) with ordinality as t (item, number)
            where not (t.item ->> 0)::int = any(unmet) order by t.number
        loop
            continue when not exists (
                select 1 from {s}.head h
                where h.run = runs[place] and h.version = firsts[place] - 1
                    and case kinds[place] when 1 then h.epoch = epochs[place] when 2 then h.epoch < epochs[place] else true end)
                and (firsts[place] != 1 or kinds[place] = 2
                     or exists (select 1 from {s}.head h where h.run = runs[place])
                     or exists (select 1 from {s}.tombstone t where t.run = runs[place]));
            found := {s}.take_slots(
                runs[place], epochs[place], array(select json_array_elements_text(found -> 1)),
                array(select json_array_elements_text(found -> 2)::bigint),
                array(select json_array_elements_text(found -> 3)));
            if found is not null then
                full_at := full_at || place;
                holders := holders || found;
            end if;
        end loop;
        unmet := unmet || full_at;
    end if;
    if known > 0 then
        with moved as (
            update {s}.head h set version = a.version, digest = a.digest, epoch = a.head_epoch, branch = a.branch,
                branch_first = a.branch_first, closed = a.closed,
                ready = case when a.release or a.epoch = 0 then a.ready else h.ready end,
                interrupted = case when a.release then ''
                    when a.kind = 2 then coalesce((select 'expired:' || c.worker from {s}.claim c where c.run = h.id), '')
                    else h.interrupted end
            from unnest(runs, firsts, kinds, epochs, versions, head_digests, head_epochs, head_branches, branch_firsts,
                        closes_run, readies, releases) with ordinality
                as a (run, first, kind, epoch, version, digest, head_epoch, branch, branch_first, closed, ready, release, at)
            where h.run = a.run and h.version = a.first - 1
                and case a.kind when 1 then h.epoch = a.epoch when 2 then h.epoch < a.epoch else true end
                and not a.at = any(unmet)
            returning a.at, h.id)
        select array_agg(m.at), array_agg(m.id), count(*) into places, found_ids, landed from moved m;
        for i in 1 .. landed loop
            ids[places[i]] := found_ids[i];
        end loop;
    end if;
    if cardinality(birth_at) > 0 then  -- in the order of their runs
        fresh := array(select b.at from unnest(birth_at) with ordinality as b (at, nth)
                       where kinds[b.at] != 2 and not b.at = any(unmet) order by b.nth);
        with born as (
            insert into {s}.head (run, version, digest, epoch, branch, branch_first, closed, ready, granted, interrupted)
            select runs[b.at], versions[b.at], head_digests[b.at], head_epochs[b.at], head_branches[b.at],
                branch_firsts[b.at], closes_run[b.at], readies[b.at], epochs[b.at],
                coalesce('expired:' || claimants[b.at], '')
            from unnest(fresh) as b (at) on conflict (run) do nothing
            returning id, run)
        select array_agg(b.id), array_agg(b.run) into found_ids, born from born b;
        if exists (select 1 from {s}.tombstone t where t.run = any(born)) then
            with gone as (
                delete from {s}.head h using {s}.tombstone t where h.run = any(born) and t.run = h.run returning h.run)
            select array_agg(b.id order by b.nth), array_agg(b.run order by b.nth) into found_ids, born
            from unnest(found_ids, born) with ordinality as b (id, run, nth)
            where not b.run in (select g.run from gone g);
        end if;
        place := 1;
        for i in 1 .. coalesce(cardinality(born), 0) loop
            while runs[fresh[place]] != born[i] loop  -- another transaction created it
                place := place + 1;
            end loop;
            ids[fresh[place]] := found_ids[i];
        end loop;
        landed := landed + coalesce(cardinality(born), 0);
        if takes is not null then  -- the slots of births that another transaction was faster with
            delete from {s}.slot s using json_array_elements(takes) as t (item)
            where ids[(t.item ->> 0)::int] is null and firsts[(t.item ->> 0)::int] = 1
                and s.run = runs[(t.item ->> 0)::int] and s.xmin = pg_current_xact_id()::xid
                and s.name in (select json_array_elements_text(t.item -> 1));
        end if;
    end if;
    if landed > 0 then
        this_tx := pg_current_xact_id()::text::bigint;
        insert into {s}.log (run, first, count, branch, epoch, kind, append_id, time, tx, body, digest)
        select a.id, a.first, a.count, a.branch, a.epoch, a.kind, a.append_id, a.time, this_tx, a.body, a.digest
        from unnest(ids, firsts, counts, branches, epochs, kinds, append_ids, times, bodies, digests)
            as a (id, first, count, branch, epoch, kind, append_id, time, body, digest)
        where a.id is not null;
        if cardinality(summary_at) > 0 then
            changed := array(select ids[a.place] from unnest(summary_at) as a (place) where firsts[a.place] > 1);
            written := 0;
            if cardinality(changed) > 0 then
                update {s}.catalogue c set at = a.at, status = a.status, workflow = a.workflow, parent = a.parent,
                    queue = a.queue, priority = a.priority, fairness_key = a.fairness_key, held = a.held,
                    created = a.created, updated = a.updated, body = a.body
                from unnest(summary_at, summary_versions, statuses, workflows, parents, queues, priorities, fairness_keys,
                            helds, createds, updateds, summaries)
                    as a (place, at, status, workflow, parent, queue, priority, fairness_key, held, created, updated, body)
                where c.id = ids[a.place];
                get diagnostics written = row_count;
                update {s}.search_text k set text = a.text from unnest(summary_at, texts) as a (place, text)
                where k.run = ids[a.place] and k.text != a.text;
                delete from {s}.attribute where run = any(changed);
                delete from {s}.tag where run = any(changed);
            end if;
            if written < cardinality(summary_at) then
                insert into {s}.catalogue (
                    id, run, at, status, workflow, parent, queue, priority, fairness_key, held, created, updated, body)
                select ids[a.place], a.run, a.at, a.status, a.workflow, a.parent, a.queue, a.priority, a.fairness_key,
                    a.held, a.created, a.updated, a.body
                from unnest(summary_at, summary_runs, summary_versions, statuses, workflows, parents, queues, priorities,
                            fairness_keys, helds, createds, updateds, summaries)
                    as a (place, run, at, status, workflow, parent, queue, priority, fairness_key, held, created, updated,
                          body)
                where ids[a.place] is not null and (firsts[a.place] = 1 or not exists (
                    select 1 from {s}.catalogue c where c.id = ids[a.place]));
                insert into {s}.search_text (run, text)
                select ids[a.place], a.text from unnest(summary_at, texts) as a (place, text)
                where ids[a.place] is not null and (firsts[a.place] = 1 or not exists (
                    select 1 from {s}.search_text k where k.run = ids[a.place]));
            end if;
            if attributes is not null then
                insert into {s}.attribute (run, id, created, key)
                select ids[(a.item ->> 0)::int], a.item ->> 1, (a.item ->> 2)::bigint, a.item ->> 3
                from json_array_elements(attributes) as a (item) where ids[(a.item ->> 0)::int] is not null;
            end if;
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
        if cardinality(birth_at) > 0 then
            insert into {s}.claim (run, worker, epoch, workflow, fairness_key, queue, priority, created)
            select ids[b.at], claimants[b.at], epochs[b.at], {s}.short(coalesce(c.workflow, '')),
                {s}.short(coalesce(c.fairness_key, '')), {s}.short(coalesce(c.queue, '')), coalesce(c.priority, 0),
                coalesce(c.created, 0)
            from unnest(birth_at) as b (at) left join {s}.catalogue c on c.id = ids[b.at]
            where ids[b.at] is not null and claimants[b.at] is not null;
        end if;
        if cardinality(release_at) > 0 then
            delete from {s}.claim c using unnest(release_at) as r (at) where c.run = ids[r.at] and c.epoch = epochs[r.at];
            if exists (select 1 from {s}.slot s where s.run = any(runs)) then
                delete from {s}.slot s using unnest(release_at) as r (at)
                where ids[r.at] is not null and s.run = runs[r.at] and s.until = 'claim' and s.epoch <= epochs[r.at];
            end if;
        end if;
        if cardinality(takeover_at) > 0 then
            delete from {s}.slot s using unnest(takeover_at) as r (at)
            where ids[r.at] is not null and s.run = runs[r.at] and s.until = 'claim' and s.epoch < epochs[r.at];
        end if;
        if frees is not null then
            delete from {s}.slot s using json_array_elements_text(frees) as f (place)
            where ids[f.place::int] is not null and s.run = runs[f.place::int] and s.until = 'run';
        end if;
        if cardinality(use_at) > 0 then
            insert into {s}.blob_use (run, hash)
            select ids[u.place], u.hash from unnest(use_at, uses) as u (place, hash)
            where ids[u.place] is not null and (firsts[u.place] = 1 or not exists (
                select 1 from {s}.blob_use k where k.run = ids[u.place] and k.hash = u.hash));
        end if;
        if cardinality(unclaimed_at) > 0 then
            idle := array(select ids[u.at] from unnest(unclaimed_at) as u (at));
            delete from {s}.claimable where run = any(idle);
            insert into {s}.claimable select * from {s}.claimable_rows(idle);
        end if;
    end if;
    if landed < size then
        return query
        select a.at::int,
            case when h.id is null and exists (select 1 from {s}.tombstone t where t.run = a.run) then 'deleted'
                 when coalesce(h.version, 0) != a.first - 1 then 'version'
                 when a.kind = 1 and h.epoch != a.epoch or a.kind = 2 and coalesce(h.epoch >= a.epoch, true) then 'epoch'
                 when a.at = any(full_at) then 'slot'
                 when a.at = any(unmet) then 'wait'
                 else 'version' end,
            h.version, h.digest, h.epoch, h.branch, h.branch_first, h.closed, h.ready,
            t.first, t.count, t.branch, t.epoch, t.kind, t.append_id, t.time, t.body, t.digest,
            holders[array_position(full_at, a.at::int)]
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

-- --- workers and claims

-- The key of the lock that a living worker holds.
create function {s}.worker_key(worker text) returns bigint language sql immutable as $$
    select hashtextextended('{s} worker ' || worker, 0) $$;

-- Whether a session holds the lock of a worker.
create function {s}.is_locked(worker text) returns boolean language plpgsql as $$
begin
    if not pg_try_advisory_lock_shared({s}.worker_key(worker)) then
        return true;
    end if;
    perform pg_advisory_unlock_shared({s}.worker_key(worker));
    return false;
end $$;

-- Acquires the locks of workers in this session, and stores that they have a new one. Returns those whose locks it did not get.
create function {s}.lock_workers(workers text[]) returns text[] language plpgsql as $$
declare
    each text;
    locked text[] := '{}';
begin
    perform set_config('lock_timeout', '200ms', true);
    foreach each in array workers loop
        begin
            perform pg_advisory_lock({s}.worker_key(each));
            locked := locked || each;
        exception when lock_not_available then
            null;  -- an old session that the server has not ended yet
        end;
    end loop;
    update {s}.worker w set session = {s}.clock(0), free_since = null where w.id = any(locked);
    return array(select unnest(workers) except select unnest(locked));
end $$;

-- When the server started: it then had no locks.
create function {s}.server_start() returns bigint language sql stable as $$
    select (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint $$;

-- What is known of a worker: live, expired or dead. It is dead if its lock has been free for longer than a reconnect takes.
create function {s}.standing(name text, patience bigint, skew bigint) returns text language plpgsql as $$
declare
    w {s}.worker%rowtype;
begin
    select * into w from {s}.worker k where k.id = name;
    if w.session > 0 and w.free_since between {s}.server_start() and {s}.clock(0) - patience
        and not pg_is_in_recovery() and not {s}.is_locked(name)
    then
        return 'dead';
    end if;
    return case when coalesce(w.expires, 0) <= {s}.clock(skew) then 'expired' else 'live' end;
end $$;

-- Notes which locks of workers with runs are free, and since when. The session shows whether a worker has
-- reconnected between the look and the note. Returns runs of those whose death is not certain yet, and when it will be.
create function {s}.look_at_workers(patience bigint) returns table (run text, ripe bigint) language plpgsql {by_index} as $$
#variable_conflict use_column
declare
    w record;
    is_free boolean;
begin
    for w in
        with recursive holder as (
            (select min(worker) as id from {s}.claim)
            union all
            select (select min(worker) from {s}.claim o where o.worker > holder.id) from holder where holder.id is not null)
        select k.id, k.session, case when k.free_since > {s}.server_start() then k.free_since end as free_since
        from holder join {s}.worker k on k.id = holder.id where k.session > 0
    loop
        is_free := not {s}.is_locked(w.id);
        if is_free != (w.free_since is not null) then
            update {s}.worker k set free_since = case when is_free then {s}.clock(0) end
            where k.session = w.session and k.id = (
                select o.id from {s}.worker o where o.id = w.id for update skip locked);
        end if;
        if is_free and coalesce(w.free_since, {s}.clock(0)) > {s}.clock(0) - patience then
            return query
            select h.run, greatest(0, coalesce(w.free_since, {s}.clock(0)) + patience - {s}.clock(0))
            from {s}.claim c join {s}.head h on h.id = c.run where c.worker = w.id limit 100;
        end if;
    end loop;
end $$;

-- Makes runs claimable whose timer is due.
create function {s}.wake_due(skew bigint) returns void language sql as $$
    update {s}.claimable c set due = 0
    where c.run = any(array(
        select d.run from {s}.claimable d where d.due > 0 and d.due <= {s}.clock(skew)
        order by d.due limit 10000 for update skip locked)) $$;

-- The workflows that have claimable runs.
create function {s}.claimable_workflows() returns setof text language plpgsql as $$
begin
    return query
    with recursive found as (
        (select min(c.workflow) as name from {s}.claimable c where c.due = 0)
        union all
        select (select min(c.workflow) from {s}.claimable c where c.due = 0 and c.workflow > found.name)
        from found where found.name is not null)
    select name from found where name is not null;
end $$;

-- The fairness keys and queues of a workflow that have claimable runs, with the greatest priority and its oldest run.
create function {s}.claimable_groups(name text)
returns table (fairness_key text, queue text, priority bigint, created bigint, run bigint) language plpgsql as $$
#variable_conflict use_column
begin
    return query
    with recursive found as (
        (select fairness_key, queue, priority, created, run from {s}.claimable where workflow = name and due = 0
         order by workflow, fairness_key, queue, priority desc, created, run limit 1)
        union all
        select n.* from found cross join lateral (
            select c.fairness_key, c.queue, c.priority, c.created, c.run from {s}.claimable c
            where c.workflow = name and c.due = 0 and (c.fairness_key, c.queue) > (found.fairness_key, found.queue)
            order by c.workflow, c.fairness_key, c.queue, c.priority desc, c.created, c.run limit 1) n)
    select * from found;
end $$;

-- The same for the runs of workers that are gone.
create function {s}.interrupted_groups(gone text[], workflows text[])
returns table (
    worker text, workflow text, fairness_key text, queue text, priority bigint, created bigint, run bigint
) language plpgsql as $$
#variable_conflict use_column
begin
    return query
    with recursive found as (
        select n.* from unnest(gone) as g (worker) cross join lateral (
            select c.worker, c.workflow, c.fairness_key, c.queue, c.priority, c.created, c.run from {s}.claim c
            where c.worker = g.worker
            order by c.worker, c.workflow, c.fairness_key, c.queue, c.priority desc, c.created, c.run limit 1) n
        union all
        select n.* from found cross join lateral (
            select c.worker, c.workflow, c.fairness_key, c.queue, c.priority, c.created, c.run from {s}.claim c
            where c.worker = found.worker
                and (c.workflow, c.fairness_key, c.queue) > (found.workflow, found.fairness_key, found.queue)
            order by c.worker, c.workflow, c.fairness_key, c.queue, c.priority desc, c.created, c.run limit 1) n)
    select * from found where workflows is null or found.workflow = any(workflows);
end $$;

-- Gives these locked runs, in this order, to a worker.
create function {s}.grant_runs(claimant text, ids bigint[], causes text[])
returns table (run text, epoch bigint, previous text, cause text) language plpgsql as $$
#variable_conflict use_column
begin
    return query
    with free as (
        select g.id, g.at, case when g.cause != 'claimed' then g.cause || ':' || c.worker end as ended
        from unnest(ids, causes) with ordinality as g (id, cause, at) left join {s}.claim c on c.run = g.id),
    granted as (
        update {s}.head h set granted = greatest(h.granted, h.epoch) + 1, interrupted = coalesce(free.ended, h.interrupted)
        from free where h.id = free.id
        returning h.id, h.run, h.granted as epoch, h.interrupted, free.at),
    gone as (delete from {s}.claimable c using granted g where c.run = g.id),
    taken as (
        insert into {s}.claim (run, worker, epoch, workflow, fairness_key, queue, priority, created)
        select g.id, claimant, g.epoch, {s}.short(coalesce(k.workflow, '')), {s}.short(coalesce(k.fairness_key, '')),
            {s}.short(coalesce(k.queue, '')), coalesce(k.priority, 0), coalesce(k.created, 0)
        from granted g left join {s}.catalogue k on k.id = g.id
        on conflict (run) do update set worker = excluded.worker, epoch = excluded.epoch)
    select g.run, g.epoch,
        case when substr(g.interrupted, strpos(g.interrupted, ':') + 1) = claimant then ''
            else substr(g.interrupted, strpos(g.interrupted, ':') + 1) end,
        case when g.interrupted = '' or substr(g.interrupted, strpos(g.interrupted, ':') + 1) = claimant then 'claimed'
            else split_part(g.interrupted, ':', 1) end
    from granted g order by g.at;
end $$;

-- Claims up to `most` of the named runs that no other live worker holds.
create function {s}.claim_named(claimant text, known int, patience bigint, skew bigint, named text[], most bigint)
returns table (run text, epoch bigint, previous text, cause text) language plpgsql {by_index} as $$
#variable_conflict use_column
declare
    ids bigint[];
    causes text[];
begin
    perform {s}.check_version(known);
    perform 1 from {s}.head h where h.run = any(named) order by h.id for update;
    with held as materialized (
        select h.id, c.worker, n.at from unnest(named) with ordinality as n (run, at) join {s}.head h on h.run = n.run
        left join {s}.claim c on c.run = h.id),
    worker as materialized (
        select w.id, {s}.standing(w.id, patience, skew) as standing
        from (select distinct worker as id from held where worker != claimant) w),
    free as (
        select held.id, coalesce(w.standing, 'claimed') as cause, held.at from held left join worker w on w.id = held.worker
        where w.standing is distinct from 'live' order by held.at limit most)
    select array_agg(free.id order by free.at), array_agg(free.cause order by free.at) into ids, causes from free;
    return query select * from {s}.grant_runs(claimant, coalesce(ids, '{}'), causes);
end $$;

-- Claims up to `most` runs: those whose worker is gone, then those that are claimable now. Each round takes runs of one
-- priority. A row of `claimable` or `claim` that another worker is claiming is skipped.
create function {s}.claim_free(
    claimant text, known int, patience bigint, skew bigint, workflows text[], queues text[],
    slot_queues text[], slot_names text[], slot_limits bigint[], slot_untils text[], most bigint
) returns table (run text, epoch bigint, previous text, cause text) language plpgsql {by_index} as $$
#variable_conflict use_column
declare
    given bigint := 0;
    gone text[];
    standings text[];
    full_queues text[] := '{}';
    passed bigint[] := '{}';
    picked record;
    candidates bigint[];
    ids bigint[];
    causes text[];
    needed text[];
    found_at int;
begin
    perform {s}.check_version(known);
    if workflows is not null then
        workflows := array(select {s}.short(w.name) from unnest(workflows) as w (name));
    end if;
    if queues is not null then
        queues := array(select {s}.short(q.name) from unnest(queues) as q (name));
    end if;
    if slot_queues is not null then
        slot_queues := array(select {s}.short(q.name) from unnest(slot_queues) with ordinality as q (name, at) order by q.at);
    end if;
    with recursive holder as (
        (select min(worker) as id from {s}.claim)
        union all
        select (select min(worker) from {s}.claim o where o.worker > holder.id) from holder where holder.id is not null),
    found as materialized (
        select holder.id, {s}.standing(holder.id, patience, skew) as standing from holder
        where holder.id is not null and holder.id != claimant)
    select array_agg(id), array_agg(standing) into gone, standings from found where standing != 'live';
    loop
        exit when given >= most;
        if slot_queues is not null then
            full_queues := array(
                select q.name from (select distinct unnest(slot_queues) as name) q
                where q.name = any(full_queues) or exists (
                    select 1 from unnest(slot_queues, slot_names, slot_limits) as n (queue, name, most)
                    where n.queue = q.name and n.most <= (
                        select count(*) from {s}.slot h where {s}.short(h.name) = {s}.short(n.name))));
        end if;
        candidates := '{}';
        if gone is not null then
            with found as materialized (
                select g.* from {s}.interrupted_groups(gone, workflows) g where queues is null or g.queue = any(queues)),
            best as (
                select f.*, greatest(coalesce(w.served, 0), min(f.created) over (partition by f.workflow)) as workflow_turn,
                    greatest(coalesce(k.served, 0), f.created) as key_turn, count(*) over () as groups
                from found f
                left join {s}.turn w on w.workflow = f.workflow and not w.of_key and w.fairness_key = ''
                left join {s}.turn k on k.workflow = f.workflow and k.of_key and k.fairness_key = f.fairness_key
                where f.priority = (select max(priority) from found)),
            held as (
                select r.run, b.workflow, b.workflow_turn,
                    row_number() over (partition by b.workflow, b.fairness_key order by r.created, r.run) as nth,
                    b.key_turn, b.fairness_key
                from best b cross join lateral (
                    select c.run, c.created from {s}.claim c
                    where c.worker = b.worker and c.workflow = b.workflow and c.fairness_key = b.fairness_key
                        and c.queue = b.queue and c.priority = b.priority and not c.run = any(passed)
                        and (not c.queue = any(full_queues)
                             or exists (select 1 from {s}.head h join {s}.slot o on o.run = h.run where h.id = c.run))
                    order by c.worker, c.workflow, c.fairness_key, c.queue, c.priority desc, c.created, c.run
                    limit ((most - given) + b.groups - 1) / b.groups for update skip locked) r)
            select array_agg(o.run order by o.turn, o.workflow_turn, o.workflow) into candidates
            from (select held.*, row_number() over (partition by workflow order by nth, key_turn, fairness_key) as turn
                  from held) o;
            candidates := coalesce(candidates[1 : most - given], '{}');
        end if;
        if cardinality(candidates) = 0 and cardinality(full_queues) > 0 then  -- released runs that kept their slots
            candidates := array(
                select c.run from (
                    select distinct h.id from unnest(slot_queues, slot_names) as n (queue, name)
                    join {s}.slot o on {s}.short(o.name) = {s}.short(n.name) join {s}.head h on h.run = o.run
                    where n.queue = any(full_queues)) o
                join {s}.claimable c on c.run = o.id
                where c.due = 0 and c.queue = any(full_queues) and not c.run = any(passed)
                    and (workflows is null or c.workflow = any(workflows)) and (queues is null or c.queue = any(queues))
                order by c.priority desc, c.created, c.run limit most - given for update of c skip locked);
        end if;
        if cardinality(candidates) = 0 then
            with found as materialized (
                select w.name as workflow, g.*
                from (select name from unnest(workflows) as name where workflows is not null
                      union select name from {s}.claimable_workflows() as name where workflows is null) w
                cross join lateral {s}.claimable_groups(w.name) g
                where (queues is null or g.queue = any(queues)) and not g.queue = any(full_queues)),
            best as (
                select f.*, greatest(coalesce(w.served, 0), min(f.created) over (partition by f.workflow)) as workflow_turn,
                    greatest(coalesce(k.served, 0), f.created) as key_turn,
                    count(*) over (partition by f.workflow) as keys
                from found f
                left join {s}.turn w on w.workflow = f.workflow and not w.of_key and w.fairness_key = ''
                left join {s}.turn k on k.workflow = f.workflow and k.of_key and k.fairness_key = f.fairness_key
                where f.priority = (select max(priority) from found)),
            first as (
                select b.*, ((most - given) + keys - 1) / keys as share,
                    row_number() over (partition by workflow order by key_turn, fairness_key) as place
                from best b order by place, workflow_turn, workflow limit most - given),
            free as (
                select r.run, f.workflow, f.workflow_turn, f.fairness_key, f.key_turn,
                    row_number() over (partition by f.workflow, f.fairness_key order by r.created, r.run) as nth
                from first f cross join lateral (
                    select c.run, c.created from {s}.claimable c
                    where c.workflow = f.workflow and c.fairness_key = f.fairness_key and c.queue = f.queue
                        and c.priority = f.priority and c.due = 0 and not c.run = any(passed)
                    order by c.workflow, c.fairness_key, c.queue, c.priority desc, c.created, c.run
                    limit f.share for update skip locked) r)
            select array_agg(o.run order by o.turn, o.workflow_turn, o.workflow) into candidates
            from (select free.*, row_number() over (partition by workflow order by nth, key_turn, fairness_key) as turn
                  from free) o;
            candidates := coalesce(candidates[1 : most - given], '{}');
        end if;
        exit when cardinality(candidates) = 0;
        passed := passed || candidates;
        ids := '{}';
        causes := '{}';
        perform 1 from {s}.head h where h.id = any(candidates) order by h.id for update skip locked;
        if slot_queues is not null then
            needed := array(
                select distinct n.name from {s}.catalogue k join unnest(slot_queues, slot_names) as n (queue, name)
                    on n.queue = {s}.short(k.queue) where k.id = any(candidates));
            perform {s}.lock_slots(needed);
        end if;
        for picked in
            select h.id, h.run, greatest(h.granted, h.epoch) + 1 as epoch, {s}.short(coalesce(k.queue, '')) as queue,
                coalesce(standings[array_position(gone, c.worker)], 'claimed') as cause,
                case when c.run is not null then c.worker = any(gone) and {s}.standing(c.worker, patience, skew) != 'live'
                    else not h.closed and (h.ready or exists (
                        select 1 from {s}.wait w
                        where w.run = h.id and w.kind = 'timer' and w.due <= {s}.clock(skew))) end as is_free
            from unnest(candidates) with ordinality as a (id, at)
            join (select * from {s}.head l where l.id = any(candidates) for update skip locked) h on h.id = a.id
            left join {s}.claim c on c.run = h.id left join {s}.catalogue k on k.id = h.id
            order by a.at
        loop
            if not picked.is_free then
                perform {s}.refresh(array[picked.id]);
                continue;
            end if;
            if picked.queue = any(slot_queues) then
                if {s}.take_slots(
                    picked.run, picked.epoch,
                    array(select n.name from unnest(slot_queues, slot_names) as n (queue, name) where n.queue = picked.queue),
                    array(select n.most from unnest(slot_queues, slot_limits) as n (queue, most) where n.queue = picked.queue),
                    array(select n.until from unnest(slot_queues, slot_untils) as n (queue, until) where n.queue = picked.queue)
                ) is not null then
                    full_queues := full_queues || picked.queue;
                    continue;
                end if;
            end if;
            ids := ids || picked.id;
            causes := causes || picked.cause;
        end loop;
        return query select * from {s}.grant_runs(claimant, ids, causes);
        given := given + cardinality(ids);
        perform {s}.served(ids, {s}.clock(skew));
    end loop;
end $$;

-- Notes that the workflows and fairness keys of these runs were served, in this order.
create function {s}.served(ids bigint[], now_is bigint) returns void language plpgsql as $$
#variable_conflict use_column
begin
    with served as materialized (
        select c.workflow, k.of_key, case when k.of_key then c.fairness_key else '' end as fairness_key,
            now_is + max(g.at) as served
        from unnest(ids) with ordinality as g (id, at) join {s}.claim c on c.run = g.id
        cross join (values (false), (true)) as k (of_key) group by 1, 2, 3),
    known as (
        select t.workflow, t.of_key, t.fairness_key, n.served
        from served n join {s}.turn t using (workflow, of_key, fairness_key) for update of t skip locked),
    changed as (
        update {s}.turn t set served = n.served from known n
        where t.workflow = n.workflow and t.of_key = n.of_key and t.fairness_key = n.fairness_key)
    insert into {s}.turn (workflow, of_key, fairness_key, served)
    select n.workflow, n.of_key, n.fairness_key, n.served from served n
    where not exists (
        select 1 from {s}.turn t
        where t.workflow = n.workflow and t.of_key = n.of_key and t.fairness_key = n.fairness_key)
    order by 1, 2, 3 on conflict do nothing;
end $$;

-- Registers a worker, and deletes what nobody needs: dead workers without runs, and old turns.
create function {s}.enrol(worker text, known int, skew bigint, ttl bigint, info text, forgotten bigint) returns void
language plpgsql {by_index} as $$
begin
    perform {s}.check_version(known);
    delete from {s}.worker w where w.id != worker and w.expires < {s}.clock(skew) - forgotten
        and not exists (select 1 from {s}.claim c where c.worker = w.id);
    delete from {s}.turn t where t.ctid = any(array(
        select o.ctid from {s}.turn o where o.served < {s}.clock(skew) - forgotten limit 1000 for update skip locked));
    insert into {s}.worker (id, expires, seen, info, session)
    values (worker, {s}.clock(skew) + ttl, {s}.clock(skew), enrol.info, 0)
    on conflict (id) do update set expires = excluded.expires, seen = excluded.seen, info = excluded.info;
end $$;

create function {s}.renew(worker text, known int, skew bigint, ttl bigint) returns boolean language plpgsql {by_index} as $$
begin
    perform {s}.check_version(known);
    update {s}.worker w set expires = {s}.clock(skew) + ttl, seen = {s}.clock(skew) where w.id = worker;
    return found;
end $$;

create function {s}.retire(leaver text) returns void language plpgsql {by_index} as $$
declare
    own text[] := array['', 'expired:' || leaver, 'dead:' || leaver];
    ids bigint[];
begin
    perform 1 from {s}.head h join {s}.claim c on c.run = h.id where c.worker = leaver order by h.id for update of h;
    ids := array(select c.run from {s}.claim c where c.worker = leaver);
    delete from {s}.slot s using {s}.claim c join {s}.head h on h.id = c.run
    where c.worker = leaver and h.interrupted = any(own) and s.run = h.run and s.until = 'claim' and s.epoch <= c.epoch;
    update {s}.head h set ready = true, interrupted = case when h.interrupted = any(own) then '' else h.interrupted end
    where h.id = any(ids);
    delete from {s}.claim where worker = leaver and run = any(ids);
    delete from {s}.worker where id = leaver;
    perform {s}.refresh(ids);
end $$;

-- Releases a run if its log is still at that version; else returns false. Its slots stay if another worker was interrupted
-- and may still append.
create function {s}.release(given text, holder text, known bigint, is_ready boolean) returns boolean
language plpgsql {by_index} as $$
declare
    own text[] := array['', 'expired:' || holder, 'dead:' || holder];
    found_id bigint;
    found_version bigint;
    found_epoch bigint;
    is_own boolean;
begin
    select h.id, h.version, h.interrupted = any(own) into found_id, found_version, is_own
    from {s}.head h where h.run = given for update;
    select c.epoch into found_epoch from {s}.claim c where c.run = found_id and c.worker = holder;
    if not found then
        return true;
    end if;
    if found_version != known then
        return false;
    end if;
    delete from {s}.claim where run = found_id;
    if is_own then
        delete from {s}.slot s where s.run = given and s.until = 'claim' and s.epoch <= found_epoch;
    end if;
    update {s}.head set ready = is_ready, interrupted = case when is_own then '' else interrupted end where id = found_id;
    perform {s}.refresh(array[found_id]);
    return true;
end $$;

-- --- deletion

-- Replaces a run by its tombstone, if its log is still at that version and no live worker holds it.
create function {s}.delete_run(
    given text, known int, patience bigint, skew bigint, at_version bigint, tombstone bytea
) returns boolean language plpgsql {by_index} as $$
declare
    h {s}.head%rowtype;
    stored bytea;
begin
    perform {s}.check_version(known);
    if at_version = 0 then  -- so that nobody creates the run meanwhile
        insert into {s}.head (run, version, digest, epoch, branch, branch_first, closed, ready, granted)
        values (given, 0, '', 0, 0, 1, true, false, 0) on conflict do nothing;
    end if;
    select * into h from {s}.head o where o.run = given for update;
    select t.body into stored from {s}.tombstone t where t.run = given;
    if found or h.id is null or h.version != at_version or exists (
        select 1 from {s}.claim c where c.run = h.id and {s}.standing(c.worker, patience, skew) = 'live')
    then
        delete from {s}.head where id = h.id and version = 0;
        return coalesce(stored = tombstone, false);
    end if;
    delete from {s}.claim where run = h.id;
    delete from {s}.claimable where run = h.id;
    delete from {s}.slot where run = given;
    delete from {s}.catalogue where id = h.id;
    delete from {s}.head where id = h.id;
    insert into {s}.tombstone (run, id, body) values (given, case when at_version > 0 then h.id end, tombstone);
    return true;
end $$;

-- Removes up to `most` rows of deleted runs. Returns whether some remain.
create function {s}.purge(most bigint) returns boolean language plpgsql {by_index} as $$
declare
    place text;
    ids bigint[];
    removed bigint;
begin
    while most > 0 loop
        ids := array(select t.id from {s}.tombstone t where t.id is not null order by t.id
                     limit least(most, 100) for update skip locked);
        exit when cardinality(ids) = 0;
        foreach place in array array[
            'log', 'line', 'line_count', 'scratch', 'wait', 'tag', 'attribute', 'search_text', 'blob_use']
        loop
            exit when most <= 0;
            execute format(
                'delete from {s}.%I where ctid = any(array(select ctid from {s}.%I where run = any($1) limit $2))', place, place)
            using ids, most;
            get diagnostics removed = row_count;
            most := most - removed;
        end loop;
        if most > 0 then
            update {s}.tombstone set id = null where id = any(ids);
            most := most - 1;
        end if;
    end loop;
    return exists (select 1 from {s}.tombstone t where t.id is not null);
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
    insert into {s}.line_count (run, number)
    select distinct a.id, 0 from unnest(ids) as a (id) where a.id is not null order by 1 on conflict do nothing;
    perform 1 from {s}.line_count p where p.run = any(ids) order by p.run for update;
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
    from numbered t join {s}.line_count p on p.run = t.id
    left join lateral (
        select l.place from {s}.line l where l.run = t.id and md5(l.node) = md5(t.node) and l.attempt = t.attempt
        order by l.place desc limit 1) o on true
    where t.nth_of_attempt > t.of_attempt - most;
    update {s}.line_count p set number = p.number + a.added
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
    given text, seen bigint, now_at bigint, now_status text, now_workflow text, now_parent text, now_queue text,
    now_priority bigint, now_key text, now_held boolean, now_created bigint, now_updated bigint, now_body bytea, now_text text,
    now_tags text[], keys text[]
) returns boolean language plpgsql {by_index} as $$
declare
    found_id bigint;
begin
    select h.id into found_id from {s}.head h where h.run = given for update;
    if found_id is null or now_at < seen
       or coalesce((select c.at from {s}.catalogue c where c.id = found_id), 0) != seen then
        return false;
    end if;
    delete from {s}.catalogue c where c.id = found_id;
    insert into {s}.catalogue (
        id, run, at, status, workflow, parent, queue, priority, fairness_key, held, created, updated, body)
    values (found_id, given, now_at, now_status, now_workflow, now_parent, now_queue, now_priority, now_key, now_held,
        now_created, now_updated, now_body);
    insert into {s}.search_text (run, text) values (found_id, now_text)
    on conflict (run) do update set text = excluded.text;
    delete from {s}.tag where run = found_id;
    insert into {s}.tag (run, tag) select found_id, t.tag from unnest(now_tags) as t (tag);
    delete from {s}.attribute where run = found_id;
    insert into {s}.attribute (run, id, created, key) select found_id, given, now_created, k.key from unnest(keys) as k (key);
    update {s}.claim set workflow = {s}.short(now_workflow), fairness_key = {s}.short(now_key), queue = {s}.short(now_queue),
        priority = now_priority, created = now_created
    where run = found_id;
    perform {s}.refresh(array[found_id]);
    return true;
end $$;

-- Replaces the records computed from the log of a run, if the log still ends at `now_at`.
create function {s}.rewrite(
    given text, now_closed boolean,
    now_at bigint, now_status text, now_workflow text, now_parent text, now_queue text, now_priority bigint, now_key text,
    now_held boolean, now_created bigint, now_updated bigint, now_body bytea, now_text text, now_tags text[], keys text[],
    names text[], kinds text[], dues bigint[], bodies bytea[]
) returns boolean language plpgsql {by_index} as $$
declare
    found_id bigint;
begin
    update {s}.head h set closed = now_closed where h.run = given and h.version = now_at returning h.id into found_id;
    if found_id is null then
        return false;
    end if;
    delete from {s}.catalogue c where c.id = found_id;
    delete from {s}.wait where run = found_id;
    insert into {s}.wait (run, name, kind, due, body)
    select found_id, w.name, w.kind, w.due, w.body from unnest(names, kinds, dues, bodies) as w (name, kind, due, body);
    perform {s}.correct(given, 0, now_at, now_status, now_workflow, now_parent, now_queue, now_priority, now_key, now_held,
        now_created, now_updated, now_body, now_text, now_tags, keys);
    return true;
end $$;

-- Sets the name of a blob, or deletes its chunks if a blob of that name exists.
create function {s}.name_blob(part bigint, name bytea, bytes bigint, relaxed boolean, skew bigint) returns void
language plpgsql as $$
begin
    perform {s}.flushed(relaxed);
    if exists (select 1 from {s}.blob where id = part and hash = name) then
        return;
    end if;
    begin
        update {s}.blob set hash = name, size = bytes, put = {s}.clock(skew) where id = part;
    exception when unique_violation then
        update {s}.blob set put = {s}.clock(skew) where hash = name;
        delete from {s}.chunk where blob = part;
        delete from {s}.blob where id = part;
    end;
end $$;
