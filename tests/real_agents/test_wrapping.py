"""`recompact wrap` with known agents as they are installed: each is led to the gateway by its program's name alone, and
is reported where it asks elsewhere. `make test-agents`."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from agent_support import Clerk, Forgetful, write_notes
from commands import Done, recompact, served
from needs import needs

PLACE = Path(os.environ.get("RECOMPACT_TEST_AGENTS", "")).resolve()

pytestmark = needs("agents")


@dataclass(frozen=True)
class Usual:
    """How users start an agent, and how the same one is led to another server: {base} is that server's address."""

    path: str
    command: tuple[str, ...]
    elsewhere: tuple[str, ...]  # variables, in front
    options: tuple[str, ...] = ()
    answered: bool = True  # by that other server, which does not have Gemini's format


_PI = '{"providers": {"gateway": {"baseUrl": "{base}/v1", "api": "openai-completions", "apiKey": "k", "models": [\
{"id": "model", "name": "model", "reasoning": false, "input": ["text"], "contextWindow": 100000, "maxTokens": 8000, \
"cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}]}}}'
_OPENCODE = '{"model": "other/model", "provider": {"other": {"npm": "@ai-sdk/openai-compatible", "name": "other", \
"options": {"baseURL": "{base}/v1", "apiKey": "k"}, "models": {"model": {"name": "model"}}}}}'
_CODEX = 'model_providers.other={name="other",base_url="{base}/v1",wire_api="responses",env_key="OPENAI_API_KEY"}'
_DEEP = """
import os, sys
from deepagents import create_deep_agent
from deepagents.backends import LocalShellBackend
from langchain_openai import ChatOpenAI

backend = LocalShellBackend(root_dir=os.getcwd(), virtual_mode=False, inherit_env=True)
agent = create_deep_agent(model=ChatOpenAI(model="model"), backend=backend)
print(agent.invoke({"messages": [{"role": "user", "content": sys.argv[1]}]})["messages"][-1].text)
"""
USUAL = {
    "codex": Usual(
        "npm/node_modules/.bin",
        ("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "Read the notes."),
        (),
        ("-c", _CODEX, "-c", 'model_provider="other"'),
    ),
    "claude-code": Usual(
        "npm/node_modules/.bin",
        ("claude", "-p", "Read the notes.", "--dangerously-skip-permissions"),
        ("ANTHROPIC_BASE_URL={base}", "ANTHROPIC_MODEL=model"),
    ),
    "pi": Usual("npm/node_modules/.bin", ("pi", "-p", "Read the notes."), ("PI_CODING_AGENT_DIR={home}",)),
    "opencode": Usual(
        "npm/node_modules/.bin", ("opencode", "run", "Read the notes."), (f"OPENCODE_CONFIG_CONTENT={_OPENCODE}",)
    ),
    "gemini-cli": Usual(
        "npm/node_modules/.bin",
        ("gemini", "--yolo", "-p", "Read the notes."),
        ("GOOGLE_GEMINI_BASE_URL={base}",),
        answered=False,
    ),
    "goose": Usual(
        "npm/node_modules/.bin",
        ("goose", "run", "--no-session", "--with-builtin", "developer", "-t", "Read the notes."),
        ("OPENAI_HOST={base}",),
    ),
    "deepagents": Usual(  # a script of the user's own: no profile knows it
        "deepagents/bin",
        ("python", "{home}/deep.py", "Read the notes."),
        ("OPENAI_BASE_URL={base}/v1", "OPENAI_API_BASE={base}/v1"),
    ),
    "mini-swe-agent": Usual(
        "mini/bin",
        ("mini", "-y", "--exit-immediately", "-t", "Read the notes."),
        ("OPENAI_BASE_URL={base}/v1", "OPENAI_API_BASE={base}/v1"),
    ),
}


def wrapped(name: str, tmp_path: Path, *, elsewhere: bool) -> tuple[Done, Path]:
    """Wrap an agent, and return how that ended, and its workspace."""
    usual = USUAL[name]
    programs = PLACE / usual.path
    if not (programs / usual.command[0]).exists():
        pytest.skip(f"{programs / usual.command[0]} is not installed")
    write_notes(tmp_path / "tasks")
    place, home = tmp_path / "tasks" / "notes" / "files", tmp_path / "home"
    home.mkdir()
    with served({"clerk": Clerk(), "model": Clerk(), "forgetful": Forgetful()}) as server:
        base = server.base_url.removesuffix("/v1")
        (home / "models.json").write_text(_PI.replace("{base}", base))
        (home / "deep.py").write_text(_DEEP)
        model = f'base_url = "{server.base_url}"\n'
        config = tmp_path / "mine.toml"
        config.write_text(
            f'[suite]\nuse = "workspace"\n[models.clerk]\nid = "clerk"\n{model}'
            f'[models.forgetful]\nid = "forgetful"\n{model}[agent]\nmodel = "clerk"\n'
            '[compressor]\nmodel = "forgetful"\nbudget = 450\n[run]\ncounter = "characters"\n'
        )
        command = tuple(part.replace("{home}", str(home)) for part in usual.command)
        if elsewhere:
            way = [text.replace("{base}", base).replace("{home}", str(home)) for text in usual.elsewhere]
            options = [text.replace("{base}", base) for text in usual.options]
            command = ("env", *way, command[0], *options, *command[1:]) if way else (command[0], *options, *command[1:])
        # IS_SANDBOX: Claude Code refuses its flag to root otherwise
        variables = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(home), "IS_SANDBOX": "1"}
        out = tmp_path / "out.jsonl"
        return recompact("wrap", "--json", "--out", out, config, "--", *command, cwd=place, env=variables), place


@pytest.mark.parametrize("name", USUAL)
def test_an_agent_is_led_to_the_gateway(name: str, tmp_path: Path) -> None:
    ended, place = wrapped(name, tmp_path, elsewhere=False)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    print(f"{name}: {told['steps']} steps, {len(told['compactions'])} compactions")
    assert (told["ending"], len(told["compactions"]) >= 2) == ("finished", True)
    assert (place / "answer.txt").read_text() == "unknown\n"  # the compressor loses the code


@pytest.mark.parametrize("name", USUAL)
def test_an_agent_that_asks_elsewhere_is_an_error(name: str, tmp_path: Path) -> None:
    ended, place = wrapped(name, tmp_path, elsewhere=True)
    if USUAL[name].answered:
        assert (place / "answer.txt").read_text() == "blue-42\n"  # it was not compacted: it did its work elsewhere
    assert ended.returncode == 2, ended.stdout
    assert "came to the gateway" in ended.stderr
    assert not (tmp_path / "out.jsonl").exists()
