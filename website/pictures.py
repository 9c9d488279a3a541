"""The pictures of the pages: drawings of the idea, and what commands print.

python website/pictures.py DIRECTORY            # draws all of them, as in docs/images; simulated models, minutes
python website/pictures.py DIRECTORY boundary   # or some, by name
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path

from click.testing import CliRunner
from rich.console import Console
from rich.text import Text

from recompact.attribution.bisection.cause import read_causes
from recompact.cli.main import cli
from recompact.engine.store.store import Store
from tutorials import File, steps

INK, LINE, BOX, GOOD, BAD = "#1f2933", "#7b8794", "#e6f4f1", "#00796b", "#c2410c"
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


def box(x: int, y: int, width: int, title: str, note: str = "", color: str = GOOD) -> str:
    height = 58 if note else 40
    lines = [
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{BOX}" stroke="{color}"/>',
        label(x + width // 2, y + 25, title, weight="600"),
    ]
    return "\n".join([*lines, label(x + width // 2, y + 45, note, size=12) if note else ""])


def label(x: int, y: int, text: str, *, size: int = 15, weight: str = "400", color: str = INK) -> str:
    style = f'font-size="{size}" font-weight="{weight}" fill="{color}" text-anchor="middle"'
    return f'<text x="{x}" y="{y}" {style}>{escape(text)}</text>'


def arrow(*points: tuple[int, int], color: str = LINE) -> str:
    path = " ".join(f"{x},{y}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2" marker-end="url(#head)"/>'


def drawing(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    head = (
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0,0 L8,4 L0,8 z" fill="{LINE}"/></marker></defs>'
    )
    start = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif"'
        f' role="img"><title>{escape(title)}</title>'
    )
    return "\n".join([start, head, f'<rect width="{width}" height="{height}" fill="#fff"/>', *parts, "</svg>", ""])


def architecture() -> str:
    """The flow from a suite to a deployed prompt, with the command of each step."""
    steps = [
        ("your suite", "tasks, tools, a check"),
        ("collect", "plays, compacts, records"),
        ("verify", "continues from PRE and POST"),
        ("bisect", "puts lines back"),
    ]
    later = [
        ("export", "to your harness"),
        ("evaluate", "arms on unseen tasks"),
        ("select", "candidates end to end"),
        ("adapt", "diagnoses, revises"),
    ]
    parts = [box(20 + 235 * n, 20, 195, *step) for n, step in enumerate(steps)]
    parts += [arrow((215 + 235 * n, 49), (253 + 235 * n, 49)) for n in range(3)]
    parts += [box(20 + 235 * n, 150, 195, *step) for n, step in enumerate(later)]
    parts += [arrow((255 + 235 * n, 179), (217 + 235 * n, 179)) for n in range(3)]
    parts += [arrow((822, 78), (822, 148)), label(822 - 95, 118, "harmful compactions", size=12, color=BAD)]
    parts += [
        box(255, 250, 430, "one run file", "every prompt, reply, state and draw; killed and resumed", LINE),
        *(arrow((352 + 235 * n, 208), (352 + 235 * n, 248)) for n in range(2)),
        label(117, 282, "report, view, audit", size=13),
        arrow((253, 277), (190, 277)),
    ]
    return drawing(960, 325, "From a suite to an adapted prompt", parts)


def boundary() -> str:
    """One compaction, and the two continuations that measure it."""
    parts = [
        *(box(20 + 62 * n, 110, 54, f"{n + 1}", color=LINE) for n in range(5)),
        label(172, 100, "turns of the agent", size=13),
        f'<line x1="345" y1="40" x2="345" y2="230" stroke="{BAD}" stroke-width="2" stroke-dasharray="5 4"/>',
        label(345, 28, "boundary: the budget is reached", size=13, color=BAD),
        arrow((333, 122), (398, 74)),
        arrow((333, 138), (398, 190)),
        box(400, 45, 150, "PRE", "all five turns"),
        box(400, 160, 150, "POST", "summary + turn 5", BAD),
        *(arrow((552, y), (608, y)) for y in (74, 189)),
        box(610, 45, 200, "goes on to the end", "3 of 3 succeed, 9 steps"),
        box(610, 160, 200, "goes on to the end", "1 of 3 succeed, 15 steps", BAD),
        label(880, 110, "H = 0.67", weight="600", color=BAD),
        label(880, 140, "B = 6", weight="600", color=BAD),
        label(480, 262, "same restored environment, same frozen agent, compaction off (an example)", size=13),
    ]
    return drawing(940, 280, "Two continuations from one boundary", parts)


def bisect() -> str:
    """What `recompact bisect` prints on the embedded world, progress included."""
    Path("one.toml").write_text('[compressor]\nbudget = 2048\n[verify]\nallocation = "uniform:3"\n')
    for command in (["collect", "one.toml"], ["verify", "one.toml"]):
        output_of(command)
    progress = output_of(["bisect", "one"]).splitlines()
    with Store.read(Path("runs/one.db")) as store:
        causes = [cause for cause in read_causes(store).values() if cause.known and cause.loss == "success"]
    id = str(min(causes, key=lambda cause: cause.tokens).boundary)
    trying = [line for line in progress if line.startswith(f"{id}: trying")]
    printed = [*trying, *output_of(["bisect", "one", id]).lstrip("\n").splitlines()]
    return terminal("bisect", f"recompact bisect one {id}", printed)


def terminal(name: str, command: str, lines: Iterable[str], headings: bool = True) -> str:
    """What a command printed, in a window; lines that are not indented are in bold if they are `headings`."""
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(Text(f"$ {command}", "bold"))
    for line in list(lines)[:LONGEST]:
        bold = "bold" if headings and line[:1].strip() else ""
        style = "green" if line.lstrip().startswith(("Putting", "Taking")) else bold
        console.print(Text(line[: 2 * WIDTH], style), soft_wrap=False)
    return console.export_svg(title="recompact", code_format=FRAME, unique_id=name)


def output_of(command: list[str], place: Path = Path()) -> str:
    with contextlib.chdir(place):
        result = CliRunner().invoke(cli, command, env={"COLUMNS": str(WIDTH)})
    if result.exit_code:
        sys.exit(f"recompact {' '.join(command)} failed:\n{result.output}")
    return result.output


@dataclass(frozen=True)
class TutorialPicture:
    """A picture of what a tutorial made; `source` finds it in the directory in which the tutorial was followed."""

    name: str
    source: Callable[[Path], str]


def audit(place: Path) -> str:
    printed = output_of(["audit", str(place / "sessions"), "--no-page"], place)
    return terminal("audit", "recompact audit sessions", printed.splitlines(), headings=False)


def figure(name: str, run: str) -> Callable[[Path], str]:
    """The figure of this name that `recompact figures` draws of a run."""

    def draw(place: Path) -> str:
        output_of(["figures", run, "--out", f"figures-{name}", "--format", "svg"], place)
        (file,) = (place / f"figures-{name}").glob(f"*{name}.svg")
        return file.read_text(encoding="utf-8")

    return draw


FROM_TUTORIALS = {
    "why-did-it-forget": (TutorialPicture("tutorial-audit", audit),),
    "adapt-your-agent": (
        TutorialPicture("tutorial-effects", figure("boundary-effects", "desk")),
        TutorialPicture("tutorial-arms", figure("arms", "desk-evaluate")),
    ),
    "compare-methods": (TutorialPicture("tutorial-methods", figure("arms", "study-evaluate")),),
}


def follow(tutorial: str, place: Path) -> None:
    """Do in a directory what a tutorial has its reader do."""
    page = Path(__file__).parents[1] / "docs" / "tutorials" / f"{tutorial}.md"
    for step in steps(page.read_text(encoding="utf-8")):
        if isinstance(step, File):
            (place / step.name).write_text(step.text, encoding="utf-8")
        else:
            program, *arguments = shlex.split(step.line)
            module = ["-m", "recompact"] if program == "recompact" else []
            subprocess.run([sys.executable, *module, *arguments], cwd=place, check=True, stdout=subprocess.DEVNULL)


DRAWINGS: dict[str, Callable[[], str]] = {"architecture": architecture, "boundary": boundary}
PICTURES: dict[str, Callable[[], str]] = {**DRAWINGS, "bisect": bisect}


def main(target: Path, names: Iterable[str]) -> None:
    for name in names:
        with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
            if name in PICTURES:
                (target / f"{name}.svg").write_text(PICTURES[name](), encoding="utf-8")
                continue
            follow(name, Path(scratch))
            for picture in FROM_TUTORIALS[name]:
                (target / f"{picture.name}.svg").write_text(picture.source(Path(scratch)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2:] or (*PICTURES, *FROM_TUTORIALS))
