"""Names of things: ordered where they are new, found again where they are derived, refused where they cannot travel."""

from __future__ import annotations

import uuid

import pytest

from outlast.errors import InvalidInput
from outlast.history.ids import checked_run, derived_run, uuid7

NOW = 1_700_000_000_000


def test_a_uuid7_of_a_later_millisecond_sorts_later_whatever_its_random_bytes() -> None:
    names = [uuid7(NOW + step, entropy) for step, entropy in ((0, b"\xff" * 10), (1, b"\0" * 10), (256, b"\0" * 10))]
    assert names == sorted(names)
    assert len(set(names)) == 3


@pytest.mark.parametrize("entropy", [b"\0" * 10, b"\xff" * 10, bytes(range(10))])
def test_a_uuid7_has_its_version_variant_and_time(entropy: bytes) -> None:
    parsed = uuid.UUID(uuid7(NOW, entropy))
    assert parsed.version == 7
    assert parsed.variant == uuid.RFC_4122
    assert parsed.int >> 80 == NOW


def test_a_uuid7_keeps_its_random_bits() -> None:
    assert uuid7(NOW, bytes(range(10))) == uuid7(NOW, bytes(range(10)))
    assert len({uuid7(NOW, bytes([0] * at + [1] + [0] * (9 - at))) for at in range(10)}) == 10


def test_a_uuid7_is_a_run_id() -> None:
    name = uuid7(NOW, b"\x80" * 10)
    assert checked_run(name) == name


def test_a_derived_run_is_always_the_same_one() -> None:
    assert derived_run("trigger", "input-7") == derived_run("trigger", "input-7")
    assert derived_run("trigger", "input-7") == "c3589631-f6dc-8cbb-adf1-0a84c2f96b9e"


def test_a_derived_run_is_a_uuid_of_version_8() -> None:
    parsed = uuid.UUID(derived_run("parent", "node"))
    assert (parsed.version, parsed.variant) == (8, uuid.RFC_4122)


@pytest.mark.parametrize(
    "names",
    [("a",), ("b", "c"), ("bc",), ("c", "b"), ("b", "c", ""), ("", "b", "c"), ("b", "c", "d")],
)
def test_different_sources_and_names_derive_different_runs(names: tuple[str, ...]) -> None:
    others = [("b", "c"), ("bc",), ("c", "b"), ("b", "c", ""), ("", "b", "c"), ("b", "c", "d"), ("a",)]
    same = [each for each in others if derived_run("s", *each) == derived_run("s", *names)]
    assert same == [names]
    assert derived_run("s", *names) != derived_run("t", *names)


def test_a_name_with_a_zero_byte_derives_no_other_names_run() -> None:
    assert derived_run("s", "a\0b") != derived_run("s", "a", "b")


@pytest.mark.parametrize("name", ["a", "7", "order:2024-01-01", "A.b_c:d@e=f+g-h", "x" * 200])
def test_a_name_that_can_travel_is_a_run_id(name: str) -> None:
    assert checked_run(name) == name


@pytest.mark.parametrize(
    "name",
    ["", " ", "a b", "a/b", "../a", ".a", "-a", "_a", "a\n", "a\0", "ä", "a%2f", "a\\b", "x" * 201, "a?b", "a#b", "a*"],
)
def test_a_name_that_cannot_travel_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be a run id"):
        checked_run(name)


def test_a_refusal_does_not_repeat_a_name_of_any_length() -> None:
    with pytest.raises(InvalidInput) as refusal:
        checked_run("x" * 100_000)
    assert len(str(refusal.value)) < 300
