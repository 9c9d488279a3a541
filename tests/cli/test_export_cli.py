"""`recompact export` and `prompts import --from` as a person uses them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import recompact

from recompact.values.template import Template, load

Run = Callable[..., tuple[int, str, str]]
TEMPLATE = Template(
    "S", "{{ history }}\n\nfirst {x}\n## A\na", "{{ history }}\n\n{{ previous_summary }}\n\nmore\n## A\na"
)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    TEMPLATE.save(tmp_path / "mine")

    def _run(*arguments: object) -> tuple[int, str, str]:
        done = recompact(*arguments)
        return done.returncode, done.stdout, done.stderr

    return _run


def test_an_export_is_written_and_explained(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("export", "mine", "--to", "codex", "--budget", 900)
    assert code == 0
    assert "first {x}" in (tmp_path / "compaction-codex" / "config.toml").read_text()
    for words in (
        "Written: compaction-codex/config.toml",
        "What to do\n  1. ",
        "in effect",
        "Codex CLI",
        "became one prompt",
    ):
        assert words in out
    assert run("export", "mine", "--to", "codex")[0] == 0  # over itself
    (tmp_path / "compaction-codex" / "config.toml").write_text("changed")
    code, _, err = run("export", "mine", "--to", "codex")
    assert code == 2
    assert "was changed since Recompact wrote it" in err


def test_as_json(run: Run) -> None:
    code, out, _ = run("export", "mine", "--to", "pi", "--out", "here", "--json")
    assert code == 0
    heard = json.loads(out)
    assert heard["files"] == ["here/recompact-compaction.js"]
    assert {"steps", "checks", "traps", "losses", "moved", "harness"} <= set(heard)
    assert "claude-code" in json.loads(run("export", "--to", "list", "--json")[1])["harnesses"]


def test_installing(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "home" / ".config" / "goose" / "prompts" / "compaction.md"
    assert run("export", "mine", "--to", "goose", "--install")[0] == 0
    assert "{{ messages }}" in place.read_text()
    place.write_text("my own")
    code, _, err = run("export", "mine", "--to", "goose", "--install")
    assert code == 2
    assert "already exists" in err
    code, out, _ = run("export", "mine", "--to", "goose", "--install", "--force")
    assert code == 0
    assert "Moved aside" in out
    assert (place.parent / "compaction.md.earlier-1").read_text() == "my own"
    code, _, err = run("export", "mine", "--to", "langchain", "--install")
    assert code == 2
    assert "nothing to install" in err
    code, out, _ = run("export", "mine", "--to", "hermes", "--install")
    assert "Not installed, because it belongs in your own files: config.yaml" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["export", "mine", "--to", "claude"], "did you mean 'claude-code'?"),
        (["export", "mine", "--to", "os:path"], "must be a recompact.harnesses Harness"),
        (["export", "nothing", "--to", "pi"], "is not a template directory"),
        (["export", "--to", "pi"], "Name a template"),
        (["export", "mine", "--to", "pi", "--force"], "--force is for --install"),
        (["export", "mine", "--to", "pi", "--install", "--out", "x"], "give one of them"),
        (["prompts", "import", "--from", "claude-code", "--to", "x"], "recompact prompts import FILE"),
        (["prompts", "import", "--from", "codex", "--to", "x"], "config.toml"),
        (["prompts", "import", "--from", "codex", "--python", "python3", "--to", "x"], "does not apply to codex"),
        (["prompts", "import", "--from", "langchain", "a", "--package", "b", "--to", "x"], "the same thing"),
    ],
)
def test_mistakes_are_told_in_one_line(run: Run, arguments: list[str], words: str) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert words in err
    assert "Traceback" not in err


def test_a_harness_of_ones_own(run: Run, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from recompact.harnesses.exporting import Export, ExportFile\n"
        "from recompact.harnesses.registry import Harness\n"
        "def export(template, budget):\n"
        "    return Export((ExportFile('p.txt', template.first),), ('use it',), ('look',))\n"
        "HARNESS = Harness('own', 'My own', export)\n"
    )
    code, out, _ = run("export", "mine", "--to", "own.py:HARNESS")
    assert code == 0
    assert "What to do\n  1. use it" in out
    assert (tmp_path / "compaction-own" / "p.txt").read_text() == TEMPLATE.first


def test_what_codex_has_in_force_comes_back_to_the_byte(run: Run, tmp_path: Path) -> None:
    home = tmp_path / "home" / ".codex"
    home.mkdir(parents=True)
    (home / "config.toml").write_text('compact_prompt = "Sum up {it}.\\n## A\\nall"\n[tui]\ntheme = "x"\n')
    code, out, _ = run("prompts", "import", "--from", "codex", "--to", "got")
    assert code == 0
    assert "compact_prompt" in out
    assert load(tmp_path / "got").first == "Sum up {it}.\n## A\nall"
    run("export", "got", "--to", "codex")
    run("prompts", "import", "--from", "codex", "compaction-codex/config.toml", "--to", "again")
    assert load(tmp_path / "again") == load(tmp_path / "got")
    (tmp_path / "prompt.md").write_text("From a file: sum up.")
    (home / "config.toml").write_text(f'experimental_compact_prompt_file = "{tmp_path}/prompt.md"\n')
    run("prompts", "import", "--from", "codex", home, "--to", "third")
    assert load(tmp_path / "third").first == "From a file: sum up."
    (home / "config.toml").write_text("model = [")
    code, _, err = run("prompts", "import", "--from", "codex", "--to", "fourth")
    assert code == 2
    assert "cannot be read" in err


def test_an_agent_without_compaction_of_its_own_is_for_wrap(run: Run) -> None:
    code, _, err = run("export", "mine", "--to", "mini-swe-agent")
    assert code == 2
    assert "recompact wrap --template mine CONFIG -- mini" in err
