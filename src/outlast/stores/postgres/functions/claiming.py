"""Claim many runs, give them back, leave."""

from __future__ import annotations

from outlast.stores.postgres.functions.ways import BY_INDEX

CLAIM = (
    """
-- Claim up to `most` runs: the `named` ones, or those whose worker's time ran out and those that are ready.
create function {s}.claim_runs(claimant text, skew bigint, named text[], workflows text[], most bigint)
returns table (run text, epoch bigint, previous text) language plpgsql"""
    + BY_INDEX
    + """ as $$
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
        select g.run, g.epoch, g.interrupted from granted g order by g.id;
        get diagnostics got = row_count;
        given := given + got;
        exit when named is not null;
    end loop;
end $$;

create function {s}.retire(leaver text) returns void language plpgsql as $$
begin
    perform 1 from {s}.head h join {s}.claim c on c.run = h.id where c.worker = leaver order by h.id for update of h;
    update {s}.head h set ready = true from {s}.claim c where c.run = h.id and c.worker = leaver;
    delete from {s}.claim where worker = leaver;
    delete from {s}.worker where id = leaver;
end $$;

-- Give a run back if its log is still at that version; false if it is not.
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
    update {s}.head set ready = is_ready where id = found_id;
    return true;
end $$;
"""
)
