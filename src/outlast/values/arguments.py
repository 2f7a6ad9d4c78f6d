"""The arguments of a call as JSON, and back, by the annotations of the function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from outlast.errors import InvalidInput, NotStorable
from outlast.history.events import NULL, Value
from outlast.values.codec import Codec, codec_for, hints_of
from outlast.values.context import is_in_workflow
from outlast.values.source_location import shown, user_place

MORE = "*"
"""The JSON key of the values of `*args`."""


class Packed(Struct, frozen=True):
    """A call's arguments: their JSON, and copies that the function may change."""

    inputs: Value
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class _Written(str):
    """An annotation that the code holds as text; `inspect` shows it without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Arguments:
    """Packs and unpacks the arguments of one function. Arguments left to their defaults are not stored."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.signature = inspect.signature(fn)
        self._name = getattr(fn, "__name__", "the function")
        hints, returns = hints_of(fn)
        self.returns: Codec = codec_for(returns)
        self._hints = hints
        self._codecs: dict[str, Codec] = {}
        parameters = self.signature.parameters.values()
        self._names = tuple(each.name for each in parameters)
        is_plain = all(each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for each in parameters)
        self._plain = len(self._names) if is_plain else -1
        """How many arguments a call passes that leaves none to a default; -1 if there are parameters of other kinds."""
        self._columns: list[tuple[str, bytes, Codec]] = []
        """For calls that pass every parameter in order: the description of each, the JSON before its value, its codec."""

    def pack(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Packed:
        """Raises `TypeError` if the function cannot be called so, and `NotStorable` if an argument would be read back
        differently. Both name the signature and, in workflow code, the line of the call."""
        try:
            return self._pack(args, kwargs)
        except NotStorable as error:
            raise NotStorable(self._misfit(str(error))) from None

    def _misfit(self, why: str) -> str:
        place = f"{shown(user_place())}: " if is_in_workflow() else ""
        return f"{place}{why}; the signature is {self.shown}"

    def _pack(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Packed:
        if not kwargs:
            if len(args) == self._plain:
                return self._pack_all(args)
        elif len(args) + len(kwargs) == self._plain:
            rest = self._names[len(args) :]
            if kwargs.keys() == set(rest):
                return self._pack_all((*args, *[kwargs[name] for name in rest]))
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(self._misfit(f"{self._name}() {error}")) from None
        return self._pack_bound(bound)

    def _pack_all(self, args: tuple[Any, ...]) -> Packed:
        if not args:
            return _NOTHING
        if not self._columns:
            begins = [b'{"', *[b',"'] * len(self._names)]
            keys = [begin + name.encode() + b'":' for begin, name in zip(begins, self._names, strict=False)]
            self._columns = [
                (self._called(name), key, self.codec(name)) for name, key in zip(self._names, keys, strict=True)
            ]
        body, copies = b"", args
        for place, (called, key, codec) in enumerate(self._columns):
            value = args[place]
            if type(value) in codec.unchanged:
                written = codec.written(value, called)
            else:
                written, copy = codec.encode_and_copy(value, called)
                copies = (*copies[:place], copy, *copies[place + 1 :])
            body += key + written
        return Packed(msgspec.Raw(body + b"}"), copies, {})

    def _pack_bound(self, bound: inspect.BoundArguments) -> Packed:
        written: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            kind = self.signature.parameters[name].kind
            codec = self.codec(name)
            if kind is inspect.Parameter.VAR_POSITIONAL:
                written[MORE] = [
                    codec.encode(each, f"{self._called(name)}[{place}]") for place, each in enumerate(value)
                ]
            elif kind is inspect.Parameter.VAR_KEYWORD:
                written |= {key: codec.encode(each, self._called(key)) for key, each in value.items()}
            else:
                written[name] = codec.encode(value, self._called(name))
        inputs = msgspec.Raw(msgspec.json.encode(written)) if written else NULL
        args, kwargs = self.unpack(inputs)
        return Packed(inputs, args, kwargs)

    def unpack(self, inputs: Value) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments for the function; `InvalidInput` if they do not fit its parameters."""
        stored = msgspec.json.decode(inputs, type=dict[str, msgspec.Raw] | None) or {}
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        in_order = MORE in stored
        for name, parameter in self.signature.parameters.items():
            codec = self.codec(name)
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                more = msgspec.json.decode(stored.pop(MORE), type=list[msgspec.Raw]) if in_order else []
                args += [codec.decode(raw) for raw in more]
            elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
                kwargs |= {key: codec.decode(stored.pop(key)) for key in list(stored)}
            elif name in stored or in_order or parameter.default is inspect.Parameter.empty:
                value = codec.decode(stored.pop(name)) if name in stored else _default(parameter)
                if parameter.kind is inspect.Parameter.KEYWORD_ONLY or not (
                    in_order or parameter.kind is inspect.Parameter.POSITIONAL_ONLY
                ):
                    kwargs[name] = value
                else:
                    args.append(value)
        if stored:
            raise InvalidInput(
                f"the stored arguments hold {', '.join(sorted(stored))}, which the function does not take now"
            )
        return tuple(args), kwargs

    def check_arguments(self, inputs: Value) -> None:
        """Raise `InvalidInput` if one of these is not an argument of the function or not of its type."""
        kinds = {each.kind: each.name for each in self.signature.parameters.values()}
        more, rest = kinds.get(inspect.Parameter.VAR_POSITIONAL), kinds.get(inspect.Parameter.VAR_KEYWORD)
        for name, raw in msgspec.json.decode(inputs, type=dict[str, msgspec.Raw]).items():
            if name == MORE and more is not None:
                self._check_type_of(more, msgspec.json.decode(raw, type=list[msgspec.Raw]))
            elif name in self.signature.parameters and name not in (more, rest):
                self._check_type_of(name, [raw])
            elif rest is not None:
                self._check_type_of(rest, [raw])
            else:
                raise InvalidInput(f"{self._name} has no parameter {name!r}; the signature is {self.shown}")

    def _check_type_of(self, name: str, values: list[msgspec.Raw]) -> None:
        try:
            for raw in values:
                self.codec(name).decode(raw)
        except InvalidInput as error:
            raise InvalidInput(f"{self._called(name)}: {error}; the signature is {self.shown}") from error

    @property
    def shown(self) -> str:
        """The signature: `draft(customer: str, tone: str = 'friendly') -> str`."""
        signature = self.signature
        parameters = [
            each.replace(annotation=_Written(each.annotation)) if isinstance(each.annotation, str) else each
            for each in signature.parameters.values()
        ]
        returns = signature.return_annotation
        returns = _Written(returns) if isinstance(returns, str) else returns
        return f"{self._name}{signature.replace(parameters=parameters, return_annotation=returns)}"

    def _called(self, name: str) -> str:
        """The description of an argument in a message."""
        return f"{self._name}({name})"

    def codec(self, name: str) -> Codec:
        """The codec of a parameter, made at first use: annotations may name types that are defined later."""
        codec = self._codecs.get(name)
        if codec is None:
            codec = self._codecs[name] = codec_for(self._hints.get(name, Any))
        return codec


def _default(parameter: inspect.Parameter) -> Any:
    if parameter.default is inspect.Parameter.empty:
        raise InvalidInput(f"the stored arguments lack {parameter.name!r}, which the function requires now")
    return parameter.default


_NOTHING = Packed(NULL, (), {})
