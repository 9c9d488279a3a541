"""A Strands agent whose conversation manager summarizes with the exported prompt."""

import sys
from importlib.metadata import version

from recompact_strands import conversation_manager
from strands import Agent
from strands.models.openai import OpenAIModel

url, template, transcript = sys.argv[1:]
model = OpenAIModel(client_args={"base_url": url, "api_key": "none"}, model_id="loop")
manager = conversation_manager(summary_ratio=0.8, preserve_recent_messages=2)
agent = Agent(model=model, conversation_manager=manager, callback_handler=None)
for _ in range(2):
    for words in ("Say hello.", "And now?", "And then?"):
        agent(words)
    before = len(agent.messages)
    manager.reduce_context(agent)
    assert len(agent.messages) < before
print("strands", version("strands-agents"))
