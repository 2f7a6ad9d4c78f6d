"""Keep lines."""

from __future__ import annotations

from outlast.stores.postgres.functions.ways import BY_INDEX

KEEP = (
    """
-- Number these lines and keep them, but for those that their own successors push out.
create function {s}.keep(
    runs text[], nodes text[], attempts bigint[], times bigint[], levels text[], loggers text[], texts text[], most bigint
) returns void language plpgsql"""
    + BY_INDEX
    + """ as $$
declare
    ids bigint[];
begin
    perform set_config('synchronous_commit', 'off', true);
    ids := array(select (select h.id from {s}.head h where h.run = a.run) from unnest(runs) with ordinality as a (run, at)
                 order by a.at);
    insert into {s}.spoken (run, number)
    select distinct a.id, 0 from unnest(ids) as a (id) where a.id is not null order by 1 on conflict do nothing;
    perform 1 from {s}.spoken p where p.run = any(ids) order by p.run for update;
    with told as (
        select a.*, row_number() over (partition by a.id order by a.at) as nth,
            row_number() over (partition by a.id, a.node, a.attempt order by a.at) as nth_of_attempt,
            count(*) over (partition by a.id, a.node, a.attempt) as of_attempt
        from unnest(ids, nodes, attempts, times, levels, loggers, texts) with ordinality
            as a (id, node, attempt, time, level, logger, text, at)
        where a.id is not null)
    insert into {s}.line (run, number, node, attempt, place, time, level, logger, text)
    select t.id, p.number + t.nth, t.node, t.attempt, coalesce(o.place, 0) + t.nth_of_attempt, t.time, t.level,
        t.logger, t.text
    from told t join {s}.spoken p on p.run = t.id
    left join lateral (
        select l.place from {s}.line l where l.run = t.id and md5(l.node) = md5(t.node) and l.attempt = t.attempt
        order by l.place desc limit 1) o on true
    where t.nth_of_attempt > t.of_attempt - most;
    update {s}.spoken p set number = p.number + a.told
    from (select id, count(*) as told from unnest(ids) as i (id) where id is not null group by id) a where p.run = a.id;
    delete from {s}.line l using (
        select a.id, a.node, a.attempt, (
            select max(n.place) from {s}.line n
            where n.run = a.id and md5(n.node) = md5(a.node) and n.attempt = a.attempt) as newest
        from (select distinct id, node, attempt from unnest(ids, nodes, attempts) as u (id, node, attempt)
              where id is not null) a) b
    where l.run = b.id and md5(l.node) = md5(b.node) and l.attempt = b.attempt and l.place <= b.newest - most;
end $$;
"""
)
