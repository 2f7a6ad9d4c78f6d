"""What is done to a run or a blob that is there: correct its summary, give it its name."""

from __future__ import annotations

TEND = """
-- Replace a summary if the stored one is still of the version that was seen; never by an older one.
create function {s}.correct(
    given text, seen bigint, now_at bigint, now_status text, now_workflow text, now_parent text, now_created bigint,
    now_updated bigint, now_text text, now_body bytea, now_tags text[]
) returns boolean language plpgsql as $$
declare
    found_id bigint;
begin
    select h.id into found_id from {s}.head h where h.run = given for update;
    if found_id is null or now_at < seen
       or coalesce((select c.at from {s}.catalogue c where c.id = found_id), 0) != seen then
        return false;
    end if;
    insert into {s}.catalogue (id, run, at, status, workflow, parent, created, updated, text, body)
    values (found_id, given, now_at, now_status, now_workflow, now_parent, now_created, now_updated, now_text, now_body)
    on conflict (id) do update set at = excluded.at, status = excluded.status, workflow = excluded.workflow,
        parent = excluded.parent, created = excluded.created, updated = excluded.updated, text = excluded.text,
        body = excluded.body;
    delete from {s}.tag where run = found_id;
    insert into {s}.tag (run, tag) select found_id, t.tag from unnest(now_tags) as t (tag);
    return true;
end $$;

-- Replace what follows from the log of a run, if that still ends at the same event.
create function {s}.rewrite(
    given text, now_closed boolean,
    now_at bigint, now_status text, now_workflow text, now_parent text, now_created bigint, now_updated bigint,
    now_text text, now_body bytea, now_tags text[], names text[], kinds text[], dues bigint[], bodies bytea[]
) returns boolean language plpgsql as $$
declare
    found_id bigint;
begin
    update {s}.head h set closed = now_closed where h.run = given and h.version = now_at returning h.id into found_id;
    if found_id is null then
        return false;
    end if;
    delete from {s}.catalogue c where c.id = found_id;
    insert into {s}.catalogue (id, run, at, status, workflow, parent, created, updated, text, body)
    values (found_id, given, now_at, now_status, now_workflow, now_parent, now_created, now_updated, now_text, now_body);
    delete from {s}.tag where run = found_id;
    insert into {s}.tag (run, tag) select found_id, t.tag from unnest(now_tags) as t (tag);
    delete from {s}.wait where run = found_id;
    insert into {s}.wait (run, name, kind, due, body)
    select found_id, w.name, w.kind, w.due, w.body from unnest(names, kinds, dues, bodies) as w (name, kind, due, body);
    return true;
end $$;

-- Give the chunks of a blob their name, unless others have it already: then ours are not needed.
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
"""
