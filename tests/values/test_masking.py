"""Text made fit to be shown: what looks like a secret is masked wherever it stands, and what merely is long is not."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from recompact.values.masking import MARGIN, MASK, mask_secrets, safe, safe_line

RANDOM = "Ab3dEf6hIj9lMn2pQr5tUv8xYz1bCd4fGh7jKl0n"  # 40 characters
HEXADECIMAL = "3f2a9c1d7e8b9a0c1d2e3f4a5b6c7d8e9f0a1b2C"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer abcdefghijkl", f"Authorization: Bearer {MASK}"),
        ("Bearer of news", "Bearer of news"),
        ("redis://:hunter2@host/0", f"redis://:{MASK}@host/0"),
        ("https://host:8080/a@b", "https://host:8080/a@b"),
        ("login --password hunter22 --user me", f"login --password {MASK} --user me"),
        ("login --password $SECRET_X", "login --password $SECRET_X"),
        ('api_key = "a b c d"', f"api_key = {MASK}"),
        ("token: none", "token: none"),
        ("AKIAABCDEFGHIJKLMNOP", MASK),
        ("ghp_abcdefghij0123456789", MASK),
        ("the token ring", "the token ring"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nafter", f"{MASK}\nafter"),
    ],
)
def test_a_secret_is_masked_and_its_surroundings_stay(text: str, shown: str) -> None:
    assert mask_secrets(text) == shown


@pytest.mark.parametrize(
    ("run", "is_masked"),
    [
        (RANDOM, True),
        (f"{RANDOM}==", True),
        (RANDOM[:39], False),  # too short to tell
        (RANDOM.lower(), False),
        (RANDOM.upper(), False),
        ("".join("x" if c.isdigit() else c for c in RANDOM), False),
        (HEXADECIMAL, False),  # of a commit
        (HEXADECIMAL + HEXADECIMAL[:25], True),  # longer than any hash
        ("Src3/Lib4/Some5Name/Other6Name/Third7Name/File8", False),  # a path: no step of it is long
        (f"{RANDOM[:15]}/{RANDOM[15:30]}/{RANDOM[30:40]}", False),
        (f"{RANDOM[:16]}/{RANDOM[16:31]}/{RANDOM[31:40]}", True),
    ],
)
def test_a_long_run_is_masked_where_it_looks_random(run: str, is_masked: bool) -> None:
    assert mask_secrets(f"x {run} y") == (f"x {MASK} y" if is_masked else f"x {run} y")


@given(st.text(max_size=60), st.integers(0, 80))
def test_no_more_is_shown_than_fits_and_a_cut_has_a_mark(text: str, limit: int) -> None:
    shown = safe_line(text, limit)
    assert "\n" not in shown
    plain = " ".join(text.split())
    if MASK not in shown and plain.isascii() and plain.isprintable():
        assert shown == plain or (shown.endswith(" […]") and plain.startswith(shown.removesuffix(" […]")))


def test_a_secret_at_the_limit_is_not_cut_in_two_and_overlooked() -> None:
    assert RANDOM[:5] not in safe(f"{'x ' * 200}{RANDOM}", 405)
    far = "a " * (MARGIN + 400)
    assert safe(far, 400) == f"{far[:400]} […]"
    assert safe("a" * 400 + " ", 400) == "a" * 400 + " "
