"""The engine: the verbs that start, watch and control the runs of a store.

The command line and HTTP translate their own language into these verbs and hold no store. `facade` has the engine,
`reader` the verbs that only read, `starts`, `results`, `control` and `branching` the others, `handle` one run,
`blocking` the same verbs for code that does not await.

Promises:

D1  Reading changes nothing and executes nothing.
D2  No list is cut silently: lists come in pages, and an event that is missing from a log is an error.
D3  Bytes that a store cannot read raise `Damaged` with their place; `verify` reports them with everything else it finds.
D4  Concurrent writes are no violation: `verify` judges the log up to the head that it read.
D5  Whatever was acknowledged is durable: a start, an answer, a request (P1).
D6  Starts with the same id or key create one run. Different parameters are refused.
D7  A verb that cannot be carried out is refused with a sentence for people and changes nothing (P11).
"""

from outlast.client.blocking import BlockingEngine, BlockingRunHandle
from outlast.client.evidence import Diagnosis
from outlast.client.facade import Engine
from outlast.client.handle import RunHandle
from outlast.client.reader import Entry, Interval, Listed, Page, Reader, RunFilter, RunSummary, Verification
from outlast.lifecycle.diagnosis import Finding
from outlast.lifecycle.invariants import Violation
from outlast.store import Line

__all__ = [
    "BlockingEngine",
    "BlockingRunHandle",
    "Diagnosis",
    "Engine",
    "Entry",
    "Finding",
    "Interval",
    "Line",
    "Listed",
    "Page",
    "Reader",
    "RunFilter",
    "RunHandle",
    "RunSummary",
    "Verification",
    "Violation",
]
