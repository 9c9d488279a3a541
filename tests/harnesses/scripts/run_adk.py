"""ADK's summarizer, with the exported prompt, on the events of a conversation."""

import asyncio
import sys
from importlib.metadata import version

from google.adk.events.event import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai.types import Content, Part
from openai import AsyncOpenAI
from recompact_adk import summarizer

url, template, transcript = sys.argv[1:]


class Loop(BaseLlm):
    """Asks the server on loopback; what ADK sends stays as it is."""

    async def generate_content_async(self, llm_request, stream=False):
        text = "\n".join(part.text for content in llm_request.contents for part in content.parts)
        client = AsyncOpenAI(base_url=url, api_key="none")
        reply = await client.chat.completions.create(model="loop", messages=[{"role": "user", "content": text}])
        answer = Content(role="model", parts=[Part(text=reply.choices[0].message.content)])
        yield LlmResponse(content=answer)


def said(author: str, text: str) -> Event:
    return Event(author=author, content=Content(role=author, parts=[Part(text=text)]), invocation_id="1")


async def main() -> None:
    events = [said("user", "Read all pages."), said("model", "word " * 20)]
    for _ in range(2):
        event = await summarizer(Loop(model="loop")).maybe_summarize_events(events=events)
        summary = event.actions.compaction.compacted_content
        events = [Event(author="model", content=summary, invocation_id="1"), said("user", "Go on.")]


asyncio.run(main())
print("google-adk", version("google-adk"))
