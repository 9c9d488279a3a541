"""`recompact preview`: a compaction before it happens: where the harness would cut, what is at stake, what is lost."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import click

from recompact.audit.preview import RECENT, Preview, SummaryTrial, preview, trial_of, try_template
from recompact.cli.audit import usual_transcripts
from recompact.cli.console import agree_to_send, console, print_json, print_tables, say
from recompact.cli.options import POSITIVE, Json, as_command
from recompact.compressors.protocol import CompactionFailed, CompressorInputs, CompressorSettings
from recompact.engine.assembly import open_model
from recompact.engine.config import Config
from recompact.engine.config_parser import load_config
from recompact.engine.forecast import price_of
from recompact.errors import InputError
from recompact.harnesses.registry import transcript_readers
from recompact.harnesses.transcripts.registry import read_transcripts
from recompact.models.failures import CeilingReached, ModelFailure
from recompact.presentation.audit import words
from recompact.values.chat import Decoding
from recompact.values.masking import mask_secrets, safe, safe_line
from recompact.values.session import (
    Event,
    Info,
    SessionCompaction,
    Size,
    SkippedFile,
    Tail,
    Tally,
    Transcript,
    Unreadable,
    moments,
)
from recompact.values.tables import Number, Table, columns
from recompact.values.template import resolve
from recompact.values.texts import quantity, visible
from recompact.values.tokens import counter

ROWS = 10  # of a list
HARNESS = "the harness"


@as_command("preview", example="preview ~/.codex/sessions")
def command(
    session: Path | None,
    *,
    at: Annotated[int | None, POSITIVE, "Start from the context before compaction N of the session."],
    config: Annotated[Path | None, "Let this config's compressor model write the summary."],
    templates: Annotated[
        tuple[str, ...], "--template", "Write it with this template (default: the config's). Repeatable."
    ],
    in_full: Annotated[bool, "--summary", "Print the summaries in full."],
    yes: Annotated[bool, "Send the session to the model without asking."],
    as_json: Json,
) -> None:
    """Show what a compaction of a session would drop, before it happens.

    SESSION is a transcript of Claude Code, Codex, pi, OpenCode or any other harness that `recompact audit` reads, also
    one that is being written; of a folder it is the latest. Without it, the latest session on this machine. No model is
    needed: the cut is the harness's own, and rules find the exact values, files, instructions and open steps that would
    go. With --config, a model writes the summary, and the same rules say what of all that it loses.
    """
    if templates and config is None:
        raise click.UsageError("--template needs a model that writes the summary: give --config too.")
    loaded = load_config(config) if config else None
    with console(stderr=True).status("reading the session"):
        known = _read(session, at)
        seen = preview(known.moment.pre, known.transcript.tail or Tail(), counter())
    trials = [trial_of(HARNESS, seen, known.moment.post)] if known.moment.post else []
    if loaded is not None:
        if not seen.dropped:
            raise InputError("there is nothing to summarize: all of it is what a compaction of this harness keeps")
        if not agree_to_send(_what_is_sent(loaded, seen, len(templates) or 1), yes=yes):
            raise click.Abort
        trials += asyncio.run(_try(loaded, seen, templates))
    if as_json:
        print_json(_plain({**known.to_json(), **seen.to_json(), "trials": [each.to_json() for each in trials]}))
        return
    _print(known, seen)
    for trial in trials:
        _print_trial(trial, seen, in_full)


@dataclass(frozen=True)
class _Session:
    """A session and the moment of it that is looked at."""

    transcript: Transcript
    moment: SessionCompaction
    compactions: int
    model: str
    reported: int | None  # tokens of the context at its end, as the harness counted

    def to_json(self) -> dict[str, Any]:
        return {
            "session": self.transcript.path.name,
            "harness": self.transcript.harness,
            "model": self.model,
            "compactions": self.compactions,
            "at": self.moment.index or None,
            "reported_tokens": self.reported if not self.moment.index else None,
            "cut_known": self.transcript.tail is not None,
        }


def _read(path: Path | None, at: int | None) -> _Session:
    places = (path,) if path else usual_transcripts(quiet=True)
    files = list(read_transcripts(places, transcript_readers()))
    usable = [each for each in files if isinstance(each, Transcript)]
    if not usable:
        skipped = [each for each in files if isinstance(each, SkippedFile)]
        why = "; ".join(text.removesuffix(".") for text in words.unread(skipped, 3))
        raise InputError(f"found no transcript{f' ({why})' if why else ''}: name a session, or a folder with some")
    transcript = max(usable, key=lambda each: each.modified)
    reported: dict[str, Any] = {}

    def events() -> Iterator[Event]:
        for event in transcript.events(Tally()):
            if isinstance(event, Size):
                reported["size"] = event.tokens
            elif isinstance(event, Info) and event.model:
                reported["model"] = event.model
            yield event

    try:
        every = list(moments(events(), counter()))
    except (Unreadable, OSError) as error:
        raise InputError(f"{transcript.path} cannot be read: {error}") from None
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        why = f"its records do not have the expected shape ({type(error).__name__}: {error})"
        raise InputError(f"{transcript.path} cannot be read: {why}") from None
    past = [each for each in every if each.index]
    chosen = past[at - 1] if at and at <= len(past) else every[-1] if every and not at else None
    if chosen is None:
        held = quantity(len(past), "compaction")
        raise InputError(f"{transcript.path} holds {held}" + (f", so there is no --at {at}" if at else " and no turn"))
    return _Session(transcript, chosen, len(past), reported.get("model", ""), reported.get("size"))


def _what_is_sent(config: Config, seen: Preview, times: int) -> str:
    name = config.compressor_model
    settings = config.models.get(name)
    tokens = times * sum(turn.tokens for turn in seen.dropped)
    price = price_of(settings).input
    cost = f", about {tokens * price / 1e6:.2f} at the config's price" if price else ""
    where = (settings.base_url or "its usual address") if settings else "built in"
    return f"About {tokens:,} tokens of the session{cost} will be sent to {name} ({where})."


async def _try(config: Config, seen: Preview, templates: tuple[str, ...]) -> list[SummaryTrial]:
    c, count, trials = config.compressor, counter(config.run.counter), []
    named = [(name, resolve(name, Path())) for name in templates]
    named = named or [(c.template, resolve(c.template, config.directory))]
    try:
        async with open_model(config, config.compressor_model, count) as (model, _):
            for name, template in named:
                inputs = CompressorInputs(
                    model=model,
                    template=template,
                    count=count,
                    **{each.name: getattr(c, each.name) for each in fields(CompressorSettings)},
                    decoding=Decoding(c.max_output_tokens, c.temperature, c.top_p, c.reasoning_effort),
                )
                trials.append(await try_template(name, seen, inputs, c.budget))
    except CompactionFailed as failure:
        raise InputError(f"{config.compressor_model}: {failure}") from None
    except ModelFailure as failure:
        say(f"recompact: {failure}", err=True)
        sys.exit(3 if isinstance(failure, CeilingReached) else 2)
    return trials


def _plain(value: Any) -> Any:
    """The document without what looks like a secret."""
    if isinstance(value, str):
        return mask_secrets(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return {key: _plain(each) for key, each in value.items()} if isinstance(value, dict) else value


# --- words


def _tell(text: str) -> None:
    """A paragraph, broken at the width of the terminal."""
    console().print(visible(text), markup=False)


def _print(known: _Session, seen: Preview) -> None:
    transcript, harness = known.transcript, known.transcript.harness
    now = f"before its compaction {known.moment.index}" if known.moment.index else "as it is now"
    counted = f" {harness} counted {known.reported:,} in all." if known.reported and not known.moment.index else ""
    _tell(
        f"{safe_line(transcript.path.name)} ({harness}{f', {safe_line(known.model)}' if known.model else ''}), {now}: "
        f"{seen.pre.size:,} tokens of history in {quantity(len(seen.pre.turns), 'turn')}.{counted}"
    )
    if not seen.dropped:
        _tell("That is no more than a compaction keeps by default: nothing would be dropped.")
        return
    kept = len(seen.pre.turns) - len(seen.dropped)
    pins = f", and {quantity(len(seen.bare.pinned), 'message')} of the user" if seen.bare.pinned else ""
    dropped_tokens = sum(turn.tokens for turn in seen.dropped)
    earlier = f" and the earlier summary ({seen.pre.summary.tokens:,})" if seen.pre.summary else ""
    assumed = (
        ""
        if transcript.tail
        else " Recompact does not know how this harness cuts, and assumes that it keeps the last turn."
    )
    _tell(
        f"By default a compaction keeps {quantity(kept, 'turn')}{pins} word for word ({seen.bare.size:,} tokens) and "
        f"replaces {quantity(len(seen.dropped), 'turn')} ({dropped_tokens:,} tokens){earlier} by a summary.{assumed}"
    )
    if seen.reading:
        _tell("The agent is reading and has edited nothing since: after a compaction now, agents read the most again.")
    _tell("")
    print_tables([*_tables(seen)])
    for title, texts in (
        ("Rules of the user at stake", seen.rules),
        ("Open steps of the agent's plan at stake", seen.steps),
    ):
        _tell(f"{title}: {len(texts) or 'none found'}")
        for text in texts[:ROWS]:
            _tell(f"- {safe_line(text, 160)}")
        if len(texts) > ROWS:
            _tell(f"- and {len(texts) - ROWS} more (--json has all)")


def _tables(seen: Preview) -> Iterator[Table]:
    likely = seen.likely
    if likely:
        rows = tuple((_end(safe_line(v.text)), v.uses, v.age) for v in likely[:ROWS])
        notes = [f"Not in what is kept, and used more than once or within {RECENT} calls of the cut."]
        notes += [f"{len(likely) - ROWS} more, and {len(seen.values) - len(likely)} used once long ago."] * (
            len(likely) > ROWS
        )
        title = f"Exact values at stake: {len(likely)}"
        yield Table(title, columns("value", "uses", "age", age="calls ago"), rows, tuple(notes))
    else:
        yield Table("Exact values at stake: none found", columns("value"), ())
    if seen.files:
        shown = tuple((_end(safe_line(f.path)), Number(f.tokens, 0), f.age) for f in seen.files[:ROWS])
        total = sum(file.tokens for file in seen.files)
        title = f"Files read in the last {RECENT} calls whose text goes: {len(seen.files)}, {total:,} tokens"
        yield Table(title, columns("file", "tokens", "age", age="calls ago"), shown)


def _end(path: str) -> str:
    """The end of a long path or value, which tells more than its beginning."""
    return path if len(path) <= 56 else f"…{path[-55:]}"


def _print_trial(trial: SummaryTrial, seen: Preview, in_full: bool) -> None:
    losses = trial.losses
    name = "What the harness wrote then" if trial.template == HARNESS else f"With the template {trial.template}"
    _tell(f"\n{name}: {trial.receipt.before:,} tokens became {trial.receipt.after:,}.")
    for word, lost, staked in (
        ("exact value", [value.text for value in losses.values], len(seen.likely)),
        ("rule", losses.rules, len(seen.rules)),
        ("open step", losses.steps, len(seen.steps)),
    ):
        if staked:
            named = ": " + "; ".join(safe_line(each, 90) for each in lost[:6]) if lost else ""
            more = f"; and {len(lost) - 6} more" if len(lost) > 6 else ""
            _tell(f"- It loses {len(lost)} of {quantity(staked, word)}{named}{more}")
    if trial.receipt.usage.calls or trial.receipt.usage.input:
        _tell(f"- {trial.receipt.sentences[-1]}")
    _tell(safe(trial.summary, 40_000) if in_full else f"- The summary begins: {safe_line(trial.summary, 300)}")
