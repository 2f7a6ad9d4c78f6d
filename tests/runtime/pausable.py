"""Nodes for helper processes, which find them by name."""

from __future__ import annotations

import time
from pathlib import Path

import outlast as ol


@ol.node(run_in="process")
def counting_in_a_process() -> list[int]:
    """Where it began, and how far it came; the second checkpoint waits for the file `go`."""
    begin = ol.last_checkpoint(0)
    done = [begin] if begin else []
    try:
        for number in range(begin + 1, 5):
            if number == 2:
                while not Path("go").exists():
                    time.sleep(0.005)
            ol.checkpoint(number)
            if begin:
                done.append(number)
    except Exception:
        Path("ended").write_text("an exception")
    except BaseException as error:
        Path("ended").write_text(type(error).__name__)
        raise
    return done
