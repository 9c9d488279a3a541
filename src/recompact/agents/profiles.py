"""Presets for known agents: their own compaction, retries, subagents, telemetry and updates are off where they can be,
and what differs from run to run in what their tools return is steadied. docs/agents.md says which versions were
tried."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from recompact.errors import InputError


@dataclass(frozen=True)
class Profile:
    """How one agent is started behind the gateway."""

    command: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    replace: Mapping[str, str] = field(default_factory=dict)
    ids: tuple[str, ...] = ()
    mask: tuple[str, ...] = ()


_WINDOW = 1_000_000  # tokens that agents are told their model reads: so many that none compacts on its own

_PI_MODEL = {
    "id": "{model}",
    "name": "{model}",
    "reasoning": False,
    "input": ["text"],
    "contextWindow": _WINDOW,
    "maxTokens": 8000,
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
}
_PI_PROVIDER = {"baseUrl": "{url}/v1", "api": "openai-completions", "apiKey": "{key}", "models": [_PI_MODEL]}

PI = Profile(
    command=("pi", "-p", "--no-session", "--provider", "gateway", "--model", "{model}", "{task}"),
    variables={"PI_OFFLINE": "1", "PI_TELEMETRY": "0"},
    files={
        ".pi/agent/models.json": json.dumps({"providers": {"gateway": _PI_PROVIDER}}),
        ".pi/agent/settings.json": json.dumps(
            {"compaction": {"enabled": False}, "retry": {"enabled": False}, "httpIdleTimeoutMs": 0}
        ),
    },
    ids=(r"pi-bash-([0-9a-f]{16})\.log",),
)

_CODEX_CONFIG = f"""model = "{{model}}"
model_provider = "gateway"
model_context_window = {_WINDOW}
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
web_search = "disabled"
[analytics]
enabled = false
[model_providers.gateway]
name = "gateway"
base_url = "{{url}}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
request_max_retries = 0
stream_max_retries = 0
stream_idle_timeout_ms = 3600000
"""

CODEX = Profile(
    command=(
        *("codex", "exec", "--skip-git-repo-check", "--ephemeral", "--disable", "multi_agent", "--disable", "goals"),
        *("--disable", "plugins", "--disable", "apps", "--disable", "remote_plugin"),
        *("-c", "skills.bundled.enabled=false", "-c", "skills.include_instructions=false", "{task}"),
    ),
    files={".codex/config.toml": _CODEX_CONFIG},
    replace={
        r"Chunk ID: [0-9a-f]{6}": "Chunk ID: 000000",
        r"Wall time: [0-9.]+ seconds": "Wall time: 0.0 seconds",
    },
    ids=(r"session ID (\d+)",),
)

CLAUDE_CODE = Profile(
    command=(
        *("claude", "-p", "{task}", "--dangerously-skip-permissions", "--tools", "Bash,Read,Edit,Write"),
        *("--strict-mcp-config", "--disable-slash-commands"),
        *("--session-id", "11111111-2222-4333-8444-555555555555"),
    ),
    variables={
        "ANTHROPIC_MODEL": "claude-sonnet-4-5",
        "IS_SANDBOX": "1",
        "API_TIMEOUT_MS": "3600000",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "CLAUDE_CODE_TOTAL_TOKENS_REMINDER": "0",
        "ENABLE_TOOL_SEARCH": "false",
        **dict.fromkeys(
            (
                *("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_PROMPT_CACHING"),
                *("CLAUDE_CODE_DISABLE_ATTACHMENTS", "CLAUDE_CODE_DISABLE_THINKING"),
                *("CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS", "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"),
            ),
            "1",
        ),
    },
    ids=(r"tool-results/(\w+)\.txt",),
)

_OPENCODE_MODELS = {
    "{model}": {"name": "{model}", "limit": {"context": _WINDOW, "output": 8000}},
    "small": {"name": "small", "limit": {"context": _WINDOW, "output": 8000}},
}

OPENCODE = Profile(
    command=("opencode", "run", "--title", "task", "{task}"),
    variables=dict.fromkeys(
        (
            *("OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_MODELS_FETCH"),
            *("OPENCODE_DISABLE_LSP_DOWNLOAD", "OPENCODE_DISABLE_DEFAULT_PLUGINS"),
        ),
        "1",
    ),
    files={
        ".config/opencode/opencode.json": json.dumps(
            {
                "autoupdate": False,
                "share": "disabled",
                "model": "gateway/{model}",
                "small_model": "gateway/small",
                "permission": {"*": "allow", "task": "deny"},
                "compaction": {"auto": False, "prune": False},
                "provider": {
                    "gateway": {
                        "npm": "@ai-sdk/openai-compatible",
                        "name": "gateway",
                        "options": {"baseURL": "{url}/v1", "apiKey": "{key}"},
                        "models": _OPENCODE_MODELS,
                    }
                },
            }
        )
    },
    ids=(r"tool-output/tool_(\w+)",),
)

MINI_SWE_AGENT = Profile(
    command=(
        "mini",
        "-y",
        "--exit-immediately",
        "-m",
        "openai/{model}",
        "-t",
        "{task}",
        "-o",
        "{home}/trajectory.json",
    ),
    variables={
        "MSWEA_CONFIGURED": "true",
        "MSWEA_SILENT_STARTUP": "1",
        "MSWEA_COST_TRACKING": "ignore_errors",
        "MSWEA_GLOBAL_CONFIG_DIR": "{home}/mini",
        "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    },
)

_DEEPAGENTS_SCRIPT = """import os, sys
from deepagents import create_deep_agent
from deepagents.backends import LocalShellBackend
from langchain_openai import ChatOpenAI

model = ChatOpenAI(model="{model}", base_url="{url}/v1", api_key="{key}", max_retries=0, timeout=3600)
backend = LocalShellBackend(root_dir=os.getcwd(), virtual_mode=False, inherit_env=True)
agent = create_deep_agent(model=model, backend=backend)
state = agent.invoke({"messages": [{"role": "user", "content": sys.argv[1]}]}, {"recursion_limit": 1000})
print(state["messages"][-1].text)
"""

DEEPAGENTS = Profile(command=("python3", "{home}/deep_agent.py", "{task}"), files={"deep_agent.py": _DEEPAGENTS_SCRIPT})

PROFILES = {
    "pi": PI,
    "codex": CODEX,
    "claude-code": CLAUDE_CODE,
    "opencode": OPENCODE,
    "mini-swe-agent": MINI_SWE_AGENT,
    "deepagents": DEEPAGENTS,
}


def profile_named(name: str) -> Profile:
    if name not in PROFILES:
        near = difflib.get_close_matches(name, PROFILES, 1, 0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(PROFILES)}"
        raise InputError(f"there is no agent {name!r}; {hint}; any other is a command")
    return PROFILES[name]
