"""One durable step with DBOS."""

import os
import sys
import time

from dbos import DBOS


@DBOS.step()
def double(number: int) -> int:
    return 2 * number


@DBOS.workflow()
def first(number: int) -> int:
    return double(number)


DBOS(config={"name": "first", "system_database_url": f"sqlite:///{sys.argv[1]}", "log_level": "ERROR"})
DBOS.launch()
assert first(21) == 42
print(time.monotonic(), flush=True)
os._exit(0)  # the result is there; its threads would take their time to end
