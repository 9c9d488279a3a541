"""Real harnesses, installed from their registries, compact with an exported prompt against a model on loopback.

The prompt must be in the request that the harness sends, at a first and at a second compaction, and what only the
previous summary held must reach the second; the transcript that the harness leaves is then audited. Opt-in, since it
downloads packages: `make test-harnesses`. RECOMPACT_HARNESS_DIR names a folder that keeps them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from harness_server import ModelServer, Step
from needs import needs

from recompact.cli.main import cli
from recompact.values.template import Template

pytestmark = needs("harnesses")
ROOT = Path(__file__).parent.parent.parent
SCRIPTS = Path(__file__).parent / "scripts"
SECTIONS = "## Goal\nthe aim\n\n## Facts\nall of them, within {{ budget }} tokens\n"
FIRST = 'MARK-FIRST The conversation above goes. Use {braces}, `ticks`, ${holes} and "quotes".'
UPDATE = "MARK-UPDATE Bring the previous summary up to date."
TEMPLATE = Template(
    "MARK-SYSTEM You keep the record of a {task}.\n",
    f"<conversation>\n{{{{ history }}}}\n</conversation>\n\n{FIRST}\n\n{SECTIONS}",
    "<conversation>\n{{ history }}\n</conversation>\n\n"
    f"<previous-summary>\n{{{{ previous_summary }}}}\n</previous-summary>\n\n{UPDATE}\n\n{SECTIONS}",
)
PAGES = 12


def run(command: Sequence[object], **options: Any) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=options.pop("timeout", 240), **options)
    assert done.returncode == 0, f"{' '.join(words)[:200]}\n{done.stdout[-1500:]}\n{done.stderr[-3000:]}"
    return done


def exported(harness: str, target: Path) -> Path:
    """The export of the template, as the command writes it."""
    TEMPLATE.save(target / "template")
    out = target / "export"
    with pytest.raises(SystemExit) as stop:
        cli(["export", str(target / "template"), "--to", harness, "--out", str(out)])
    assert stop.value.code == 0
    return out


def audit(path: Path) -> list[dict[str, Any]]:
    """The compactions that an audit finds in what a harness left."""
    done = run([sys.executable, "-m", "recompact", "audit", path, "--no-page", "--json"])
    return list(json.loads(done.stdout)["compactions"])


def look(number: int) -> Step:
    return Step(tool="look", arguments={"page": number}) if number < PAGES else Step("All pages are read.")


def talk(number: int) -> Step:
    return Step(f"Answer {number}. " + "word " * 50)


def check_two_compactions(server: ModelServer, first: str = FIRST, update: str = UPDATE) -> None:
    """Both requests hold the prompt, and the second what only the first summary said."""
    assert len(server.summaries) >= 2, f"{len(server.summaries)} of {len(server.requests)} requests are for a summary"
    one, two = server.summaries[:2]
    assert first in one
    assert update in two
    assert "MARK-SYSTEM You keep the record of a {task}." in one
    assert "within 4096 tokens" in one
    assert "FACT-1" not in one
    assert "SUMMARY-1 keeps FACT-1." in two


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kept = os.environ.get("RECOMPACT_HARNESS_DIR")
    return Path(kept).resolve() if kept else tmp_path_factory.mktemp("harnesses")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer("MARK-", talk).serving() as serving:
        yield serving


# -- Python libraries ------------------------------------------------------------------------------------------------

LIBRARIES = {
    "langchain": ("langchain", "langchain-openai"),
    "deepagents": ("deepagents", "langchain-openai"),
    "inspect": ("inspect-ai", "openai"),
    "pydantic-ai": ("pydantic-ai-harness", "pydantic-ai-slim[openai]"),
}


# Of these only what summarizes is run, not a whole agent of theirs.
MORE_LIBRARIES = {
    "strands": ("strands-agents[openai]",),
    "agent-framework": ("agent-framework-core", "agent-framework-openai"),
    "adk": ("google-adk", "openai"),
}


def python_with(packages: Sequence[object], venv: Path) -> Path:
    """A Python of its own with these packages."""
    if not (venv / "ready").exists():
        run([sys.executable, "-m", "venv", venv])
        command = [venv / "bin" / "pip", "install", "-q", *packages]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"pip cannot install {', '.join(map(str, packages))}: {done.stderr[-500:]}")
        (venv / "ready").touch()
    return venv / "bin" / "python"


@pytest.fixture(scope="module")
def python(scratch: Path) -> Path:
    """A Python of its own with the libraries and with this package."""
    packages = sorted({package for packages in LIBRARIES.values() for package in packages})
    return python_with([*packages, "-e", ROOT], scratch / "python")


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_compacts_with_the_exported_prompt(
    name: str, python: Path, tmp_path: Path, server: ModelServer
) -> None:
    server.act = look
    server.tokens = lambda number: 100 + 300 * (number % 4)  # where what is reported decides
    out = exported(name, tmp_path)
    script = SCRIPTS / f"run_{name.replace('-', '_')}.py"
    environment = {**os.environ, "PYTHONPATH": str(out), "OPENAI_API_KEY": "none", "HOME": str(tmp_path)}
    done = run(
        [python, script, server.url, tmp_path / "template", tmp_path / "transcript"], env=environment, cwd=tmp_path
    )
    print(done.stdout.strip())
    check_two_compactions(server)
    if (tmp_path / "transcript").exists():
        assert audit(tmp_path / "transcript")


@pytest.mark.parametrize("name", MORE_LIBRARIES)
def test_a_summarizer_gets_the_exported_prompt(name: str, scratch: Path, tmp_path: Path, server: ModelServer) -> None:
    packages = sorted({package for packages in MORE_LIBRARIES.values() for package in packages})
    python = python_with(packages, scratch / "more-python")
    out = exported(name, tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(out), "HOME": str(tmp_path)}
    script = SCRIPTS / f"run_{name.replace('-', '_')}.py"
    print(run([python, script, server.url, "template", "transcript"], env=environment, cwd=tmp_path).stdout.strip())
    check_two_compactions(server, first=FIRST if name == "adk" else FIRST.replace("above", "below"))


def test_hermes(scratch: Path, tmp_path: Path, server: ModelServer) -> None:
    python = python_with(["hermes-agent==0.19.0"], scratch / "hermes-python")
    out = exported("hermes", tmp_path)
    environment = {**os.environ, "HOME": str(tmp_path), "HERMES_HOME": str(tmp_path / ".hermes")}
    script = [SCRIPTS / "run_hermes.py", server.url, out / "recompact" / "__init__.py"]
    print(run([python, *script], env=environment, cwd=tmp_path).stdout.strip())
    check_two_compactions(server)


# -- programs of npm -------------------------------------------------------------------------------------------------


def node_package(scratch: Path, folder: str, *packages: str) -> Path:
    """Where packages are installed; npm takes the newest versions that this Node can run, unless one is named."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    root = scratch / folder
    if not (root / "ready").exists():
        root.mkdir(parents=True, exist_ok=True)
        (root / "package.json").write_text('{"name": "scratch", "private": true}')
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *packages]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"npm cannot install {', '.join(packages)}: {done.stderr[-500:]}")
        (root / "ready").touch()
    return root / "node_modules"


def version_of(package: Path) -> str:
    return str(json.loads((package / "package.json").read_text())["version"])


def say_in_turn(
    command: Sequence[object], lines: Sequence[Mapping[str, Any]], done: Callable[[str], bool], **options: Any
) -> str:
    """Talk to a program over JSON lines: each line is sent when the answer to the one before is there."""
    with subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        heard = []
        watchdog = Timer(180, process.kill)
        watchdog.start()
        try:
            for line in lines:
                process.stdin.write(json.dumps(line) + "\n")
                process.stdin.flush()
                for answer in process.stdout:
                    heard.append(answer)
                    if done(answer):
                        break
            process.stdin.close()
            process.wait(30)
        finally:
            watchdog.cancel()
            process.kill()
        return "".join(heard)[-4000:]


def test_codex(scratch: Path, tmp_path: Path, server: ModelServer) -> None:
    modules = node_package(scratch, "codex", "@openai/codex")
    print(f"codex {version_of(modules / '@openai' / 'codex')}")
    out, home = exported("codex", tmp_path), tmp_path / "home"
    home.mkdir()
    provider = f'[model_providers.loop]\nname = "loop"\nbase_url = "{server.url}"\nwire_api = "responses"\n'
    settings = 'model = "loop"\nmodel_provider = "loop"\nmodel_auto_compact_token_limit = 3000\n'
    snippet = (out / "config.toml").read_text()
    (home / "config.toml").write_text(f"{snippet}\n{settings}\n{provider}")
    server.tokens = lambda number: 5000  # over the limit, so that every turn begins with a compaction
    codex = [modules / ".bin" / "codex", "exec", "--skip-git-repo-check"]
    environment = {**os.environ, "CODEX_HOME": str(home), "HOME": str(home)}
    (tmp_path / "work").mkdir()
    for words in (["Say hello."], ["resume", "--last", "And now?"], ["resume", "--last", "And then?"]):
        run([*codex, *words], env=environment, cwd=tmp_path / "work", stdin=subprocess.DEVNULL)
    check_two_compactions(server)
    assert len(audit(home / "sessions")) == 2


@pytest.mark.parametrize("trigger", ["manual", "auto"])
def test_claude_code(trigger: str, scratch: Path, tmp_path: Path, server: ModelServer) -> None:
    # A mod takes 2.1.287 or newer; its program needs no Node, whatever the package says.
    modules = node_package(scratch, "claude-code", "@anthropic-ai/claude-code@2.1.325", "--force")
    programs = [*modules.glob("@anthropic-ai/claude-code-*/claude")]
    if not programs:
        pytest.skip("npm installed no program of Claude Code for this machine")
    print(f"claude-code {version_of(modules / '@anthropic-ai' / 'claude-code')}")
    out = exported("claude-code", tmp_path)
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "CLAUDE_CONFIG_DIR": str(tmp_path / "claude"),
        "ANTHROPIC_BASE_URL": server.url.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    (tmp_path / "work").mkdir()
    words = ["Say hello.", "/compact", "And now?", "/compact", "And then?"]
    if trigger == "auto":
        words = [each for each in words if each != "/compact"]
        server.tokens = lambda number: 60_000  # over half of the window that is left, and not over all of it
        environment.update(CLAUDE_CODE_AUTO_COMPACT_WINDOW="100000", CLAUDE_AUTOCOMPACT_PCT_OVERRIDE="50")
    heard = say_in_turn(
        [
            *(programs[0], "--plugin-dir", out / "recompact-compaction", "--model", "claude-sonnet-4-5"),
            *("-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"),
        ],
        [{"type": "user", "message": {"role": "user", "content": each}} for each in words],
        lambda line: '"subtype":"success"' in line or '"type":"result"' in line,
        env=environment,
        cwd=tmp_path / "work",
    )
    assert len(server.summaries) == 2, heard
    check_two_compactions(server)
    assert len(audit(tmp_path / "claude" / "projects")) == 2


def test_opencode(scratch: Path, tmp_path: Path, server: ModelServer) -> None:
    modules = node_package(scratch, "opencode", "opencode-ai")
    program = next((p for p in sorted(modules.glob("opencode-*/bin/opencode")) if "baseline" not in str(p)), None)
    if program is None:
        pytest.skip("npm installed no program of OpenCode for this machine")
    print(f"opencode {version_of(modules / 'opencode-ai')}")
    out, work = exported("opencode", tmp_path), tmp_path / "work"
    (work / ".opencode" / "plugin").mkdir(parents=True)
    shutil.copy(out / "recompact-compaction.js", work / ".opencode" / "plugin")
    model = {"name": "loop", "limit": {"context": 10_000, "output": 1000}}
    options = {"baseURL": server.url, "apiKey": "none"}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "loop", "options": options, "models": {"loop": model}}
    settings = {"model": "loop/loop", "small_model": "loop/loop", "autoupdate": False, "share": "disabled"}
    settings.update(provider={"loop": provider}, compaction={"auto": True, "tail_turns": 0})
    (work / "opencode.json").write_text(json.dumps(settings))
    # The title, then two turns that fill the window: each of them is followed by a compaction.
    server.tokens = lambda number: 9900 if number < 3 else 100
    folders = {f"XDG_{kind}_HOME": str(tmp_path / kind) for kind in ("DATA", "CONFIG", "CACHE", "STATE")}
    environment = {**os.environ, **folders, "HOME": str(tmp_path), "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    environment["PWD"] = str(work)  # which it takes for the working directory
    run([program, "run", "Say hello."], env=environment, cwd=work, stdin=subprocess.DEVNULL)
    check_two_compactions(server, first=FIRST.replace("above", "below"))
    sessions = json.loads(run([program, "session", "list", "--format", "json"], env=environment, cwd=work).stdout)
    with (tmp_path / "session.json").open("w") as file:
        subprocess.run([program, "export", sessions[0]["id"]], env=environment, cwd=work, stdout=file, check=True)
    assert len(audit(tmp_path / "session.json")) >= 2


def test_pi(scratch: Path, tmp_path: Path, server: ModelServer) -> None:
    modules = node_package(scratch, "pi", "@earendil-works/pi-coding-agent")
    print(f"pi {version_of(modules / '@earendil-works' / 'pi-coding-agent')}")
    out, home = exported("pi", tmp_path), tmp_path / "agent"
    (home / "extensions").mkdir(parents=True)
    shutil.copy(out / "recompact-compaction.js", home / "extensions")
    model = {"id": "loop", "name": "loop", "contextWindow": 30_000, "maxTokens": 1000}
    provider = {"baseUrl": server.url, "api": "openai-completions", "apiKey": "none", "models": [model]}
    (home / "models.json").write_text(json.dumps({"providers": {"loop": provider}}))
    (home / "settings.json").write_text(json.dumps({"compaction": {"keepRecentTokens": 20, "reserveTokens": 1000}}))
    environment = {**os.environ, "PI_CODING_AGENT_DIR": str(home), "HOME": str(tmp_path), "PI_OFFLINE": "1"}
    ask = [{"type": "prompt", "message": words} for words in ("Say hello.", "And now?", "And then?", "And later?")]
    heard = say_in_turn(
        [modules / ".bin" / "pi", "--mode", "rpc", "--provider", "loop", "--model", "loop"],
        [*ask[:2], {"type": "compact"}, *ask[2:], {"type": "compact"}],
        lambda line: '"type":"agent_end"' in line or '"command":"compact"' in line,
        env=environment,
        cwd=tmp_path,
    )
    assert len(server.summaries) == 2, heard
    check_two_compactions(server)
    compactions = audit(home / "sessions")
    assert [each["trigger"] for each in compactions] == ["extension", "extension"]
