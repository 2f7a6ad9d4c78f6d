"""Secrets are stored as references and resolved where they are used (R4)."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterator
from typing import Any

import pydantic
import pytest
from msgspec import Raw

from outlast.errors import InvalidInput, NotStorable
from outlast.values import secret_patterns, secrets
from outlast.values.codec import decode, encode
from outlast.values.failures import error_from, failure_of
from outlast.values.secret_patterns import masked
from outlast.values.secrets import Revealed, Secret, register_secret_source

VALUE = "hunter2-of-the-north"
SAID = "the value of a secret must not be stored; pass the Secret"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("API_KEY", VALUE)
    monkeypatch.setattr(secrets, "_sources", {**secrets._sources})
    monkeypatch.setattr(secret_patterns, "known", {})
    return


@dataclasses.dataclass
class Login:
    user: str
    key: Any


@dataclasses.dataclass
class Account:
    key: Secret
    other: Secret | None = None


class Model(pydantic.BaseModel):
    key: str


def test_a_secret_is_the_environments_unless_it_says_otherwise() -> None:
    register_secret_source("vault", {"key": "from the vault"}.get)
    assert Secret("API_KEY").reveal() == VALUE
    assert Secret("key", source="vault").reveal() == "from the vault"


def test_a_secret_is_resolved_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = Secret("API_KEY")
    secret.reveal()
    monkeypatch.setenv("API_KEY", "rotated")
    assert secret.reveal() == "rotated"


@pytest.mark.parametrize("secret", [Secret("NOWHERE"), Secret("API_KEY", source="cellar")])
def test_a_secret_that_is_missing_is_named_with_its_source(secret: Secret) -> None:
    with pytest.raises(InvalidInput) as error:
        secret.reveal()
    assert repr(secret.name) in str(error.value)
    assert repr(secret.source) in str(error.value)


def test_a_source_needs_a_name_and_a_function() -> None:
    with pytest.raises(InvalidInput):
        register_secret_source("", lambda name: name)
    with pytest.raises(InvalidInput):
        register_secret_source("x", "y")  # type: ignore[arg-type]


def test_a_secret_never_shows_its_value() -> None:
    secret = Secret("API_KEY")
    value = secret.reveal()
    assert VALUE not in f"{secret} {secret!r} {secret!s} {value!r} {[value]} {Login('a', value)}"
    assert repr(secret) == "Secret('API_KEY')"
    assert f"Bearer {value}" == f"Bearer {VALUE}", "it is there to be used"


@pytest.mark.parametrize("annotation", [Any, Secret, Secret | None, Secret | str | dict[str, int]])
def test_a_secret_is_stored_as_a_reference_and_comes_back(annotation: Any) -> None:
    secret = Secret("API_KEY", source="vault")
    raw = encode(secret, annotation)
    assert b'"name":"API_KEY","source":"vault"' in bytes(raw)
    assert decode(raw, annotation) == secret
    assert type(decode(raw, annotation)) is Secret


def test_a_secret_in_a_record_comes_back() -> None:
    account = Account(Secret("a"), Secret("b"))
    assert encode(Secret("a")) == Raw(b'{"$":"secret","name":"a","source":"env"}')
    assert decode(encode(account, Account), Account) == account
    assert decode(encode({"keys": [Secret("a")]})) == {"keys": [Secret("a")]}


def test_the_value_of_a_secret_is_refused_wherever_it_occurs() -> None:
    value = Secret("API_KEY").reveal()
    places: list[tuple[Any, Any]] = [
        (value, Any),
        (value, str),
        (value, str | None),
        ([value], list[str]),
        (["a"] * 20 + [value], list[str]),
        ({"a": {"b": (1, value)}}, Any),
        ({value: 1}, Any),
        ({value: 1}, dict[str, int]),
        ({1: value}, dict[int, str]),
        ({value}, set[str]),
        (Login("a", value), Login),
        (Login(value, 1), Login),
        (value, Secret),
        (Model(key=value), Model),
    ]
    for place, annotation in places:
        with pytest.raises(NotStorable, match=SAID) as error:
            encode(place, annotation)
        assert VALUE not in str(error.value)


def test_a_revealed_value_reaches_another_process_as_one() -> None:
    assert type(pickle.loads(pickle.dumps(Revealed("x")))) is Revealed


def test_what_an_error_says_does_not_give_a_secret_away() -> None:
    value = Secret("API_KEY").reveal()
    error = PermissionError(f"403 for https://host/?key={value}", value)
    failure = failure_of(error)
    assert VALUE not in failure.message
    assert VALUE not in failure.trace
    assert VALUE.encode() not in bytes(failure.data)
    assert isinstance(error_from(failure), PermissionError)


def test_masking_leaves_other_text_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHORT", "a")
    Secret("SHORT").reveal()
    Secret("API_KEY").reveal()
    assert masked(f"a {VALUE} b") == "a *** b"
