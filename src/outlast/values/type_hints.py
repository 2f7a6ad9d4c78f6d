"""Resolve annotations. It never fails: a name that cannot be resolved is Any."""

from __future__ import annotations

import functools
import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any


def hints_of(function: Callable[..., Any]) -> tuple[dict[str, Any], Any]:
    """The annotations of a function's parameters, in their order, and of its result; Any where there is none.

    A parameter whose default is None may be None. The annotation of `*args` or `**kwargs` is that of each of them."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}, Any
    plain = _plain(function)
    annotations = getattr(plain, "__annotations__", {})
    names = _names_around(plain)
    found = {name: _resolved(annotations.get(name, Any), *names) for name in parameters}
    for name, parameter in parameters.items():
        if parameter.default is None and found[name] is not Any:
            found[name] = typing.Optional[found[name]]  # noqa: UP045 - `|` refuses some annotations
    return found, _resolved(annotations.get("return", Any), *names)


def class_hints(annotation: Any) -> dict[str, Any]:
    """The annotations of a class's fields, with the type variables of a generic class, and of its parents, filled in."""
    cls = typing.get_origin(annotation) or annotation
    filled = _filled(cls, typing.get_args(annotation))
    hints: dict[str, Any] = {}
    for owner in reversed(cls.__mro__):
        module = vars(sys.modules.get(owner.__module__, object))
        names = ({**module}, {**vars(owner), owner.__name__: owner, cls.__name__: cls})
        for name, hint in inspect.get_annotations(owner).items():
            hints[name] = _substituted(_resolved(hint, *names), filled.get(owner, {}))
    return hints


def required_keys(annotation: Any) -> frozenset[str]:
    """The required keys of a TypedDict. Its own `__required_keys__` is wrong if its annotations were texts."""
    cls = typing.get_origin(annotation) or annotation
    required = set(cls.__required_keys__)
    for name, hint in class_hints(annotation).items():
        wrappers = _wrappers(hint)
        if typing.NotRequired in wrappers:
            required.discard(name)
        elif typing.Required in wrappers:
            required.add(name)
    return frozenset(required)


def _wrappers(hint: Any) -> set[Any]:
    found = set()
    while (origin := typing.get_origin(hint)) in (typing.NotRequired, typing.Required, typing.Annotated):
        found.add(origin)
        hint = typing.get_args(hint)[0]
    return found


def _plain(function: Callable[..., Any]) -> Any:
    """The function below partials, methods, wrappers and objects that can be called."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type):
        function = vars(function).get("__init__", function)
    elif not inspect.isroutine(function):
        function = type(function).__call__
    return inspect.unwrap(getattr(function, "__func__", function))


def _names_around(function: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None) or ()
    around = {}
    for name, cell in zip(code.co_freevars if code else (), cells, strict=False):
        try:
            around[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    return getattr(function, "__globals__", {}), around


def _resolved(hint: Any, known: Mapping[str, Any], nearer: Mapping[str, Any]) -> Any:
    try:
        holder = SimpleNamespace(__annotations__={"hint": hint})
        return typing.get_type_hints(holder, {**known}, {**nearer}, include_extras=True)["hint"]
    except Exception:  # evaluating a text may raise any exception
        return Any


def _filled(cls: Any, args: tuple[Any, ...]) -> dict[Any, dict[Any, Any]]:
    """For a generic class and each of its parents, what its type variables stand for."""
    own = dict(zip(getattr(cls, "__parameters__", ()), args, strict=False))
    filled = {cls: own}
    for parent in cls.__dict__.get("__orig_bases__", cls.__bases__):
        origin = typing.get_origin(parent) or parent
        if isinstance(origin, type) and origin is not object:
            given = tuple(_substituted(arg, own) for arg in typing.get_args(parent))
            filled.update(_filled(origin, given))
    return filled


def _substituted(hint: Any, values: Mapping[Any, Any]) -> Any:
    if isinstance(hint, typing.TypeVar):
        return values.get(hint, hint)
    variables = getattr(hint, "__parameters__", ())
    if not variables or isinstance(hint, type) or not any(variable in values for variable in variables):
        return hint
    return hint[tuple(values.get(variable, variable) for variable in variables)]
