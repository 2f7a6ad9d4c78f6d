"""Jobs for a whole store, run by any worker.

A service decides nothing about a run: it finds work and leaves decisions to the run's owner. It keeps no state outside the
store, so it may stop at any time and is started again by `supervise`.
"""

from outlast.services.sweeper import Report, Sweeper

__all__ = ["Report", "Sweeper"]
