"""The recorded replies of an experiment's real models, with which anybody can repeat it to the letter without a model.

    python experiments/replies.py real-compressor                 # writes experiments/real-compressor/replies.jsonl.xz
    python experiments/run.py real-compressor --recorded          # plays what it answers, and asks no model
    python experiments/run.py fresh-tasks --resume                # begins with it; what is missing is asked for

Environments and simulated models answer the same every time, so the replies of real ones are all that a run needs.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path

from experiment import Experiment, find_experiment, parser_of
from recompact.engine.store.calls import journaled_calls, journaled_replies
from recompact.engine.store.runs import open_run
from recompact.engine.store.store import Store
from recompact.errors import InputError, RecompactError
from recompact.models.failures import ModelFailure
from recompact.models.journal import JournaledReply, seed_of
from recompact.models.shape import in_shape
from recompact.values.chat import Reply, Request
from recompact.values.texts import quantity

_DIGITS = 3  # of the seconds that a call took
_FIELDS = tuple(field.name for field in fields(JournaledReply))

Key = tuple[str, str, int, str]
"""Run file, unit, ordinal and digest of the request."""


class NotRecorded(ModelFailure):
    """A call that nobody has answered yet."""

    kind = "not recorded"


class RecordedModel:
    """What stands in the place of a real model where nothing is to be asked.

    Most calls are answered by the journal and never come here. What does come is a call that nobody has answered, or a
    question to the optimizer that is worded otherwise today, with another figure in its evidence for example: the reply
    that was recorded in its place stands, and is counted in `reworded`.
    """

    def __init__(self, name: str, answered: Mapping[int, Reply]) -> None:
        self.name, self.reworded, self._answered = name, 0, answered

    async def reply(self, request: Request) -> Reply:
        known = self._answered.get(request.decoding.seed or 0)
        if known is None:
            raise NotRecorded(f"no reply of {self.name} to this call was recorded: --resume asks for it")
        self.reworded += 1
        return known


def without_models(experiment: Experiment) -> Experiment:
    """The experiment with its recorded replies in the place of its real models."""
    seed = experiment.config.run.seed
    answered = {
        seed_of(each.unit, each.ordinal, seed): each.reply  # which no two calls share
        for _, each in _read(replies_file(experiment))
        if each.role == "optimizer"
    }
    return replace(experiment, models={name: RecordedModel(name, answered) for name in real_models(experiment)})


def run_files(experiment: Experiment) -> tuple[Path, ...]:
    return experiment.trial, experiment.adaptations, experiment.evaluation


def replies_file(experiment: Experiment) -> Path:
    """Where the replies of a config are kept."""
    suffix = "" if experiment.config_name == "config" else f"-{experiment.config_name}"
    return experiment.folder / f"replies{suffix}.jsonl.xz"


def real_models(experiment: Experiment) -> Collection[str]:
    """The models that the config describes; all others are simulated."""
    return frozenset(experiment.config.models)


def keep_replies(experiment: Experiment) -> int:
    """Write down the replies in the run files and return how many there are. A file that has others is not replaced."""
    kept: dict[Key, str] = {}
    for path in run_files(experiment):
        if path.is_file():
            with Store.read(path) as store:
                replies = journaled_replies(store, real_models(experiment))
            kept |= {_key(path.stem, each): _line(path.stem, each) for each in replies}
    file = replies_file(experiment)
    if file.is_file() and (lost := [key for key in map(_key_of, _read(file)) if key not in kept]):
        raise InputError(
            f"{file} has {quantity(len(lost), 'reply')} that no run file in {experiment.place} has, such as one of"
            f" {lost[0][1]}: run experiments/run.py {experiment.arguments} --resume first, or remove the file"
        )
    if kept:
        fresh = file.with_suffix(".new")
        fresh.write_bytes(lzma.compress("".join(kept.values()).encode(), preset=9))
        fresh.replace(file)
    return len(kept)


def begin_with_replies(experiment: Experiment) -> int:
    """Put recorded replies into the journals of the run files, where they are found when their calls come up again.

    Returns how many were new there.
    """
    file = replies_file(experiment)
    if not file.is_file():
        raise InputError(f"{file} does not exist: nothing was recorded of {experiment.arguments}")
    recorded = list(_read(file))
    added = 0
    for path in run_files(experiment):
        if wanted := [each for name, each in recorded if name == path.stem]:
            with open_run(path) as store:
                there = set(journaled_calls(store))
                for each in wanted:
                    if (each.unit, each.ordinal) not in there:
                        store.journal(each)
                        added += 1
    return added


def _key(run: str, each: JournaledReply) -> Key:
    return run, each.unit, each.ordinal, each.request


def _key_of(recorded: tuple[str, JournaledReply]) -> Key:
    return _key(*recorded)


def _line(run: str, each: JournaledReply) -> str:
    call = {name: getattr(each, name) for name in _FIELDS}
    written = {"run": run, **call, "reply": each.reply.to_json(), "seconds": round(each.seconds, _DIGITS)}
    return json.dumps(written, sort_keys=True) + "\n"  # in ASCII, so that nothing else ends a line


def _read(file: Path) -> Iterator[tuple[str, JournaledReply]]:
    try:
        for line in lzma.decompress(file.read_bytes()).decode("ascii").splitlines():
            data = json.loads(line)
            bytes.fromhex(data["request"])
            run, reply = data.pop("run"), Reply.from_json(data.pop("reply"))
            if type(data["ordinal"]) is not int or not isinstance(data["unit"], str) or not in_shape(reply):
                raise ValueError("a reply is not as it was written")
            yield run, JournaledReply(**data, reply=reply)
    except (lzma.LZMAError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file} is no file of recorded replies ({type(error).__name__}: {error})") from None


def main() -> int:
    parser = parser_of(__doc__)
    given = parser.parse_args()
    try:
        experiment = find_experiment(given)
        kept = keep_replies(experiment)
    except RecompactError as error:
        print(f"{given.name}: {error}", file=sys.stderr)
        return 1
    if not kept:
        print(f"{given.name}: no run file in {experiment.place} has a reply of a real model", file=sys.stderr)
        return 1
    print(f"{quantity(kept, 'reply')} in {replies_file(experiment)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
