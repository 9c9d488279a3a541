"""Keys are kept out of texts and records: in any form in which a server may send one back, and wherever a config has
one."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

KEY = "[key]"

_SECRET_NAMES = re.compile(
    r"(x-)?(api|access|auth|client|secret|private)[-_ ]?(key|token|secret)|key|token|secret|password|passwd"
    r"|authorization|bearer|credentials?",
    re.I,
)
_KEY_LIKE = (
    r"\bsk-[\w*.-]{4,}|\b(?:pk|rk|gsk|xai|hf|ghp|glpat)[-_](?=[\w-]*\d)[\w-]{16,}"
    r"|\bBearer\s+[\w*.+/=~-]{4,}|\b\w{2,12}\*{3,}[\w-]*"
)
_PART = 8  # characters in a row that give a part of a key away
_KEY = 12  # what is shorter may be a word
_LONG = 20  # a key of fewer characters has parts that are ordinary words


def scrubber(*keys: str, lookalikes: bool = True) -> Callable[[str], str]:
    """Takes the keys, and with `lookalikes` whatever else looks like one, out of a text: as they are, in part, in
    base64, percent-encoded or in hexadecimal."""
    exact = {form for key in keys if len(key) >= 4 for form in _forms(key)}
    parts = {key[at : at + _PART] for key in keys if len(key) >= _LONG for at in range(len(key) - _PART + 1)}
    coded = {form for key in keys if len(key) >= _PART for form in _base64_forms(key)}
    patterns = [_any(exact), _any(coded, r"[\w+/=-]*"), _any(parts, r"[\w+/=%~.*-]*")]
    patterns += [f"(?-i:{_KEY_LIKE})"] * lookalikes
    if not any(patterns):
        return str
    pattern = re.compile("|".join(filter(None, patterns)), re.I)
    return lambda text: pattern.sub(KEY, text)


def reply_scrubber(*keys: str) -> Callable[[str], str]:
    """The same for what a model says, where only the keys themselves are taken out, and only those that cannot be
    ordinary words: tasks may be about keys, and servers without any get a word in place of one."""
    return scrubber(*(key for key in keys if len(key) >= _KEY), lookalikes=False)


def _any(forms: set[str], rest: str = "") -> str:
    if not forms:
        return ""
    return f"(?:{'|'.join(map(re.escape, sorted(forms, key=len, reverse=True)))}){rest}"


def _forms(key: str) -> Iterator[str]:
    yield key
    yield json.dumps(key)[1:-1]
    for safe in ("", "/", "/+=", "/:@!$&'()*+,;=~"):
        yield quote(key, safe=safe)
        yield quote(quote(key, safe=safe), safe="")
    yield "".join(f"%{byte:02X}" for byte in key.encode())
    yield key.encode().hex()


def _base64_forms(key: str) -> Iterator[str]:
    """What base64 makes of a key wherever it begins in a text, except for the characters its neighbours decide."""
    for before in range(3):
        code = base64.b64encode(b"\0" * before + key.encode()).decode().rstrip("=")
        whole_bytes = (before + len(key.encode())) // 3 * 4
        form = code[(0, 2, 3)[before] : whole_bytes]
        if len(form) >= _PART:
            yield form
            yield form.translate(str.maketrans("+/", "-_"))


def secrets_in(settings: Any, name: str = "") -> Iterator[str]:
    """The texts in a table of settings that are keys, by their name or by their look."""
    if isinstance(settings, Mapping):
        for key, value in settings.items():
            yield from secrets_in(value, str(key))
    elif isinstance(settings, list | tuple):
        for value in settings:
            yield from secrets_in(value, name)
    elif isinstance(settings, str) and len(settings) >= 4 and _is_secret(name, settings):
        yield settings


def redact(settings: Any, name: str = "") -> Any:
    """The settings as they may be written down: `[key]` in place of every key.

    >>> redact({"top_k": 4, "api_key": "4711-secret", "headers": {"Authorization": "Bearer abc123"}})
    {'top_k': 4, 'api_key': '[key]', 'headers': {'Authorization': '[key]'}}
    """
    if isinstance(settings, Mapping):
        return {key: redact(value, str(key)) for key, value in settings.items()}
    if isinstance(settings, list | tuple):
        return [redact(value, name) for value in settings]
    return KEY if isinstance(settings, str) and _is_secret(name, settings) else settings


def _is_secret(name: str, value: str) -> bool:
    return bool(value) and bool(_SECRET_NAMES.fullmatch(name.strip()) or re.search(_KEY_LIKE, value))


def names_variable(text: str) -> bool:
    """Whether a text can be the name of an environment variable; keys that are pasted in its place cannot.

    >>> names_variable("OPENAI_API_KEY"), names_variable("my_key")
    (True, True)
    >>> names_variable("sk-proj-4711"), names_variable("gsk_a8Jk2mQ0zP4rT6uX"), names_variable("AIzaSyD9x8mQ2w7Zk")
    (False, False, False)
    """
    if text in os.environ:
        return True
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", text):
        return False
    # Names have one case and few digits, and long ones have words.
    one_case = text in (text.upper(), text.lower())
    digits = sum(character.isdigit() for character in text)
    return digits <= 3 and (one_case or (digits == 0 and len(text) <= 16)) and ("_" in text or len(text) <= 20)
