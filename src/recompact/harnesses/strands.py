"""Strands: the prompt is the summarizer's system prompt; real messages follow, then a fixed last user turn."""

from __future__ import annotations

from recompact.harnesses.exporting import Export, one_prompt, python_export
from recompact.harnesses.importing import PromptConstants
from recompact.harnesses.registry import Harness
from recompact.values.template import Template

EARLIER = "a user message that sums up what came before it"
_FILE = "strands/agent/conversation_manager/compression/context_compression.py"


def export(template: Template, budget: int) -> Export:
    prompt = one_prompt(template, budget, earlier=EARLIER, conversation="below")
    code = """
        def conversation_manager(**options):
            \"\"\"For Agent(conversation_manager=…); options say when, and what is kept.\"\"\"
            return SummarizingConversationManager(summarization_system_prompt=SYSTEM_PROMPT, **options)
    """
    return python_export(
        template,
        prompt,
        title="Strands",
        module="recompact_strands",
        imports="from strands.agent.conversation_manager import SummarizingConversationManager",
        texts={"SYSTEM_PROMPT": prompt.text},
        code=code,
        steps=("put recompact_strands.py beside your code: Agent(conversation_manager=conversation_manager())",),
        checks=("the summarizing request has SYSTEM_PROMPT as its system prompt",),
        traps=(
            "it compacts when the window overflows, unless proactive_compression says earlier",
            "the last user turn of the request is fixed: only the system prompt is yours",
        ),
    )


HARNESS = Harness(
    "strands",
    "Strands",
    export,
    PromptConstants("strands-agents", {"first": (_FILE, "DEFAULT_SUMMARIZATION_PROMPT")}),
)
