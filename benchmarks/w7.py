"""W7: 1,000 nodes that return 10 KB each, and one that returns 20 MB."""

from __future__ import annotations

import base64
import os
import time
from typing import Any

from benchmarks.program import Found, Stage, play

TIMES = 1000
SMALL = 10_000
LARGE = 20_000_000
LINE = 80


async def measure(stage: Stage) -> Found:
    small, large = payload(SMALL), payload(LARGE)
    async with stage.system.opened(stage.place):
        await stage.system.payloads(small, 20)
        began = time.perf_counter()
        await stage.system.payloads(small, TIMES)
        between = time.perf_counter()
        await stage.system.payloads(large, 1)
        ended = time.perf_counter()
    return {"small_ms_per_node": (between - began) / TIMES * 1e3, "large_s": ended - between}


def payload(size: int) -> dict[str, Any]:
    """About that many bytes of JSON: a list of small records of text that hardly compresses."""
    each = LINE + 20
    text = base64.b64encode(os.urandom(size)).decode()
    return {"records": [{"id": i, "text": text[i * LINE : (i + 1) * LINE]} for i in range(size // each)]}


if __name__ == "__main__":
    play({"measure": measure})
