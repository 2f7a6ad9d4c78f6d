"""Misbehaving nodes for helper processes, which import them by name, and workflows of them."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, NoReturn

import outlast as ol


class Odd(BaseException):
    """Not an Exception."""


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class Shouting(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


def raised(name: str) -> NoReturn:
    """Raise the error of that name."""
    raise ERRORS[name]()


def _deep_group() -> Exception:
    error: Exception = ValueError("innermost")
    for depth in range(600):
        error = ExceptionGroup(f"level {depth}", [error])
    return error


def _long_chain() -> Exception:
    error = ValueError("first")
    for number in range(3000):
        later = ValueError(f"later {number}")
        later.__cause__ = error
        error = later
    return error


def endless() -> NoReturn:
    endless()


def _too_deep() -> Exception:
    try:
        endless()
    except RecursionError as error:
        return error


ERRORS: dict[str, Any] = {
    "base": lambda: Odd("odd"),
    "exit": lambda: SystemExit(3),
    "interrupt": lambda: KeyboardInterrupt(),
    "generator": lambda: GeneratorExit(),
    "stop": lambda: StopIteration(7),
    "stop async": lambda: StopAsyncIteration(),
    "recursion": _too_deep,
    "mute": lambda: Mute(),
    "shouting": lambda: Shouting(),
    "group": lambda: ExceptionGroup("both", [ValueError("one"), KeyError("two")]),
    "base group": lambda: BaseExceptionGroup("both", [KeyboardInterrupt(), KeyError("two")]),
    "deep group": _deep_group,
    "chain": _long_chain,
    "huge": lambda: ValueError("x" * 20_000_000),
    "surrogate": lambda: ValueError("\udc80 \0"),
    "memory": lambda: MemoryError(),
}


def _nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def _circle() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


class Plain:
    """Cannot be stored."""


class Trap(list[Any]):
    def __iter__(self) -> NoReturn:
        raise SystemExit(4)


UNSTORABLE: dict[str, Any] = {
    "object": Plain,
    "lock": threading.Lock,
    "generator": lambda: (number for number in range(3)),
    "circle": _circle,
    "nested": lambda: _nested(50_000),
    "surrogate": lambda: "\udc80",
    "function": lambda: raised,
    "error": lambda: ValueError("x"),
}
"""Values that a node may return and that cannot be stored."""

STORABLE: dict[str, Any] = {
    "30 MB": lambda: "x" * 30_000_000,
    "30 MB of bytes": lambda: b"\xff" * 30_000_000,
    "100 deep": lambda: _nested(100),
    "infinity": lambda: [float("inf"), float("-inf")],
    "nul": lambda: {"a\0b": "c\0d"},
    "set": lambda: {1, 2, 3},
    "frozen set": lambda: frozenset({"a"}),
    "large number": lambda: 10**40,
    "not a text as key": lambda: {1: "one", (2, 3): "two"},
    "mark": lambda: {"$": "blob", "hash": "x", "size": 1},
    "empty": lambda: [None, "", [], {}, 0, False],
}


@ol.node(run_in="process")
def raise_far(name: str) -> NoReturn:
    raised(name)


@ol.node(run_in="process")
def return_far(name: str) -> Any:
    return (UNSTORABLE | STORABLE)[name]()


@ol.node(run_in="process")
def leave(log: str, times: int) -> int:
    """End the process this many times; then return the number of the attempt."""
    with Path(log).open("a") as file:
        file.write("x")
    if len(Path(log).read_text()) <= times:
        os._exit(3)
    return ol.context().attempt


@ol.node(run_in="process", timeout=0.3)
def spin(log: str) -> NoReturn:
    Path(log).write_text(str(os.getpid()))
    while True:
        pass


@ol.node(run_in="process")
def spin_on(log: str) -> NoReturn:
    ol.progress(1)
    Path(log).write_text(str(os.getpid()))
    while True:
        pass


@ol.node(run_in="process")
def dies_once_and_lingers(folder: str) -> None:
    """The second attempt writes its process id and waits to be ended."""
    if ol.context().attempt == 1:
        os._exit(3)
    (Path(folder) / "helper").write_text(str(os.getpid()))
    threading.Event().wait()
