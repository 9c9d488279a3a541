"""A hosted model of the user's choice in the place of the one that a config names, and how much it may cost."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace

from experiment import Experiment
from recompact.engine.config import ModelConfig
from recompact.errors import InputError
from recompact.models.endpoint import Price


def add_hosted_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("a hosted model", "in the place of the one in the config; for --config hosted")
    group.add_argument("--model", help="its name at its server")
    group.add_argument("--base-url", help="the server's address (default: the provider's)")
    group.add_argument("--key-env", help="the environment variable with the key (default: the config's)")
    group.add_argument("--price", help="money for a million tokens, INPUT,OUTPUT or INPUT,CACHED,OUTPUT")
    group.add_argument("--ceiling", type=float, help="stop when a run file has cost this much (default: the config's)")


def hosted_by(experiment: Experiment, given: argparse.Namespace) -> Experiment:
    """The experiment with the model, the prices and the ceiling that were given; its run files are that model's own."""
    changed = any((given.model, given.base_url, given.key_env, given.price))
    if (changed or given.ceiling is not None) and experiment.config_name == "config":
        raise InputError("--model, --base-url, --key-env, --price and --ceiling are for --config hosted")
    if given.model and not given.price:
        raise InputError("--model needs its --price INPUT,OUTPUT: without it no forecast and no ceiling would hold")
    config, place = experiment.config, experiment.place
    if changed:
        config = replace(config, models={name: _with(model, given) for name, model in config.models.items()})
    if given.ceiling is not None:
        config = replace(config, ceiling=replace(config.ceiling, money=given.ceiling))
    if given.model and not given.out:
        own = re.sub(r"[^\w.-]+", "_", given.model)
        place = place.with_name(f"{place.name}-{own}")
    return replace(experiment, config=config, place=place)


def _with(model: ModelConfig, given: argparse.Namespace) -> ModelConfig:
    changes = {"id": given.model, "base_url": given.base_url, "key_env": given.key_env}
    if given.price:
        changes["price"] = _price(given.price)
    return replace(model, **{name: value for name, value in changes.items() if value is not None})


def _price(text: str) -> Price:
    try:
        first, *cached, last = (float(number) for number in text.split(","))
        if len(cached) > 1 or min(first, last, *cached) < 0:
            raise ValueError
    except ValueError:
        raise InputError(f"--price {text!r} is not INPUT,OUTPUT or INPUT,CACHED,OUTPUT") from None
    return Price(input=first, output=last, cached=cached[0] if cached else None)
