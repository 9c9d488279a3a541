"""Text made fit to be shown: secrets masked, nothing hidden, no more than fits.

Every string of a transcript that leaves the program, on a page, in a terminal or as JSON, goes through `safe`.
"""

from __future__ import annotations

import re

from recompact.values.texts import cut, visible

MASK = "[masked]"
MARGIN = 4_096  # characters looked at past a limit, so that no secret is cut in two and then overlooked

_SHAPES = re.compile(
    r"""
    -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----.*?(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|\Z)
    | \b(?:sk|pk|rk)[-_](?:[A-Za-z0-9]+[-_]){0,4}[A-Za-z0-9_-]{12,}         # OpenAI, Anthropic, Stripe and their like
    | \b(?:ghp|gho|ghu|ghs|ghr|github_pat|glpat|gldt|hf|npm|pypi|dop_v1|shpat|xai|gsk|tvly|r8|figd|lin_api|nvapi|sntrys)
      [-_][A-Za-z0-9_-]{10,}
    | \b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}
    | \bAIza[A-Za-z0-9_-]{20,}
    | \bya29\.[A-Za-z0-9_.-]{20,}
    | \bxox[abeoprs]-[A-Za-z0-9-]{10,}
    | \bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}
    | \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?
    | https://hooks\.slack\.com/services/[A-Za-z0-9/_-]+
    """,
    re.VERBOSE | re.DOTALL,
)
_BEARER = re.compile(r"\b((?:Bearer|Basic|Token)\s+)[A-Za-z0-9._~+/=-]{12,}", re.IGNORECASE)
_URL = re.compile(r"(\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@'\"]{0,100}:)[^\s/@'\"]{1,200}(@)", re.IGNORECASE)
_NAMES = ("pass", "pwd", "secret", "key", "token", "credential", "cookie")
# The shell's variable with a path, as in PWD=/home/me. After a semicolon it is a connection string's password.
_WORKING_FOLDER = r"""(?-i:(?<![;\w-])(?<!;\s)PWD)["']?\s*[=:]\s*["']?(?:(?:~|\.{0,2})[/\\]|[A-Za-z]:[/\\])"""
_NAMED = re.compile(
    r"""
    ( (?<![A-Za-z]) [A-Za-z0-9_.-]{0,40}
      (?:password|passwd|passphrase|secret|api[_-]?key|apikey|access[_-]?key|auth[_-]?token|private[_-]?key|credential|
         client[_-]?secret|session[_-]?key|cookie|(?<![a-z])(?!WORKING_FOLDER)pwd|[_-]token|(?<![a-z])token)
      [A-Za-z0-9_.-]{0,20}
      ["']? \s* (?:=|:=|=>|:) \s* )
    (?: "[^"\n]{4,}" | '[^'\n]{4,}' | [^\s"'`,;&|<>(){}\[\]$]{6,} )
    """.replace("WORKING_FOLDER", _WORKING_FOLDER),
    re.VERBOSE | re.IGNORECASE,
)
_FLAG = re.compile(
    r"(--?(?:password|passwd|token|secret|api-?key|pass)[= ])(?:\"[^\"\n]+\"|'[^'\n]+'|[^\s\"'$-][^\s\"']{3,})",
    re.IGNORECASE,
)
_LONG = re.compile(r"(?<![A-Za-z0-9+/=_.-])[A-Za-z0-9+/_-]{40,}={0,2}(?![A-Za-z0-9+/=_-])")


def mask_secrets(text: str) -> str:
    """The text without what looks like a key, a token or a password.

    >>> mask_secrets("export OPENAI_API_KEY=sk-proj-abcdefghijklmnop1234; git show 3f2a9c1")
    'export OPENAI_API_KEY=[masked]; git show 3f2a9c1'
    >>> mask_secrets("postgres://me:hunter2@db/x")
    'postgres://me:[masked]@db/x'
    >>> mask_secrets('"PWD": "~/dev/posh", PWD=/home/me/x UID=sa;PWD=hunter2! pwd=hunter2!')
    '"PWD": "~/dev/posh", PWD=/home/me/x UID=sa;PWD=[masked] pwd=[masked]'
    """
    text = _SHAPES.sub(MASK, text)
    text = _BEARER.sub(rf"\1{MASK}", text)
    text = _URL.sub(rf"\1{MASK}\2", text)
    low = text.lower()
    if any(name in low for name in _NAMES):  # the two below are slow, and most texts name nothing secret
        text = _NAMED.sub(rf"\1{MASK}", text)
        text = _FLAG.sub(rf"\1{MASK}", text)
    return _LONG.sub(_dense, text)


def _dense(match: re.Match[str]) -> str:
    """A long run of letters and digits is masked if it looks random; a hash, a path or a name is left alone."""
    run = match[0]
    body = run.rstrip("=")
    steps = re.split(r"[/_-]", body)
    longest = max(map(len, steps))
    mixed = any(c.isupper() for c in body) and any(c.islower() for c in body) and sum(c.isdigit() for c in body) >= 3
    hexadecimal = all(c in "0123456789abcdefABCDEF-" for c in body)
    if not mixed or (hexadecimal and len(body) <= 64) or longest < 16:
        return run
    return MASK


def safe(text: str, limit: int = 400) -> str:
    """As much of a text as fits, masked, and with a visible mark for every character that cannot be seen.

    The mark of a cut has no number: most texts of an audit are excerpts already.

    >>> safe("a\\x1b[31mb\\u202e"), safe("a" * 99, 5)
    ('a␛[31mb⟨U+202E⟩', 'aaaaa […]')
    """
    kept, more = cut(mask_secrets(text[: limit + MARGIN]), limit)
    return visible(kept) + (" […]" if more or len(text) > limit + MARGIN else "")


def safe_line(text: str, limit: int = 200) -> str:
    """The same on one line."""
    return safe(" ".join(text[: limit + MARGIN].split()), limit)
