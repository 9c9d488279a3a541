"""A run as a dataset: Parquet tables of boundaries, draws and templates, and a card that says what they hold.

Everything that looks like a secret is masked, always: a dataset is made to be given away.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from recompact.engine.store.adaptations import read_adaptations, recorded_templates
from recompact.engine.store.records import CONTINUE
from recompact.engine.store.runs import overview
from recompact.engine.store.store import Store
from recompact.engine.store.verdicts import effect_numbers
from recompact.errors import InputError
from recompact.presentation.exchange.episodes import Compaction, Episode, Step, read_episodes
from recompact.values.chat import Message, Usage
from recompact.values.masking import mask_secrets
from recompact.values.outputs import replaced_directory
from recompact.values.template import Template
from recompact.version import __version__, install_command

DATASET = "dataset"
BATCH = 200  # rows that are written together

Columns = Mapping[str, tuple[str, str]]  # name -> (type, what it holds)
TABLES: Mapping[str, Columns] = {
    table: {name: (kind, text) for name, (kind, text) in columns.items()}
    for table, columns in tomllib.loads(
        files("recompact.presentation.exchange").joinpath("dataset.toml").read_text(encoding="utf-8")
    ).items()
}


def publish(store: Store, out: Path, licence: str) -> dict[str, int]:
    """Write the dataset into a directory that is new, empty or an earlier one; returns the rows of each table."""
    with replaced_directory(out, DATASET) as directory:
        counts = _write_tables(store, directory)
        (directory / "README.md").write_text(_card(store, counts, licence), encoding="utf-8")
    return counts


def _write_tables(store: Store, directory: Path) -> dict[str, int]:
    counts: Counter[str] = Counter(dict.fromkeys(TABLES, 0))
    with ExitStack() as stack:
        tables = {name: stack.enter_context(_Table(directory / f"{name}.parquet", TABLES[name])) for name in TABLES}
        for name, row in _rows(store):
            tables[name].add(row)
            counts[name] += 1
    return dict(counts)


def _rows(store: Store) -> Iterator[tuple[str, dict[str, Any]]]:
    templates = _templates(store)
    for episode in read_episodes(store, mask=True):
        if episode.phase == CONTINUE:
            yield "draws", _draw(episode)
        for part in episode.parts:
            if isinstance(part, Compaction):
                yield "boundaries", _boundary(episode, part, _template_of(episode, templates, store.metadata.template))
    for template in templates.values():
        for name, text in template.parts().items():
            yield "templates", {"template": template.hash, "part": name, "text": mask_secrets(text)}


def _templates(store: Store) -> dict[str, Template]:
    """The templates whose texts the run holds, by hash: its own, those of arms, and candidates."""
    tried = (each.template for record in read_adaptations(store) for each in record.candidates)
    return {template.hash: template for template in tried if template} | recorded_templates(store)


def _template_of(episode: Episode, templates: Mapping[str, Template], own: str) -> str:
    """The hash of the template that an episode compacted with. The units of the phases that try several are named by
    it, except those of replays, whose templates only the command knew."""
    if episode.phase not in ("evaluate", "select", "gepa", "replay"):
        return own
    return next((hash for hash in templates if hash[:16] in episode.unit), "")


def _boundary(episode: Episode, compaction: Compaction, template: str) -> dict[str, Any]:
    boundary, verdict, calls = compaction.boundary, compaction.verdict, compaction.calls
    effect = verdict and verdict.reported_effect
    return {
        "boundary": f"{episode.unit.removeprefix('collect/')}#{boundary.index}",
        "task": episode.task,
        "phase": episode.phase,
        "index": boundary.index,
        "step": boundary.step,
        "agent_model": episode.model,
        "compressor_model": calls[-1].model if calls else "",
        "template": template if calls else "",
        "tools": json.dumps([tool.to_json() for tool in episode.tools], ensure_ascii=False),
        "pre": _messages(boundary.pre.messages),
        "post": _messages(boundary.post.messages),
        "summary": boundary.post.summary.text if boundary.post.summary else "",
        "prompt": _messages((calls[-1].asked or ()) if calls else ()),
        "tokens_before": boundary.pre.size,
        "tokens_after": boundary.post.size,
        "verdict": verdict.kind if verdict else "",
        "reason": verdict.reason if verdict else "",
        **effect_numbers(effect or None),
        "p_harmful": effect.p_harmful if effect else None,
        "pre_draws": effect.pre if effect else 0,
        "post_draws": effect.post if effect else 0,
        "trajectory_success": episode.trajectory.score.success,
    }


def _draw(episode: Episode) -> dict[str, Any]:
    usage = episode.trajectory.usage.get("agent", Usage())
    own = [message for part in episode.parts if isinstance(part, Step) for message in part.turn.messages]
    return {
        "boundary": str(episode.boundary),
        "arm": episode.arm,
        "draw": episode.run + 1,
        "success": episode.trajectory.score.success,
        "value": episode.trajectory.score.value,
        "steps": episode.trajectory.steps,
        "ending": episode.trajectory.ending,
        "messages": _messages(own),
        "input_tokens": usage.input,
        "output_tokens": usage.output,
    }


def _messages(messages: Sequence[Message]) -> str:
    return json.dumps([message.to_json() for message in messages], ensure_ascii=False)


@dataclass
class _Table:
    """A Parquet file that grows batch by batch."""

    path: Path
    columns: Columns
    rows: list[dict[str, Any]] = field(default_factory=list)

    def __enter__(self) -> _Table:
        try:
            self.arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        except ModuleNotFoundError as error:
            raise InputError(f"{error.name} is not installed: {install_command('dataset')}") from error
        kinds = {"string": self.arrow.string(), "int64": self.arrow.int64(), "double": self.arrow.float64()}
        kinds["bool"] = self.arrow.bool_()
        self.schema = self.arrow.schema([(name, kinds[kind]) for name, (kind, _) in self.columns.items()])
        self.writer = parquet.ParquetWriter(self.path, self.schema, compression="zstd")
        return self

    def add(self, row: dict[str, Any]) -> None:
        self.rows.append({name: _whole(value) for name, value in row.items()})
        if len(self.rows) >= BATCH:
            self._write()

    def _write(self) -> None:
        self.writer.write_table(self.arrow.Table.from_pylist(self.rows, schema=self.schema))
        self.rows.clear()

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is None:
            self._write()
        self.writer.close()


def _whole(value: Any) -> Any:
    """Half a character, which no encoding can carry, becomes a question mark."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _card(store: Store, counts: Mapping[str, int], licence: str) -> str:
    environment = Environment(loader=PackageLoader("recompact.presentation.exchange", "."), undefined=StrictUndefined)
    return environment.get_template("card.md.jinja").render(
        run=store.path.stem,
        suite=store.metadata.suite,
        seen=overview(store),
        tables=TABLES,
        counts=counts,
        licence=licence,
        version=__version__,
    )
