"""Where a model is: its name at its server, the address, and what has to be known about that server."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from annotated_types import Gt

from recompact.errors import InputError
from recompact.models.secrets import names_variable
from recompact.values.reading import key

Seconds = Annotated[float, Gt(0)]

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
