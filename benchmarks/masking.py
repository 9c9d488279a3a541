"""How long masking takes: a history of 200 turns, masked for the first time, and again.

    python benchmarks/masking.py            # seconds; processor time, the median of 40 histories

A turn that was played is measured in two parts, its message and its results, so masking counts no message again. One
that was read from a run file has only its sum. A history that was masked before costs less either way: only turns that
have become old since are masked.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace
from statistics import median
from time import process_time

from recompact.compressors.masking import Masking
from recompact.compressors.protocol import Compaction, CompressorInputs
from recompact.simulation import simulated_models
from recompact.values.chat import Message, ToolCall, assistant, system
from recompact.values.context import Context, Turn
from recompact.values.template import default_template
from recompact.values.tokens import TokenCounter, counter

BUDGET = 4096


def history(number: int, turns: int, count: TokenCounter) -> Context:
    """No two histories share a text, so that nothing could be remembered of another."""
    made = []
    for n in range(turns):
        call = ToolCall(f"call_{n}", "read_file", f'{{"path": "src/part_{number}/module_{n}.py"}}')
        result = Message("tool", f"value {number}.{n} = 17\n" * 40, call_id=call.id)
        made.append(Turn.measured(assistant(f"I read module {n} of part {number} next.", call), (result,), count))
    return Context((system("You read code."),), None, tuple(made))


async def mask(inputs: CompressorInputs, context: Context) -> tuple[float, Compaction]:
    start = process_time()
    compaction = await Masking(inputs).compress(context, BUDGET)
    return 1000 * (process_time() - start), compaction


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--histories", type=int, default=40)
    args = parser.parse_args()
    count = counter()
    model = simulated_models()["sim-compressor"]
    inputs = CompressorInputs(model=model, template=default_template(), count=count)
    for name, from_file in (("played", False), ("read from a run file", True)):
        first, again = [], []
        for number in range(args.histories):
            context = history(number, args.turns, count)
            if from_file:
                context = replace(context, turns=tuple(replace(turn, said=0) for turn in context.turns))
            milliseconds, compaction = await mask(inputs, context)
            first.append(milliseconds)
            again.append((await mask(inputs, compaction.context))[0])
        print(
            f"{args.turns} turns, {name}: {median(first):.2f} ms the first time (at best {min(first):.2f}),"
            f" {median(again):.2f} ms once masked"
        )


if __name__ == "__main__":
    asyncio.run(main())
