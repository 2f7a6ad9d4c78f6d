"""Nodes that run in separate processes, which import them by name."""

from __future__ import annotations

import time
from pathlib import Path

import outlast as ol


@ol.node(run_in="process")
def toil(folder: str, name: str) -> str:
    """Runs until a file exists; every start leaves a file."""
    place = Path(folder)
    number = len(list(place.glob(f"{name}.begun.*"))) + 1
    (place / f"{name}.begun.{number}").write_text(ol.idempotency_key())
    while not (place / f"{name}.go").exists():
        time.sleep(0.01)
    return f"{name}{number}{ol.feedback('')}"
