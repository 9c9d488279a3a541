"""Where a model is, what may be asked of it there, and what it costs: its keys in a config."""

from __future__ import annotations

import ipaddress
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from annotated_types import Ge, Gt, Lt

from recompact.errors import InputError
from recompact.models.secrets import names_variable
from recompact.values.chat import Usage
from recompact.values.reading import key

Seconds = Annotated[float, Gt(0)]
Count = Annotated[int, Gt(0)]
Amount = Annotated[float, Ge(0), Lt(math.inf)]

OPENAI_KEY = "OPENAI_API_KEY"
NO_VARIABLE = (
    "it must be the name of the environment variable that holds the key, such as OPENAI_API_KEY; what stands there is"
    " no such name and is not shown, since it may be the key itself"
)


@dataclass(frozen=True)
class Endpoint:
    """Which model, where, and what has to be known about its server."""

    id: str = key("", "the model's name at its server")
    base_url: str | None = key(None, "the server's address; default: what the API's variable says, else the provider")
    api: Literal["chat", "responses", "anthropic"] = key("chat", "Chat Completions, Responses, or Anthropic's Messages")
    key_env: str = key(OPENAI_KEY, "the environment variable that holds the key; with api anthropic ANTHROPIC_API_KEY")
    calls: Literal["native", "json", "schema"] = key("native", "how tools are called where a server has no calls")
    timeout: Seconds = key(300.0, "seconds for one whole attempt")
    send_seed: bool = key(True, "whether a seed is sent")
    merge_roles: bool = key(False, "for servers whose chat template wants user and assistant to alternate")
    max_tokens_field: Literal["auto", "max_tokens", "max_completion_tokens"] = key("auto", "the limit's name there")
    extra_body: Mapping[str, Any] = key({}, "what else every request says")

    def __post_init__(self) -> None:
        if self.api == "anthropic" and self.key_env == OPENAI_KEY:
            object.__setattr__(self, "key_env", "ANTHROPIC_API_KEY")

    @property
    def url(self) -> str:
        if self.api == "anthropic":
            return self.base_url or os.environ.get("ANTHROPIC_BASE_URL") or "https://api.anthropic.com/v1"
        return self.base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"

    @property
    def host(self) -> str:
        """host:port, which is all of the address that texts show."""
        parts = urlsplit(self.url)
        return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"

    @property
    def loopback(self) -> bool:
        try:
            name = urlsplit(self.url).hostname or ""
            return name == "localhost" or ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False

    @property
    def tokens_field(self) -> str:
        """OpenAI's newer models refuse max_tokens; many other servers know nothing else."""
        if self.max_tokens_field != "auto":
            return self.max_tokens_field
        hosted = (urlsplit(self.url).hostname or "").endswith((".openai.com", ".openai.azure.com"))
        return "max_completion_tokens" if hosted else "max_tokens"

    @property
    def routes_by_key(self) -> bool:
        """Whether the provider takes a key by which calls that begin alike find the same machine, and its cache."""
        return self.api != "anthropic" and (urlsplit(self.url).hostname or "").endswith(".openai.com")

    def check(self) -> None:
        if not names_variable(self.key_env):
            raise InputError(f"key_env of model {self.id}: {NO_VARIABLE}")
        if not self.id:
            raise InputError("a model at a server needs its `id`: the name that the server knows it by")
        try:
            parts = urlsplit(self.url)
            valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            valid = False
        if not valid:
            raise InputError(f"base_url of model {self.id} must be like https://host:port/v1")
        if "@" in parts.netloc:
            raise InputError(
                f"base_url of model {self.id} contains a user or password: put the key into {self.key_env} instead."
            )


@dataclass(frozen=True)
class RateLimits:
    """What a server may be asked for; None means no limit."""

    concurrency: Count = key(16, "calls at once")
    requests_per_minute: Seconds | None = key(None, "a limit of the server")
    tokens_per_minute: Seconds | None = key(None, "a limit of the server")


@dataclass(frozen=True)
class RetryPolicy:
    """How long to keep trying."""

    attempts: Count = key(8, "tries of one call")
    retry_wait: Seconds = key(1.0, "the longest first wait in seconds; waits double")
    max_wait: Seconds = key(120.0, "cap on a server's Retry-After, in seconds")


@dataclass(frozen=True)
class Price:
    """Money per million tokens."""

    input: Amount = key(0.0, "of a request")
    output: Amount = key(0.0, "of an answer")
    cached: Amount | None = key(None, "of what the server had in its cache; default: that of input")
    currency: str = key("", "such as USD; a label only")

    def of(self, usage: Usage) -> float:
        cached = self.input if self.cached is None else self.cached
        fresh = usage.input - usage.cached
        return (fresh * self.input + usage.cached * cached + usage.output * self.output) / 1e6
