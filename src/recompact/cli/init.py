"""`recompact init`: a first config and, with --suite or --agent, the tasks to go with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import click

from recompact.agents.settings import PROFILES
from recompact.cli.benchmark_configs import BENCHMARKS, benchmark_config, config_name, config_text
from recompact.cli.console import print_json, say
from recompact.cli.options import Json, as_command
from recompact.compressors.protocol import Scope
from recompact.engine.config_parser import load_config
from recompact.errors import InputError
from recompact.suites.workspace.repository import add_samples
from recompact.values.outputs import write_file
from recompact.values.template import default_template
from recompact.values.texts import command_line


@as_command("init", example="init rooms --suite")
def command(
    name: str = "mine",
    *,
    suite: Annotated[bool, "Also write NAME.py, a small suite of functions, and use that."],
    agent: Annotated[
        str | None, click.Choice(sorted(PROFILES)), "A config for this agent, and two sample tasks in tasks/."
    ],
    repo: Annotated[Path | None, "With --agent: the git repository of the sample tasks."],
    ci: Annotated[bool, "Also write a GitHub workflow that gates changes to the compaction prompt."],
    scope: Annotated[Scope | None, click.Choice(["history", "prefix"]), "For a benchmark: what its compressor sees."],
    directory: Annotated[
        Path, "--dir", "Directory to write to (default: the current one).", {"show_default": False}
    ] = Path(),
    as_json: Json,
) -> None:
    """Write NAME.toml, a config to start from (default: mine.toml).

    For NAME officebench, tau2-retail, appworld or qa it holds the paper's setting of that benchmark (with --scope
    prefix in NAME-prefix.toml). With --agent it is for an agent that is installed here, with two tasks made from the
    files of a git repository (default: the one here). Otherwise, and without --suite, it holds the embedded world with
    simulated models, and runs as it is. With --ci it writes whatever is missing of a workflow for pull requests: the
    config, a directory with the prompt, and .github/workflows/compaction.yml. It never overwrites a file.
    """
    tasks: list[Path] = []
    if ci:
        if suite or agent or repo or scope:
            raise InputError(
                "--ci goes with a config that is there, or with the embedded world: write the config first"
            )
        files, words = _init_ci(_valid(name), directory)
    elif agent is not None:
        if suite or scope or name in BENCHMARKS:
            raise InputError("--agent has tasks in folders: leave out --suite, --scope and the name of a benchmark")
        files, tasks, words = _init_agent(_valid(name), agent, repo or Path(), directory)
    elif repo is not None:
        raise InputError("--repo is for --agent: the sample tasks of an agent are made from it")
    else:
        files = _write({directory / file: text for file, text in _texts(name, suite, scope).items()})
        key = "; it needs OPENAI_API_KEY in the environment, or another model in [models]"
        words = [f"Next: {command_line('check', files[0])}{key if suite or name in BENCHMARKS else ''}"]
    if as_json:
        made = {"files": files, **({"tasks": tasks} if tasks else {})}
        print_json({kind: list(map(str, paths)) for kind, paths in made.items()})
        return
    for text in (*(f"Written: {path}" for path in (*files, *tasks)), *words):
        say(text)


def _write(texts: dict[Path, str], *others: Path) -> list[Path]:
    """Write files, unless one of them, or of the `others`, is there."""
    if taken := [str(file) for file in (*texts, *others) if file.exists() or file.is_symlink()]:
        raise InputError(f"{taken[0]} already exists: nothing was written; choose another name, or move the file")
    for file, text in texts.items():
        write_file(file, text.encode(), "a config", lambda path: False, "--dir")
    return list(texts)


def _valid(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z]\w*", name):
        raise InputError(
            f"{name!r} is not a valid config name: use letters, digits and _, as in recompact init mine, or one of the"
            f" benchmarks {', '.join(BENCHMARKS)}"
        )
    return name


def _init_agent(name: str, agent: str, repo: Path, directory: Path) -> tuple[list[Path], list[Path], list[str]]:
    """Write a config for an agent and two tasks from a repository, with a budget that these tasks exceed."""
    config, root = directory / f"{name}.toml", directory / "tasks"
    _write({}, config, *(root / f"sample-{number}" for number in (1, 2)))
    samples = add_samples(root, repo)
    tokens = samples.characters // 4
    budget = min(8192, max(1024, tokens // 3 // 256 * 256))
    _write({config: config_text("agent.txt").format(name=name, agent=agent, budget=budget, tokens=tokens)})
    check = command_line("check", config, options=["--play"])
    words = [
        "The two tasks only show that it works. Replace them with tasks on which your agent forgets:"
        " docs/workspace.md.",
        f"Next: {check}; it needs OPENAI_API_KEY, or another model in [models.mine]",
    ]
    return [config], [folder.path for folder in samples.folders], words


PROMPT = "compaction"  # the directory of a template
WORKFLOW = ".github/workflows/compaction.yml"


def _init_ci(name: str, directory: Path) -> tuple[list[Path], list[str]]:
    """Write a workflow, and the config and the prompt that it gates where these are not there yet."""
    config, place = directory / f"{name}.toml", directory / WORKFLOW
    texts: dict[Path, str] = {}
    template = PROMPT
    if config.exists():
        own = load_config(config).compressor.template
        template = own if re.fullmatch(r"[\w./-]+", own) and (directory / own).is_dir() else PROMPT
    else:
        simulated = config_text("simulated.txt").format(name=name)
        texts[config] = simulated.replace('template = "default"   ', f'template = "{PROMPT}"')
    texts[place] = config_text("workflow.txt").replace("@CONFIG@", config.name).replace("@TEMPLATE@", template)
    files, words = _write(texts), []
    if not (directory / template).exists():
        default_template().save(directory / template)
        files.append(directory / template)
        if config not in texts:
            words.append(
                f'Set template = "{template}" in [compressor] of {config}, so that your agent uses the prompt that the'
                " gate tests."
            )
    next_step = f"change {template}/first.md in a pull request, and see what the gate says (docs/gate.md)"
    return files, [*words, f"Next: commit them, {next_step}."]


def _texts(name: str, suite: bool, scope: Scope | None) -> dict[str, str]:
    """The files to write, by name."""
    if name in BENCHMARKS:
        if suite:
            raise InputError(f"{name} is a benchmark and has its own suite: leave out --suite, or use another name")
        return {f"{config_name(name, scope or 'history')}.toml": benchmark_config(name, scope or "history")}
    if scope is not None:
        raise InputError(f"--scope is for a benchmark ({', '.join(BENCHMARKS)}); elsewhere set [compressor] scope")
    texts = {f"{_valid(name)}.toml": config_text("own.txt" if suite else "simulated.txt").format(name=name)}
    return {**texts, f"{name}.py": config_text("suite.txt").format(name=name)} if suite else texts
