"""THE FRONT DESK: what may be asked of runs, whoever asks.

The windows (command line, HTTP) translate one outer language into these verbs and hold no store of their own. `reading`
has the verbs that only look, `acting` those that start, wait, answer and steer, `handle` is a run as a caller sees it, and
`blocking` is the same desk for code that does not await.

What holds here:

D1  Reading changes nothing, and never executes.
D2  A list is never cut short in silence: it comes in pages, and events that are missing from a log are an error.
D3  What a store cannot read is `Damaged` with its place; `verify` reports it beside everything else it finds.
D4  What is being written meanwhile is no violation: `verify` judges the log as it was when it looked at the head.
D5  What was acknowledged is durable: a start, an answer, a request (P1).
D6  A start under an id or a key is one run, however often it is asked for; with other parameters it is refused.
D7  What cannot be done is refused with a sentence for people, and nothing is changed (P11).
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
