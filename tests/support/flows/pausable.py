"""Nodes for helper processes, which import them by name."""

from __future__ import annotations

import os
import time
from pathlib import Path

import outlast as ol


@ol.node(run_in="process")
def counting_in_a_process() -> list[int]:
    """Returns where it began and how far it came; the second checkpoint waits for the file `go`."""
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


@ol.node(run_in="process")
def writing_in_a_process(path: str) -> int:
    """Writes two halves with a checkpoint in between; the first attempt waits for the file `go` there."""
    with ol.output_path(path) as hidden:
        hidden.write_text("first half, ")
        Path("half").touch()
        while ol.context().attempt == 1 and not Path("go").exists():
            time.sleep(0.005)
        ol.checkpoint("half")
        with hidden.open("a") as file:
            file.write("second half")
    return ol.context().attempt


@ol.node(run_in="process")
def dying_while_writing(path: str) -> int:
    """The process dies during the first attempt."""
    with ol.output_path(path) as hidden:
        hidden.write_text("half")
        if ol.context().attempt == 1:
            os._exit(3)
        hidden.write_text("all of it")
    return ol.context().attempt
