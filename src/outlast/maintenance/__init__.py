"""Maintenance of a whole store: information, backup, export, and transfer to another store.

U1  Reading a store changes nothing, and creates nothing where no store exists.
U2  A backup is complete: first the database at one point in time, then the blobs. A blob is durable before an event names
    it, so every blob that the copied log names exists.
U3  A backup overwrites nothing. It appears under its name only when all of it is durable and was opened once.
"""

from __future__ import annotations

from outlast.maintenance.backup import Copied, Tell, back_up
from outlast.maintenance.export import exported
from outlast.maintenance.info import Info, inspect, upgrade

__all__ = ["Copied", "Info", "Tell", "back_up", "exported", "inspect", "upgrade"]
