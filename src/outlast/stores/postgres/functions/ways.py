"""How a function finds its way, and what time it is."""

from __future__ import annotations

BY_INDEX = """
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
set jit = off set lock_timeout = '10s'"""

CLOCK = """
create function {s}.clock(skew bigint) returns bigint language sql volatile as $$
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint + skew $$;

-- Whether this transaction waits for the disk, whatever is set for the database.
create function {s}.flushed(relaxed boolean) returns void language plpgsql as $$
begin
    if relaxed then
        perform set_config('synchronous_commit', 'off', true);
    elsif current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
end $$;
"""
