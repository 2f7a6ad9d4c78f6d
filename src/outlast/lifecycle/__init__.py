"""The state of a run, and the events that may come next.

This package owns the statuses, the transition table, the fold from events to state, the decisions that turn an intention
into events, the summary and the invariants. It is pure: it reads no store and no clock; time is an argument.

Promises:

L1  Folding costs O(1) per event and works in place; fold(a + b) equals fold(b) after fold(a).
L2  An event that may not follow raises `Illegal` with the invariant's number and leaves the state unchanged.
L3  The table in `transitions` alone states which event may follow in which status.
L4  A summary is a function of the state alone.

The invariants (`invariants.violations` finds every breach of them):

V1   seq is gapless from 1 and the digests chain.
V2   RunCreated comes first, exactly once.
V3   NodeStarted follows NodeScheduled of the same attempt; an outcome follows NodeStarted of the same attempt.
V4   A node completes at most once on a lineage.
V5   An event follows only where the table allows it; only receipts and events that reopen the run follow a terminal event.
V6   The cursor of a trigger never decreases on a lineage.
V7   An answer, a firing, a consumption or a receipt has its antecedent pending in the lineage, and happens once on it. A
     receipt that a new branch adopts names the seq of the original.
V8   Branches are numbered as they open; the parent of a branch holds its cutoff; only the newest branch is written to.
V9   The attempts of a node count up by one.
V10  A summary equals the fold of the lineage at the summary's version.
V11  Epochs never decrease; a new one begins with RunTakenOver.
V12  Only the event that obeys a request or refuses it by name closes the request; no run ends, and no branch opens, while
     a request is open.
"""
