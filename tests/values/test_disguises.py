"""The value of a secret is recognised in whatever form it stands (R4)."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic
import pytest

from outlast.errors import NotStorable
from outlast.execution.log_capture import _record_text
from outlast.values import secret_patterns
from outlast.values.codec import codec_for, encode
from outlast.values.failures import failure_of
from outlast.values.json_fastpath import SHORTEST
from outlast.values.secret_patterns import MOST_KNOWN, SHORTEST_REFUSED, masked, remember, revealed_here

PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASC\n-----END PRIVATE KEY-----\n"
ODD = ['hun"ter2', "it's hunter2", "hunter2\\x", "hunter2\\", "hunter2\tof\nthe north", "hünter2\u20ac", PEM]
PLAIN = "hunter2-of-the-north"
SAID = "the value of a secret must not be stored; pass the Secret"


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(secret_patterns, "known", {})
    return


@dataclass
class Login:
    user: str
    key: str


class Model(pydantic.BaseModel):
    keys: list[str]


class Carrying(Exception):
    def __init__(self, key: Any) -> None:
        super().__init__("refused")
        self.key = key


# --- masked ------------------------------------------------------------------------------------------------------------

WAYS: list[Callable[[str], str]] = [
    lambda value: value,
    json.dumps,
    lambda value: json.dumps(value, ensure_ascii=False),
]


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize("way", WAYS)
def test_a_value_is_masked_as_it_is_and_as_json_escapes_it(value: str, way: Callable[[str], str]) -> None:
    remember(value)
    around = way(f"<{value.strip()}>").split("<")[0], way(f"<{value.strip()}>").split(">")[-1]
    assert masked(way(f"<{value.strip()}>")) == f"{around[0]}<***>{around[1]}"


def test_a_value_is_masked_without_the_line_break_it_ends_in() -> None:
    remember(f"{PLAIN}\n")
    assert masked(f"with {PLAIN}!") == "with ***!"


def test_a_value_that_is_no_unicode_is_masked() -> None:
    remember("hunter2\udc80north")
    assert masked("with hunter2\udc80north, 'hunter2\\udc80north'") == "with ***, '***'"


def test_of_two_values_the_one_that_holds_the_other_is_masked_as_a_whole() -> None:
    remember(PLAIN)
    remember(f"{PLAIN}-west")
    assert masked(f"{PLAIN}-west") == "***"


def test_the_newest_values_are_known_and_their_number_is_bounded() -> None:
    remember(PLAIN)
    for number in range(MOST_KNOWN - 1):
        remember(f"token-{number:06}")
    remember(PLAIN)  # which makes it one of the newest
    remember("another token")
    assert len(secret_patterns.known) == MOST_KNOWN
    assert masked(f"{PLAIN} token-000000") == "*** token-000000"


# --- what an error leaves behind ---------------------------------------------------------------------------------------


def left_by(error: BaseException) -> str:
    """All that is stored of it, with its texts read from their JSON."""
    failure = failure_of(error)
    told: list[str] = [failure.message, failure.trace]

    def gather(tree: Any) -> None:
        if isinstance(tree, str):
            told.append(tree)
        for part in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
            gather(part)

    gather(json.loads(bytes(failure.data)))
    return "\n".join(told)


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize(
    "made",
    [
        lambda value: ValueError(f"bad password {value}!"),
        lambda value: ValueError(value),
        lambda value: KeyError(value),
        lambda value: ValueError(repr({"key": value})),
        Carrying,
        lambda value: Carrying([{"key": value}]),
        lambda value: ExceptionGroup("all", [ValueError("fine"), ValueError(f"bad {value}!")]),
        lambda value: ExceptionGroup("all", [ExceptionGroup("more", [KeyError(value)])]),
    ],
)
def test_nothing_of_an_error_gives_a_value_away(value: str, made: Callable[[str], Exception]) -> None:
    remember(value)
    try:
        raise made(value)
    except Exception as error:
        left = left_by(error)
    core = value.strip()
    assert not [line for line in core.splitlines() if line in left]
    assert repr(core)[1:-1] not in left


@pytest.mark.parametrize("value", [PLAIN, "ab-c"])
def test_an_error_that_carries_bytes_of_a_value_loses_them(value: str) -> None:
    remember(value)
    carried = b"x" + value.encode()
    assert base64.b64encode(carried) not in bytes(failure_of(Carrying(carried)).data)


def test_an_error_keeps_what_has_nothing_to_do_with_a_value() -> None:
    remember(PLAIN)
    error = Carrying(PLAIN)
    error.code = 7  # type: ignore[attr-defined]
    assert json.loads(bytes(failure_of(error).data)) == {"args": ["refused"], "state": {"code": 7}}


def test_a_record_that_shows_a_value_is_masked() -> None:
    remember(PLAIN)
    record = logging.LogRecord("shop", logging.INFO, "shop.py", 1, "with %r", (PLAIN,), None)
    assert masked(_record_text(record)) == "with '***'"


# --- refused -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [PLAIN, *ODD])
@pytest.mark.parametrize(
    ("held", "annotation", "path"),
    [
        (lambda value: value, Any, ""),
        (lambda value: value, str, ""),
        (lambda value: f"Bearer {value}", str, ""),
        (lambda value: [1, value], Any, "[1]"),
        (lambda value: ("a", ("b", value)), Any, "[1][1]"),
        (lambda value: {value}, Any, "[0]"),
        (lambda value: {"a": {"b": value}}, Any, '["a"]["b"]'),
        (lambda value: {value: 1}, Any, ""),
        (lambda value: {1: value}, Any, "[1]"),
        (lambda value: {(1, value): 2}, Any, ""),
        (lambda value: Login("me", value), Login, '["key"]'),
        (lambda value: Model(keys=["a", f"Bearer {value}"]), Model, '["keys"][1]'),
        (lambda value: Path("tmp") / value, Path, ""),
        (lambda value: value.encode(), bytes, ""),
        (lambda value: [b"ab" + value.encode() + b"c"], Any, "[0]"),
        (lambda value: {"rows": ["x" * SHORTEST, value]}, Any, '["rows"][1]'),
    ],
)
def test_a_text_that_holds_a_value_is_refused_by_its_path(value: str, held: Any, annotation: Any, path: str) -> None:
    remember(value)
    with pytest.raises(NotStorable, match=SAID) as error:
        encode(held(value), annotation, where="result")
    assert str(error.value).startswith(f"result{path}: ")


def test_bytes_that_hold_a_value_are_not_on_their_way_before_they_are_refused() -> None:
    remember(PLAIN)
    begun: list[bytes] = []
    with pytest.raises(NotStorable):
        codec_for(Any).encode_and_copy({"rows": ["x" * SHORTEST, PLAIN]}, "result", begun.append)
    assert begun == []


def test_the_path_of_a_refusal_does_not_show_a_value() -> None:
    remember(PEM)
    with pytest.raises(NotStorable) as error:
        encode({PEM: object()})
    assert "BEGIN" not in str(error.value)


@pytest.mark.parametrize("value", ["a", "hunter2", "postgres", "production", "minioadmin"])
def test_a_value_that_may_be_said_by_chance_is_no_reason_to_refuse(value: str) -> None:
    remember(value)
    assert bytes(encode([f"a {value} b"])) == f'["a {value} b"]'.encode()


def test_a_number_with_the_digits_of_a_value_is_stored() -> None:
    remember("1" * SHORTEST_REFUSED)
    assert bytes(encode([int("1" * 12)])) == b"[111111111111]"


def test_what_does_not_hold_a_value_is_stored_as_ever() -> None:
    remember(PLAIN)
    assert bytes(encode({"a": [PLAIN[:-1], PLAIN.upper()]})).startswith(b'{"a":["hunter2-of-the-nort"')


def test_workflow_code_is_held_to_what_it_has_revealed_itself() -> None:
    """Or its replay would depend on what other runs reveal in the same process."""
    remember("of another run 1")
    before = revealed_here.set(set())
    try:
        remember(PLAIN)
        assert bytes(encode("of another run 1")) == b'"of another run 1"'
        assert bytes(encode(Model(keys=["of another run 1"]), Model)) == b'{"keys":["of another run 1"]}'
        with pytest.raises(NotStorable):
            encode(PLAIN)
    finally:
        revealed_here.reset(before)
