"""Append a batch: the one way a fact is written."""

from __future__ import annotations

from outlast.stores.postgres.functions.ways import BY_INDEX

APPEND = (
    """
-- Do each of these appends, of which no two are of one run, or none of it; returns those that are lost, and to what.
create function {s}.append(
    runs text[], firsts bigint[], counts bigint[], branches bigint[], epochs bigint[], kinds smallint[], append_ids bytea[],
    times bigint[], bodies bytea[], digests bytea[],
    versions bigint[], head_digests bytea[], head_epochs bigint[], head_branches bigint[], branch_firsts bigint[],
    closes_run boolean[], readies boolean[], releases boolean[], claimants text[],
    summary_at int[], summary_runs text[], summary_versions bigint[], statuses text[], workflows text[], parents text[],
    createds bigint[], updateds bigint[], texts text[], summaries bytea[],
    tag_at int[], tags text[],
    need_at int[], need_runs text[], needs text[],
    close_at int[], closes text[],
    open_at int[], opens text[], open_kinds text[], open_dues bigint[], open_bodies bytea[],
    has_births boolean, has_claims boolean, has_releases boolean, relaxed boolean
) returns table (
    lost int, why text, version bigint, digest bytea, epoch bigint, branch bigint, branch_first bigint, closed boolean,
    ready boolean, tail_first bigint, tail_count bigint, tail_branch bigint, tail_epoch bigint, tail_kind smallint,
    tail_id bytea, tail_time bigint, tail_body bytea, tail_digest bytea
) language plpgsql"""
    + BY_INDEX
    + """ as $$
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
            interrupted = case when a.kind = 2 then '' else h.interrupted end
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
        insert into {s}.head (run, version, digest, epoch, branch, branch_first, closed, ready, granted)
        select a.run, a.version, a.digest, a.epoch, a.branch, a.branch_first, a.closed, a.ready, a.epoch
        from unnest(fresh, runs, versions, head_digests, head_epochs, head_branches, branch_firsts, closes_run, readies)
            as a (is_fresh, run, version, digest, epoch, branch, branch_first, closed, ready)
        where a.is_fresh order by a.run
        on conflict (run) do nothing;
        for place, found_id in
            select a.at, h.id
            from unnest(fresh, runs) with ordinality as a (is_fresh, run, at) join {s}.head h on h.run = a.run
            where a.is_fresh and h.xmin = pg_current_xact_id()::xid  -- else somebody made it at the same moment
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
            insert into {s}.catalogue as c (id, run, at, status, workflow, parent, created, updated, text, body)
            select ids[a.place], a.run, a.at, a.status, a.workflow, a.parent, a.created, a.updated, a.text, a.body
            from unnest(summary_at, summary_runs, summary_versions, statuses, workflows, parents, createds, updateds, texts,
                        summaries)
                as a (place, run, at, status, workflow, parent, created, updated, text, body)
            where ids[a.place] is not null
            on conflict (id) do update set at = excluded.at, status = excluded.status, workflow = excluded.workflow,
                parent = excluded.parent, created = excluded.created, updated = excluded.updated, text = excluded.text,
                body = excluded.body;
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
"""
)
