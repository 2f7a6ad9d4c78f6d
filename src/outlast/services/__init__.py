"""THE STAFF: loops that never end, one file each.

A service looks after one thing for a worker, forever: the claimer finds runs that want an owner, the timekeeper runs whose
time has come, the renewer keeps the worker alive and remembers what it holds, the usher sees runs out that only wait, the
sweeper finds what all of them missed. They
refuse to decide anything about a run: that is done by whoever owns it. Each may fail at any time and is started again by
`serve`; none holds anything that the store does not.
"""

from outlast.services.claimer import Claimer
from outlast.services.renewer import Renewer
from outlast.services.serving import serve
from outlast.services.sweeper import Report, Sweeper
from outlast.services.timekeeper import Timekeeper
from outlast.services.usher import Usher

__all__ = ["Claimer", "Renewer", "Report", "Sweeper", "Timekeeper", "Usher", "serve"]
