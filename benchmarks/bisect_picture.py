"""The README's picture of a bisected compaction: the embedded world, from collection to a cause.

    python benchmarks/bisect_picture.py docs/images/bisect.svg

Draws what `recompact bisect` prints, progress included. Simulated models; it takes a minute.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from click.testing import CliRunner
from rich.console import Console
from rich.text import Text

from recompact.attribution.bisection.cause import read_causes
from recompact.cli.main import cli
from recompact.engine.store.store import Store

CONFIG = """
[compressor]
budget = 2048
[verify]
allocation = "uniform:3"
"""
WIDTH, LONGEST = 110, 34
# Rich's own frame without its web fonts: a page that shows the picture loads nothing from elsewhere.
FRAME = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: monospace; font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        Path("one.toml").write_text(CONFIG)
        for command in (["collect", "one.toml"], ["verify", "one.toml"]):
            _run(command)
        progress = _run(["bisect", "one"]).splitlines()
        with Store.read(Path("runs/one.db")) as store:
            causes = [cause for cause in read_causes(store).values() if cause.known and cause.loss == "success"]
        id = str(min(causes, key=lambda cause: cause.tokens).boundary)
        trying = [line for line in progress if line.startswith(f"{id}: trying")]
        text = "\n".join([*trying, _run(["bisect", "one", id]).lstrip("\n")])
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(Text(f"$ recompact bisect one {id}", "bold"))
    for line in text.splitlines()[:LONGEST]:
        style = "green" if line.lstrip().startswith(("Putting", "Taking")) else "bold" if line[:1].strip() else ""
        console.print(Text(line[: 2 * WIDTH], style), soft_wrap=False)
    target.write_text(console.export_svg(title="recompact", code_format=FRAME, unique_id="bisect"))


def _run(command: list[str]) -> str:
    result = CliRunner().invoke(cli, command)
    if result.exit_code:
        sys.exit(f"recompact {' '.join(command)} failed:\n{result.output}")
    return result.output


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
