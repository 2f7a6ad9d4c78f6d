"""Services for a whole store, which any worker can run.

A service decides nothing about a run: it finds work and leaves decisions to the run's owner. It keeps no state outside
the store, so it may stop at any time; `supervise` restarts it.
"""

from outlast.services.pruner import Pruner
from outlast.services.sweeper import Report, Sweeper

__all__ = ["Pruner", "Report", "Sweeper"]
