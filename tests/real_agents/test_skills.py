"""The exported skills in the real Claude Code and Codex: both are offered to the model, and one is opened by its name.
`make test-agents`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from commands import recompact, served
from needs import needs

from recompact.values.chat import Reply, Request, Usage, assistant

AUDIT, PREVIEW = "audit-compactions", "preview-compaction"
PLACE = Path(os.environ.get("RECOMPACT_TEST_AGENTS", "")).resolve() / "npm/node_modules/.bin"
pytestmark = needs("agents")
OPENED = "Compact nothing yourself"  # stands in the skill, and not in its description


class Listener:
    """Keeps what it is asked, and says that it is done."""

    name = "clerk"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def reply(self, request: Request) -> Reply:
        texts = [message.content for message in request.messages]
        self.asked.append("\n".join([*texts, *(tool.description for tool in request.tools)]))
        return Reply(assistant("Done."), Usage(10, 2, calls=1))


AGENTS = {
    # the profile turns attachments off, and the list of skills is one
    "claude-code-skill": ("claude", ("env", "-u", "CLAUDE_CODE_DISABLE_ATTACHMENTS", "claude", "-p"), f"/{PREVIEW}"),
    "codex-skill": ("codex", ("codex", "exec", "--skip-git-repo-check"), f"Use ${PREVIEW}."),
}


@pytest.mark.parametrize("name", AGENTS)
def test_skills_are_offered_and_opened(name: str, tmp_path: Path) -> None:
    program, agent, by_name = AGENTS[name]
    if not (PLACE / program).exists():
        pytest.skip(f"{PLACE / program} is not installed")
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    variables = {"PATH": f"{PLACE}:{os.environ['PATH']}", "HOME": str(home), "IS_SANDBOX": "1"}
    installed = recompact("export", "default", "--to", name, "--install", cwd=work, env=variables)
    assert installed.returncode == 0, installed.stderr
    asked: dict[str, str] = {}
    for said in ("Hello.", by_name):
        model = Listener()
        with served({"clerk": model}) as server:
            config = tmp_path / "mine.toml"
            config.write_text(
                f'[suite]\nuse = "workspace"\n[models.clerk]\nid = "clerk"\nbase_url = "{server.base_url}"\n'
                '[agent]\nmodel = "clerk"\n[compressor]\nmodel = "clerk"\n'
            )
            out = tmp_path / f"{len(asked)}.jsonl"
            command = ("wrap", "--out", out, config, "--", *agent, said)
            ended = recompact(*command, cwd=work, env=variables)
        assert ended.returncode == 0, ended.stderr
        asked[said] = "\n".join(model.asked)
    assert all(skill in asked["Hello."] for skill in (AUDIT, PREVIEW, "what would survive compacting now"))
    assert OPENED not in asked["Hello."]
    assert OPENED in asked[by_name]
