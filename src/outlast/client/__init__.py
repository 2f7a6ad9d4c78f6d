"""The engine: the verbs that start, watch and control the runs of a store.

The command line and HTTP translate their own language into these verbs and hold no store. `facade` has the engine,
`reader` the verbs that only read, `starts`, `results`, `control` and `branching` the others, `handle` one run,
`blocking` the same verbs for code that does not await.

Promises:

D1  Reading changes nothing and executes nothing.
D2  No list is cut silently: lists come in pages, and an event that is missing from a log is an error.
D3  Bytes that a store cannot read raise `Damaged` with their place; `verify` reports them with everything else it finds.
D4  Concurrent writes are no violation: `verify` judges the log up to the head that it read.
D5  An acknowledged start, answer or request is durable (P1).
D6  Starts with the same id or key create one run. Different parameters are refused.
D7  A verb that cannot be carried out is refused with a sentence for people and changes nothing (P11).
"""

from outlast.client.blocking import BlockingEngine as BlockingEngine
from outlast.client.blocking import BlockingRunHandle as BlockingRunHandle
from outlast.client.evidence import Diagnosis as Diagnosis
from outlast.client.facade import Engine as Engine
from outlast.client.handle import RunHandle as RunHandle
from outlast.client.reader import Entry as Entry
from outlast.client.reader import Interval as Interval
from outlast.client.reader import Listed as Listed
from outlast.client.reader import Page as Page
from outlast.client.reader import Reader as Reader
from outlast.client.reader import RunFilter as RunFilter
from outlast.client.reader import RunSummary as RunSummary
from outlast.client.reader import Verification as Verification
from outlast.lifecycle.diagnosis import Finding as Finding
from outlast.lifecycle.invariants import Violation as Violation
from outlast.store import Line as Line
