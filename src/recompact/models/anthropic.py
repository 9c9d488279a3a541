"""The client for Anthropic's Messages, with the official library. Failures are handled as for OpenAI's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recompact.errors import InputError
from recompact.models.anthropic_wire import COMPACTION_HEADERS, messages_body, read_messages
from recompact.models.endpoint import Endpoint
from recompact.models.openai import OpenAIModel, http_client
from recompact.values.chat import Reply, Request
from recompact.version import install_command


class AnthropicModel(OpenAIModel):
    """A `ChatModel` behind Anthropic's API or a server that speaks like it.

    There is no seed, so runs differ by chance. Thinking, where `extra_body` turns it on, stays with its message and is
    sent back with it. The system prompt and the end of each request are marked for the provider's cache.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._library()  # which says what is missing before anything is run
        super().__init__(endpoint)

    _error = "AnthropicError"

    def _library(self) -> Any:
        try:
            import anthropic
        except ImportError:
            raise InputError(f'api = "anthropic" needs its library: {install_command("anthropic")}') from None
        return anthropic

    def _connect_with(self, key: str) -> Any:
        anthropic = self._library()
        http, timeout = http_client(anthropic, self.endpoint)
        # the library puts /v1 into its paths, while our base_url usually ends in it
        url = self.endpoint.url.rstrip("/").removesuffix("/v1")
        return anthropic.AsyncAnthropic(api_key=key, base_url=url, timeout=timeout, max_retries=0, http_client=http)

    @property
    def _path(self) -> str:
        return "/v1/messages"

    @property
    def _models_path(self) -> str:
        return "/v1/models"

    def _body(self, request: Request) -> dict[str, Any]:
        return messages_body(self.endpoint, request)

    def _options(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return {"headers": COMPACTION_HEADERS} if "context_management" in body else {}

    def _parse_reply(self, data: Any, index: int) -> Reply:
        return read_messages(data, index)
