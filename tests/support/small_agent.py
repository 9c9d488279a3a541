"""An agent of the smallest kind, in each of the three wire formats, with and without streams. Standard library only.

    python3 small_agent.py {chat|responses|messages} {plain|stream} TASK [trick]

It has one tool, `shell`, runs what it is told to run, and ends when its model says something without a call.
"""

# mypy: ignore-errors
import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request

FORMAT, MODE, TASK = sys.argv[1:4]
TRICK, _, WHEN = (sys.argv[4] if len(sys.argv) > 4 else "").partition("@")
if WHEN not in TASK:
    TRICK = ""
SYSTEM = "You are an agent with a shell."
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
BASE = os.environ["OPENAI_BASE_URL"] if FORMAT != "messages" else os.environ["ANTHROPIC_BASE_URL"] + "/v1"
PATH = {"chat": "/chat/completions", "responses": "/responses", "messages": "/messages"}[FORMAT]


def send(body, path=PATH, headers=None):
    body = {**body, "model": "m", "stream": MODE == "stream"}
    data = json.dumps(body).encode()
    key = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "x-api-key": os.environ["ANTHROPIC_API_KEY"]}
    request = urllib.request.Request(BASE + path, data, {"Content-Type": "application/json", **key, **(headers or {})})
    with urllib.request.urlopen(request, timeout=300) as response:
        if MODE != "stream":
            return json.load(response)
        lines = response.read().decode().splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


class Chat:
    def __init__(self):
        self.messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]

    def ask(self):
        tool = {"type": "function", "function": {"name": "shell", "description": "Run it.", "parameters": SCHEMA}}
        answer = send({"messages": self.messages, "tools": [tool]})
        if MODE == "stream":
            text, calls = "", {}
            for event in answer:
                for choice in event["choices"]:
                    delta = choice["delta"]
                    text += delta.get("content") or ""
                    for piece in delta.get("tool_calls", ()):
                        call = calls.setdefault(piece["index"], {"arguments": ""})
                        call.update({k: piece[k] for k in ("id",) if k in piece})
                        call["name"] = piece["function"].get("name", call.get("name"))
                        call["arguments"] += piece["function"].get("arguments", "")
            calls = list(calls.values())
        else:
            message = answer["choices"][0]["message"]
            text = message["content"] or ""
            calls = [{"id": c["id"], **c["function"]} for c in message.get("tool_calls", ())]
        sent = {"role": "assistant", "content": text or None}
        if calls:
            sent["tool_calls"] = [
                {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
                for c in calls
            ]
        self.messages.append(sent)
        return text, [(c["id"], json.loads(c["arguments"])) for c in calls]

    def result(self, id, output):
        self.messages.append({"role": "tool", "tool_call_id": id, "content": output})


class Responses:
    def __init__(self):
        self.items = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": TASK}]}]

    def ask(self):
        tool = {"type": "function", "name": "shell", "description": "Run it.", "parameters": SCHEMA}
        answer = send({"input": self.items, "instructions": SYSTEM, "tools": [tool], "store": False})
        if MODE == "stream":
            output = [event["item"] for event in answer if event["type"] == "response.output_item.done"]
            assert answer[-1]["type"] == "response.completed"
        else:
            output = answer["output"]
        self.items += output
        text = "".join(p["text"] for item in output if item["type"] == "message" for p in item["content"])
        calls = [item for item in output if item["type"] == "function_call"]
        return text, [(item["call_id"], json.loads(item["arguments"])) for item in calls]

    def result(self, id, output):
        self.items.append({"type": "function_call_output", "call_id": id, "output": output})


class Messages:
    def __init__(self):
        self.messages = [{"role": "user", "content": [{"type": "text", "text": TASK}]}]

    def ask(self):
        tool = {"name": "shell", "description": "Run it.", "input_schema": SCHEMA}
        answer = send({"system": SYSTEM, "messages": self.messages, "tools": [tool], "max_tokens": 500})
        if MODE == "stream":
            blocks = []
            for event in answer:
                if event["type"] == "content_block_start":
                    blocks.append(dict(event["content_block"], json=""))
                elif event["type"] == "content_block_delta":
                    delta = event["delta"]
                    if delta["type"] == "text_delta":
                        blocks[-1]["text"] += delta["text"]
                    else:
                        blocks[-1]["json"] += delta["partial_json"]
            for block in blocks:
                written = block.pop("json")
                if block["type"] == "tool_use":
                    block["input"] = json.loads(written or "{}")
        else:
            blocks = answer["content"]
        self.messages.append({"role": "assistant", "content": blocks})
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        return text, [(block["id"], block["input"]) for block in blocks if block["type"] == "tool_use"]

    def result(self, id, output):
        block = {"type": "tool_result", "tool_use_id": id, "content": [{"type": "text", "text": output}]}
        self.messages.append({"role": "user", "content": [block]})


def title():
    """A side call, as some agents make one for the title of a session."""
    if FORMAT == "chat":
        send({"messages": [{"role": "user", "content": "Write a title for: " + TASK}]})
    elif FORMAT == "messages":
        send({"messages": [{"role": "user", "content": "Write a title for: " + TASK}], "max_tokens": 10})
    else:
        send({"input": "Write a title for: " + TASK})


def spied(secret_place):
    """What can be seen or reached that should not be."""
    import socket

    found = [name for name in os.listdir("/home") if name != "agent"]
    found += [name for name, value in os.environ.items() if "canary" in value]
    found += [place for place in (secret_place, f"/proc/1/root{secret_place}") if os.path.exists(place)]
    for address in (("1.1.1.1", 80), ("127.0.0.1", 22), ("127.0.0.1", 18150)):
        try:
            socket.create_connection(address, timeout=1)
            found.append(str(address))
        except OSError:
            pass
    return found


def main():
    if TRICK in ("title", "title-and-daemon"):
        title()
    if TRICK == "flood":
        import threading

        for n in range(300):
            threading.Thread(target=lambda n=n: send({"messages": [{"role": "user", "content": str(n)}]})).start()
    if TRICK == "huge":
        send({"messages": [{"role": "user", "content": "x" * 200_000_000}]})
    if TRICK == "garbage":
        send({"messages": 3})
    if TRICK == "silent":
        time.sleep(3600)
    if TRICK == "many":
        for _ in range(300):
            subprocess.Popen(["sleep", "3600"])
    while TRICK == "bomb":
        with contextlib.suppress(OSError):
            os.fork()
    if TRICK == "disk":
        for n in range(30):
            with open(f"{os.environ['HOME']}/fill{n}", "wb") as file:
                file.write(b"x" * 1_000_000)
        time.sleep(3600)
    if TRICK in ("daemon", "title-and-daemon"):  # its parent ends at once, so that it is nobody's child
        subprocess.Popen(["sh", "-c", "sleep 3600 & exit"], start_new_session=True).wait()
    conversation = {"chat": Chat, "responses": Responses, "messages": Messages}[FORMAT]()
    steps = 0
    while True:
        text, calls = conversation.ask()
        if not calls:
            print(text)
            return
        for id, arguments in calls:
            ended = subprocess.run(
                arguments["command"], shell=True, capture_output=True, text=True, errors="replace", timeout=60
            )
            output = ended.stdout + ended.stderr
            steps += 1
            if TRICK.startswith("spy:"):
                output += f"\nspied: {spied(TRICK[4:])}"
            if TRICK == "clock":
                output += f"\nIt took {time.time_ns()} ns."
            if TRICK == "names" and not arguments["command"].startswith("cat /tmp/"):
                name = os.urandom(4).hex()
                with open(f"/tmp/out-{name}.txt", "w") as file:
                    file.write(output)
                output = f"Stored in /tmp/out-{name}.txt"
            if TRICK == "crash" and steps == 3:
                sys.exit(3)
            if TRICK == "random-file":
                with open("random.bin", "wb") as file:
                    file.write(os.urandom(8))
            conversation.result(id, output)


main()
