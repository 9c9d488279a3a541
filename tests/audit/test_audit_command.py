"""The command: what it finds by itself, what it prints, and the page."""

from __future__ import annotations

import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from audit_planting import WRITERS, Compact, Script, claude_code, planted, shell
from commands import recompact

VOID = {"meta", "link", "br", "img"}


class Tags(HTMLParser):
    """Checks that every tag is closed where it should be, and gathers ids and links."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [given["id"]] if given.get("id") else []  # type: ignore[list-item]
        self.links += [given["href"]] if given.get("href") else []  # type: ignore[list-item]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with sessions of three harnesses in their usual places, and no others."""
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR", "OPENCLAW_STATE_DIR", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    places = {
        "claude-code": ".claude/projects/-work-app",
        "pi": ".pi/agent/sessions/x",
        "codex": ".codex/sessions/2026",
    }
    for harness, folder in places.items():
        (home / folder).mkdir(parents=True)
        writer, keeps = WRITERS[harness]
        for seed in range(2):
            (home / folder / f"{seed}.jsonl").write_text("\n".join(planted(seed, writer, keeps).lines))
    return home


def test_without_a_path_it_finds_the_usual_places_and_says_which(home: Path, tmp_path: Path) -> None:
    done = recompact("audit", "--out", tmp_path / "audit.html", columns=80, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for harness in ("claude-code", "pi", "codex"):
        assert f"{harness}: {home}" in done.stdout
    assert "observational" in done.stdout
    assert "recompact verify" in done.stdout
    assert (tmp_path / "audit.html").exists()


def test_the_terminal_keeps_to_80_columns(home: Path, tmp_path: Path) -> None:
    done = recompact("audit", home, "--no-page", columns=80)
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert not (tmp_path / "audit.html").exists()


def test_json_says_the_same(home: Path) -> None:
    told = json.loads(recompact("audit", home, "--no-page", "--json").stdout)
    assert told["sessions"] == 6
    assert len(told["compactions"]) == 5  # the two claude-code sessions have the same identities: see below
    assert {each["harness"] for each in told["compactions"]} == {"claude-code", "pi", "codex"}
    assert all(each["shown_as_harm"] is False for each in told["measures"])  # too few sessions for an interval
    assert told["observational"]


def test_the_page_is_whole(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "page" / "audit.html"
    assert recompact("audit", home, "--out", out, "--json").returncode == 0
    text = out.read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert len(set(tags.ids)) == len(tags.ids)
    assert {link[1:] for link in tags.links if link.startswith("#")} <= set(tags.ids)
    assert not [link for link in tags.links if link.startswith("http")]
    assert text.index("</header>") < text.index("<nav") < text.index("<main>")  # beside the text in a wide window
    assert set(re.findall(r'href="#(case-\d+)"', text)) == {f"case-{number}" for number in range(1, 6)}
    for words in ("Observational", "placebo", "recompact verify", "Before: the last calls", "The summary"):
        assert words in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "no such file or folder"),
        ([".", "--out", "audit.jsonl"], "ends with .html"),
        (["."], "found no transcript"),
    ],
)
def test_mistakes_are_one_message(arguments: list[str], says: str, tmp_path: Path) -> None:
    done = recompact("audit", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr


def test_no_harness_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    done = recompact("audit", cwd=tmp_path)
    assert done.returncode == 2
    assert "usual places" in done.stderr


def test_a_session_without_compactions_is_no_error(tmp_path: Path) -> None:
    lines = [json.dumps({"role": role, "content": "hello"}) for role in ("system", "user", "assistant")]
    (tmp_path / "chat.jsonl").write_text("\n".join(lines))
    done = recompact("audit", tmp_path, "--no-page")
    assert done.returncode == 0
    assert "No compaction was found" in done.stdout


def test_where_nothing_can_be_scored_the_amounts_are_shown(tmp_path: Path) -> None:
    text = "\n".join(f"a line of the file, number {n}, which is long enough" for n in range(30))
    script: Script = [*(shell(f"cat {n}.py", f"{text} in {n}") for n in range(6)), Compact("Summary.", 0)]
    script += [shell(f"cat {n}.py", f"{text} in {n}") for n in range(6)]
    (tmp_path / "s.jsonl").write_text("\n".join(claude_code(script)[0]))
    done = recompact("audit", tmp_path, "--out", tmp_path / "audit.html", columns=200)
    page = (tmp_path / "audit.html").read_text(encoding="utf-8")
    amounts = re.search(r"[\d,]+ characters fetched again in 6 calls", done.stdout)
    assert amounts
    assert page.count(amounts[0]) == 2  # its case, and the table of all
    for shown in (done.stdout, page):
        assert "no score:" in shown
        assert "The worst compactions" not in shown
    assert "1 is one in ten" not in done.stdout + page


def test_what_was_skipped_is_named_where_nothing_is_found(tmp_path: Path) -> None:
    (tmp_path / "real.jsonl").write_text("{}")
    for name in ("folder", "blank", "words"):
        (tmp_path / name).mkdir()
    (tmp_path / "folder" / "link.jsonl").symlink_to(tmp_path / "real.jsonl")
    os.mkfifo(tmp_path / "folder" / "pipe.jsonl")
    (tmp_path / "blank" / "blank.jsonl").write_text("\n \n")
    (tmp_path / "words" / "words.jsonl").write_text("no JSON\nat all")
    for path, says in (
        ("folder", "1 link inside the folders not followed; 1 special file skipped"),
        ("real.jsonl", "1 JSON file of no known transcript format: real.jsonl"),
        ("blank", "1 empty file: blank.jsonl"),
        ("words", "words.jsonl: no line of it is JSON"),
    ):
        done = recompact("audit", path, "--no-page", cwd=tmp_path)
        assert done.returncode == 2
        assert f"({says})" in done.stderr.replace("words/words", "words")


def test_the_page_shows_the_summary_of_the_latest_compaction(home: Path, tmp_path: Path) -> None:
    fresh = [shell(f"echo {n}", f"plain {n}") for n in range(3)]
    lines, _ = claude_code([*fresh, Compact("An early summary.", 0), *fresh, Compact("A fresh summary.", 0)])
    path = home / ".claude/projects/-work-app/fresh.jsonl"
    path.write_text("\n".join(lines).replace('"uuid": "', '"uuid": "fresh'))
    for when in (1, 4_000_000_000):  # the oldest file of all, and the newest
        os.utime(path, (when, when))
        assert recompact("audit", home, "--out", tmp_path / "audit.html", "--top", "2").returncode == 0
        page = (tmp_path / "audit.html").read_text(encoding="utf-8")
        assert ("A fresh summary." in page) is (when > 1)
        assert "An early summary." not in page
    assert "The latest compaction" in page
