"""Functions for the helper processes of the tests. They wait for messages where possible, not for times."""

from __future__ import annotations

import dataclasses
import logging
import os
import subprocess
import sys
import threading
from datetime import date
from typing import Any, NoReturn

from outlast.execution import process_child, remote
from outlast.execution.remote import RemoteAttempt
from outlast.values.secrets import Secret

log = logging.getLogger("labour")


def here() -> RemoteAttempt:
    found = remote.current()
    assert found is not None
    return found


@dataclasses.dataclass
class Parcel:
    weight: float
    due: date


class ShopError(Exception):
    pass


class Held:
    """Contains the plain function, like a decorated one."""

    def __init__(self, fn: Any) -> None:
        self.fn = fn

    def __call__(self, *_: object) -> NoReturn:
        raise AssertionError("the plain function must be called")


@Held
def heavier(parcel: Parcel, by: float = 1.0) -> Parcel:
    return Parcel(parcel.weight + by, parcel.due)


def collected(first: int, /, second: int, *more: date, last: int = 0, **named: float) -> dict[str, Any]:
    return {"first": first, "second": second, "more": list(more), "last": last, "named": named}


def pid() -> int:
    return os.getpid()


def doubled(text: str) -> str:
    return text + text


def surroundings() -> dict[str, Any]:
    return {"cwd": os.getcwd(), "argv": sys.argv, "path": sys.path, "environment": dict(os.environ)}


def raised(name: str) -> NoReturn:
    log.info("about to fail")
    kinds = {"shop": ShopError("sold out"), "exit": SystemExit(3), "interrupt": KeyboardInterrupt(), "odd": Odd()}
    raise kinds[name]


class Odd(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


def endless() -> int:
    return endless() + 1


def endless_and_logged(depth: int = 0) -> int:
    log.info("at %d", depth)
    return endless_and_logged(depth + 1) + 1


def unstorable() -> Any:
    return threading.Lock()


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def busy() -> NoReturn:
    """Reports its process id, and never ends."""
    here().progress({"pid": os.getpid()})
    while True:
        pass


def busy_with_another(*, leaves: bool = False) -> NoReturn:
    """Starts a process that would outlive it; then stays, or exits without a message."""
    other = subprocess.Popen(["sleep", "1000"])
    here().progress({"pid": os.getpid(), "other": other.pid})
    while not leaves:
        pass
    os._exit(5)


def talkative() -> NoReturn:
    number = 0
    while True:
        log.info("line %d", number)
        number += 1


def leave(code: int) -> NoReturn:
    log.warning("good bye")
    os._exit(code)


def die(number: int) -> NoReturn:
    os.kill(os.getpid(), number)
    raise AssertionError("unreachable")


def counted(upto: int) -> int:
    """Works in steps, and continues after the last checkpoint."""
    attempt = here().attempt
    start = int(attempt.checkpoint or b"0")
    for step in range(start + 1, upto + 1):
        here().checkpoint(b"%d" % step)
        here().progress({"done": step, "of": upto})
    return start


def noisy(name: str) -> str:
    print("this is printed")
    os.write(1, b"this is written\n")
    sys.stdout.flush()
    value = Secret(name).reveal()
    log.debug("not worth a word")
    log.info("the key is %s", value)
    try:
        raise ShopError("sold out")
    except ShopError:
        log.exception("not a good day \udc80")
    threading.Thread(target=log.warning, args=("from a thread",)).start()
    return sys.stdin.read()


def forked() -> int:
    """Leaves a fork that continues as if it were the helper."""
    pid = os.fork()
    if pid == 0:
        log.info("this must not be heard")
    return pid


def gone_but_for_a_fork(pipe: str) -> NoReturn:
    """The fork, in a session of its own, stays until the pipe ends."""
    end = os.open(pipe, os.O_RDONLY)
    if os.fork() == 0:
        os.setsid()
        os.read(end, 1)
        os._exit(0)
    os._exit(7)


def attempt_known() -> dict[str, Any]:
    attempt = here().attempt
    return {"run": attempt.run, "node": attempt.node, "attempt": attempt.attempt, "token": attempt.idempotency_key}


def process_left() -> int:
    return subprocess.Popen(["sleep", "1000"]).pid


def word_left() -> None:
    """A thread that is sending when the call ends, and is done before the next call."""
    helper = process_child._helper
    assert helper is not None

    def set_attempt_log() -> None:
        while remote.current() is not None or helper._is_busy:
            pass
        helper.send_note("progress", b"{}")

    threading.Thread(target=set_attempt_log).start()


def is_script_there() -> bool:
    return "__mp_main__" in sys.modules or hasattr(sys.modules["__main__"], "__file__")


def thread_left() -> None:
    threading.Thread(target=threading.Event().wait).start()


def misused_checkpoint() -> None:
    here().checkpoint("text")  # type: ignore[arg-type]
