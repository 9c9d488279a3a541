"""Hermes's own compressor with the exported engine: two compactions of a conversation."""

import copy
import importlib.util
import sys
from importlib.metadata import version

from agent.context_engine import ContextEngine

url, plugin = sys.argv[1:]
spec = importlib.util.spec_from_file_location("recompact_plugin", plugin)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
engines = []


class Context:
    def register_context_engine(self, engine):
        assert isinstance(engine, ContextEngine)
        engines.append(engine)


def talk(start, end):
    for page in range(start, end):
        yield {"role": "assistant", "content": f"I read page {page}: " + "word " * 1500}
        yield {"role": "user", "content": "Go on."}


module.register(Context())
engine = copy.deepcopy(engines[0])  # as Hermes does for each agent
server = {"base_url": url, "api_key": "none", "provider": "custom", "api_mode": "chat_completions"}
engine.update_model(model="loop", context_length=200_000, **server)
messages = [{"role": "system", "content": "You read."}, {"role": "user", "content": "Read all pages."}, *talk(0, 60)]
for number in (1, 2):
    shorter = engine.compress(messages, current_tokens=150_000, force=True)
    assert len(shorter) < len(messages)
    assert any(f"SUMMARY-{number} keeps" in str(message["content"]) for message in shorter)
    messages = [*shorter, *talk(60 * number, 60 * number + 60)]
print("hermes", version("hermes-agent"))
