"""The embedded models: simulated, always labelled so, and seeing nothing but text."""

from __future__ import annotations

from collections.abc import Mapping

from recompact.models.protocol import ChatModel


def simulated_models() -> Mapping[str, ChatModel]:
    """The simulated models by the names under which configs and the server know them."""
    from recompact.simulation.agent import SimulatedAgent
    from recompact.simulation.compressor import SimulatedCompressor
    from recompact.simulation.optimizer import SimulatedOptimizer

    models = (SimulatedAgent(), SimulatedCompressor(), SimulatedOptimizer())
    return {model.name: model for model in models}
