"""WHAT IT MEANS: the state a history amounts to, and what may be said next.

This room owns the statuses, the one transition table, the fold from events to state, the decisions that turn an intention
into events, the summary, and the invariants. It refuses to read or write anything and to know the time: it is pure, and
time is an argument.

What holds here:

L1  Folding costs O(1) per event and works in place; fold(a + b) equals fold(b) after fold(a).
L2  An event that may not follow raises `Illegal` with the invariant's number and leaves the state as it was.
L3  The table in `transitions` is the only place that says which event may follow in which status.
L4  A summary is a function of the state alone.

The invariants (`invariants.violations` finds every breach of them):

V1   seq is gapless from 1 and the digests chain.
V2   RunCreated comes first, exactly once.
V3   NodeStarted follows NodeScheduled of the same attempt; an outcome follows NodeStarted of the same attempt.
V4   A node completes at most once on a lineage.
V5   An event follows only where the table allows it; after a terminal event nothing but receipts and what re-opens.
V6   The cursor of a trigger never falls on a lineage.
V7   An answer, a firing, a consumption or a receipt has its antecedent pending in the lineage, and happens once on it. A
     receipt that a new branch takes over names the place of the original.
V8   Branches are numbered as they open; the parent of a branch holds its cutoff; only the newest branch is written to.
V9   The attempts of a node count up by one.
V10  A summary equals the fold of the lineage at the summary's version.
V11  Epochs never fall; a new one begins with RunTakenOver.
V12  A request is closed only by the event that obeys it or refuses it by name; no run ends, and no
     branch opens, while one is neither.
"""
