"""Where looking ends: what stands at the very end of what is looked at counts, and one character further on nothing."""

from __future__ import annotations

from typing import Any

import pytest

from recompact.values.call_effects import CallEffect, effect_of, reports_error
from recompact.values.literals import exact_values
from recompact.values.masking import MASK, mask_secrets, safe
from recompact.values.session import Call
from recompact.values.shell import parts


def effect(tool: str, **arguments: Any) -> CallEffect:
    return effect_of(Call("1", tool, arguments))


@pytest.mark.parametrize(("size", "value"), [(20_000, "inv-42"), (20_001, "inv-4")])
def test_exact_values_are_looked_for_in_twenty_thousand_characters(size: int, value: str) -> None:
    assert list(exact_values("inv-42".rjust(size))) == [value]


@pytest.mark.parametrize(("size", "failed"), [(2_000, True), (2_001, False)])
def test_errors_are_looked_for_in_two_thousand_characters(size: int, failed: bool) -> None:
    assert reports_error("exit code 7".rjust(size)) is failed


def test_a_call_is_shown_and_searched_up_to_its_limits() -> None:
    assert len(effect("frobnicate", x="y" * 9_999).line) == 240
    assert effect("frobnicate", x="y" * 4_001).query == "y" * 4_000


@pytest.mark.parametrize(("size", "kinds"), [(20_000, ["other", "list"]), (20_001, ["other", "other"])])
def test_a_command_is_read_up_to_twenty_thousand_characters(size: int, kinds: list[str]) -> None:
    assert [part.kind for part in parts("x" * (size - 3) + ";ls", "")] == kinds


@pytest.mark.parametrize(("size", "hidden"), [(4_096 + 400, True), (4_096 + 401, False)])
def test_a_secret_is_looked_for_some_way_past_what_is_shown(size: int, hidden: bool) -> None:
    """What ends within the margin is masked, and the text is then short enough to be shown whole."""
    secret = "ghp_" + "a1" * ((size - 4) // 2) + "b" * (size % 2)
    assert len(secret) == size
    assert safe(secret, 400) == (MASK if hidden else f"{MASK} […]")


@pytest.mark.parametrize(
    ("run", "masked"),
    [
        ("Xy" * 18 + "Xy12", False),
        ("Xy" * 18 + "X123", True),  # three digits look random
        ("3f2A" * 16, False),  # the longest hash
        ("3f2A" * 16 + "b", True),
    ],
)
def test_how_many_digits_look_random_and_how_long_a_hash_is(run: str, masked: bool) -> None:
    assert mask_secrets(run) == (MASK if masked else run)
