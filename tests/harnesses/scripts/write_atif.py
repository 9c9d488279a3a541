"""A trajectory in the newest version of ATIF, written with Harbor's own models: a compaction, copied steps, media."""

import json
import sys
from importlib.metadata import version
from typing import get_args

from harbor.models.trajectories import (
    Agent,
    Observation,
    ObservationResult,
    Step,
    SubagentTrajectoryRef,
    ToolCall,
    Trajectory,
)

steps = []


def add(source, message, **more):
    steps.append(Step(step_id=len(steps) + 1, source=source, message=message, **more))


def look(page, **more):
    observed = ObservationResult(source_call_id=f"c{page}", content=f"page {page}: " + f"word{page} " * 30)
    call = ToolCall(tool_call_id=f"c{page}", function_name="look", arguments={"page": page})
    add("agent", "", tool_calls=[call], observation=Observation(results=[observed]), **more)


if __name__ == "__main__":
    add("system", "You look.")
    recording = {"type": "audio", "source": {"media_type": "audio/wav", "path": "https://example.invalid/a.wav"}}
    add("user", [{"type": "text", "text": "MARK-TASK"}, recording])
    for page in range(1, 9):
        look(page)
    summary = ObservationResult(
        content="MARK-SUMMARY", subagent_trajectory_ref=[SubagentTrajectoryRef(trajectory_id="compact-1")]
    )
    managed = {"context_management": {"type": "compaction", "boundary": "replace"}}
    add("system", "Context compaction performed", observation=Observation(results=[summary]), extra=managed)
    look(8, is_copied_context=True)
    for page in range(9, 13):
        look(page)
    writer = Step(step_id=1, source="agent", message="MARK-SUMMARY")
    compressor = Trajectory(trajectory_id="compact-1", agent=Agent(name="summarizer", version="1"), steps=[writer])
    trajectory = Trajectory(
        session_id="s", agent=Agent(name="a", version="1"), steps=steps, subagent_trajectories=[compressor]
    )
    with open(sys.argv[1], "w") as file:
        json.dump(trajectory.to_json_dict(), file)
    versions = get_args(Trajectory.model_fields["schema_version"].annotation)
    print("harbor", version("harbor"), "ATIF", versions[-1])
