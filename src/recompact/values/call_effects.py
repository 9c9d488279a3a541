"""What a call does, whichever harness's tool it is: its kind, the files it reads and changes, and what it asks for.

A turn ends the phase of an agent's work that its last call belongs to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import itemgetter
from typing import Any, Literal, get_args

from recompact.values.context import Turn
from recompact.values.session import Call
from recompact.values.shell import COMMAND_LIMIT, END, Range, join_path, parts, simplify, without_heredocs
from recompact.values.texts import word_set

# Strongest first: a command with several parts has the kind of its strongest part.
KINDS = ("edit", "vcs-change", "agent", "test", "read", "search", "list", "vcs-state", "plan", "poll", "other")
READING = frozenset({"read", "search", "list", "vcs-state"})
ASIDE = frozenset({"agent", "plan", "poll"})  # neither work nor reading: in no measure
PHASE = 10  # calls that tell in which phase of its work an agent is
LINE = 240  # characters of a call that are shown
QUERY = 4_000  # characters of a call's arguments in which literals are looked for

_TOOLS = {
    "shell": "bash shell shellcommand execcommand executebash powershell runshellcommand terminal runcommand "
    "bashcommand localshell exec runterminalcmd executecommand runinterminal",
    "read": "read readfile view viewfile readmanyfiles openfile notebookread webfetch fetch readpage getpagetext "
    "viewimage",
    "edit": "edit multiedit write writefile create createfile replace applypatch patch strreplace notebookedit insert "
    "editfile deletefile savememory writetofile replaceinfile",
    "search": "grep grepsearch searchfilecontent multigrep rg search searchfiles codebasesearch websearch "
    "googlewebsearch toolsearch filesearch sessionstoresql",
    "list": "glob ls list listdirectory find listfiles listdir listmcpresources",
    "plan": "todowrite todoread updateplan taskcreate taskupdate tasklist taskget think tasktracker reportintent "
    "updatetopic enterplanmode exitplanmode markchapter writetodos updatetodo askuserquestion askuser finish "
    "taskcomplete marktaskcomplete sessionstatus",
    "poll": "taskoutput bashoutput writestdin readpowershell readbash process waitagent readagent killshell stopbash "
    "stoppowershell sessionsyield wait taskstop agentoutput listpowershell",
    "agent": "task agent spawnagent sessionsspawn subagents closeagent delegate sendinput sessionshistory sessionssend "
    "resumeagent subagent skill",
}
_KIND_OF = {name: kind for kind, names in _TOOLS.items() for name in names.split()}
# The first word of an unknown tool's name says what it does: `list_contacts`, `sendMessage`.
_VERBS = {
    "read": "read get show view fetch retrieve describe download load",
    "search": "search find query lookup filter",
    "list": "list",
    "edit": "create add update delete remove write append edit set insert move rename send reply forward pay transfer "
    "request approve reject book cancel order upload save replace modify complete",
}
_KIND_OF_VERB = {verb: kind for kind, verbs in _VERBS.items() for verb in verbs.split()}
_FIRST_WORD = re.compile(r"[A-Z]?[a-z]+")
# A tool through which others are called: where their names and arguments are.
_CALLED = ("api", "tool_name", "function_name", "method", "operation")
_OWNERS = ("app", "server_name", "server", "service")
_PASSED_ON = ("arguments", "args", "parameters", "params")
_EDITOR = {"view": "read", "create": "edit", "str_replace": "edit", "insert": "edit", "undo_edit": "edit"}
_PATHS = ("file_path", "filePath", "path", "absolute_path", "filename", "file", "notebook_path", "target_file", "url")
_BODIES = word_set(
    "old_string new_string oldText newText old_str new_str oldString newString content file_text text prompt message "
    "todos plan description explanation instruction thought edits task_list input patch justification reasoning "
    "insert_line summary security_risk prefix_rule questions"
)
_VOLATILE = word_set(
    "timeout timeout_ms yield_time_ms max_output_tokens description justification explanation security_risk "
    "sandbox_permissions with_escalated_permissions login tty is_background run_in_background max_chars delay "
    "instruction workdir cwd dir_path shellId prefix_rule"
)
# Arguments whose values the tool's schema lists, such as `output_mode: files_with_matches`.
_OPTIONS = word_set(
    "output_mode outputMode mode type sort sort_by order format encoding detail kind action status subagent_type "
    "subagentType agent_type view level response_format responseFormat shell interpreter"
)
_PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$|^\+\+\+ b/(.+)$", re.MULTILINE)
_SCRIPTED = re.compile(r"\bcmd\s*:\s*(\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`[^`]*`)")


@dataclass(frozen=True, slots=True)
class CallEffect:
    """A call, interpreted. `key` is equal for calls that ask for the very same thing; a hash, since bodies are long."""

    kind: str
    key: int
    reads: tuple[Range, ...] = ()
    changes: tuple[str, ...] = ()
    query: str = ""  # the part of the arguments that names things, without bodies of edits
    line: str = ""  # for display; not yet masked


def effect_of(call: Call) -> CallEffect:
    """What a call does."""
    call = _dispatched_call(call)
    arguments = call.arguments
    name, kind = _tool(call.tool)
    if kind == "shell":
        cwd = _text(arguments.get("workdir") or arguments.get("cwd") or arguments.get("dir_path")) or call.cwd
        return _shell(_command(arguments), cwd)
    if isinstance(arguments.get("command"), str) and "editor" in name:
        kind = _EDITOR.get(arguments["command"], "other")
    path = next((_text(arguments[key]) for key in _PATHS if isinstance(arguments.get(key), str)), "")
    line = f"{call.tool} {path or _query(arguments)}"[:LINE]
    if kind == "edit":
        changes = tuple(a or b for a, b in _PATCHED.findall(_text(arguments.get("input") or arguments.get("patch"))))
        changes = changes or ((path,) if path else ())
        places = tuple(join_path(call.cwd, change) for change in changes)
        line = f"{call.tool} {', '.join(changes)}"[:LINE]
        return CallEffect(kind, _key(call, path), (), places, " ".join(changes)[:QUERY], line)
    if kind == "read":
        first, last = _lines(arguments)
        paths = [path] if path else [p for p in arguments.get("paths") or () if isinstance(p, str)]
        reads = tuple(Range(join_path(call.cwd, each), first, last) for each in paths)
        if (first, last) != (1, END):
            line = f"{line}:{first}-{last if last < END else ''}"
        return CallEffect(kind, _key(call, path), reads, (), " ".join(paths)[:QUERY], line)
    return CallEffect(kind, _key(call, path), (), (), _query(arguments), line)


@lru_cache(maxsize=1024)
def _tool(tool: str) -> tuple[str, str]:
    """A tool's name without its server, spelling normalised, and what it does.

    >>> _tool("mcp__crm__listContacts"), _tool("run_shell_command")
    (('listcontacts', 'list'), ('runshellcommand', 'shell'))
    """
    own = tool.rsplit("__", 1)[-1].rsplit(".", 1)[-1]
    name = own.replace("_", "").replace("-", "").lower()
    if name in _KIND_OF:
        return name, _KIND_OF[name]
    verb = _FIRST_WORD.match(own)
    return name, _KIND_OF_VERB.get(verb[0].lower(), "other") if verb else "other"


def _dispatched_call(call: Call) -> Call:
    """The call that a tool for calling others was asked to make; any other call unchanged.

    >>> _dispatched_call(Call("1", "call_api", {"app": "mail", "api": "send", "arguments": {"to": "x"}})).tool
    'mail.send'
    """
    call_arguments = call.arguments
    named = next((call_arguments[key] for key in _CALLED if isinstance(call_arguments.get(key), str)), "")
    passed = next((call_arguments[key] for key in _PASSED_ON if isinstance(call_arguments.get(key), Mapping)), None)
    if not named or passed is None or _tool(call.tool)[0] in _KIND_OF:
        return call
    owner = next((call_arguments[key] for key in _OWNERS if isinstance(call_arguments.get(key), str)), "")
    return replace(call, tool=f"{owner}.{named}" if owner else named, arguments=passed)


@lru_cache(maxsize=4096)
def _shell(command: str, cwd: str) -> CallEffect:
    head, rest = command[:COMMAND_LIMIT], command[COMMAND_LIMIT:]  # the rest only tells one command from another
    segments = list(parts(head, cwd))
    kind = min((part.kind for part in segments), key=KINDS.index, default="other")
    bare, _ = without_heredocs(head)
    return CallEffect(
        kind,
        hash(f"$ {cwd} {simplify(head)}{rest}"),
        tuple(each for part in segments for each in part.reads),
        tuple(each for part in segments for each in part.changes),
        simplify(bare)[:QUERY],  # the folder that a command starts in is known to every agent
        f"$ {' '.join(bare[: 2 * LINE].split())}"[:LINE],
    )


def _command(arguments: Mapping[str, Any]) -> str:
    """The command of a shell tool: a text, words, or the commands inside a script."""
    for key in ("command", "cmd", "keystrokes", "script"):
        value = arguments.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            words = [word for word in value if isinstance(word, str)]
            return words[2] if len(words) == 3 and words[1] in ("-c", "-lc", "-Command") else " ".join(words)
    text = _text(arguments.get("input"))
    if "*** Begin Patch" in text:
        return "apply_patch " + " ".join(a or b for a, b in _PATCHED.findall(text))
    commands = [match[1:-1].replace("\\n", "\n").replace('\\"', '"') for match in _SCRIPTED.findall(text)]
    return "\n".join(commands) or text


def _lines(arguments: Mapping[str, Any]) -> tuple[int, int]:
    """The lines that a reading tool is asked for."""
    span = arguments.get("view_range")
    if isinstance(span, list) and len(span) == 2 and all(isinstance(end, int) for end in span):
        return max(span[0], 1), span[1] if span[1] > 0 else END
    first, last = arguments.get("start_line"), arguments.get("end_line")
    if isinstance(first, int) or isinstance(last, int):
        return first if isinstance(first, int) else 1, last if isinstance(last, int) else END
    offset, limit = arguments.get("offset"), arguments.get("limit")
    start = max(offset, 1) if isinstance(offset, int) else 1
    return start, start + limit - 1 if isinstance(limit, int) and limit > 0 else END


def _query(arguments: Mapping[str, Any]) -> str:
    texts: list[str] = []
    for key, value in arguments.items():
        if key in _BODIES or key in _VOLATILE or key in _OPTIONS:
            continue
        if isinstance(value, str):
            texts.append(value[:QUERY])
        elif isinstance(value, list):
            texts += [item[:QUERY] for item in value[:50] if isinstance(item, str)]
    return " ".join(texts)[:QUERY]


def _key(call: Call, path: str) -> int:
    kept = []
    for name, value in call.arguments.items():
        if name not in _VOLATILE:
            kept.append((name, join_path(call.cwd, path) if path and value == path else value))
    kept.sort(key=itemgetter(0))
    try:
        return hash(f"{call.tool} {kept!r}")
    except RecursionError:
        return id(call)  # equal to no other


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


Phase = Literal["user", "error", "read", "edit", "test", "other"]
PHASES: tuple[Phase, ...] = get_args(Phase)
SAFE: frozenset[Phase] = frozenset({"user", "edit", "test"})
"""After these nothing hangs in the air: a user speaks, something was changed, a test was run without an error."""

_ERROR = re.compile(
    r'\s*(?:error\b|traceback \(|\{\s*"error")|.*\bexit (?:code|status):? [1-9]', re.IGNORECASE | re.DOTALL
)
_LOOKED_AT = 2_000  # characters of a result


def in_reading_phase(kinds: Sequence[str]) -> bool:
    """Whether the last calls of these kinds were mostly reads, with no edit among them: the worst moment to compact.

    >>> in_reading_phase(["edit", *["read"] * 10]), in_reading_phase(["read", "edit"]), in_reading_phase(["read"])
    (True, False, False)
    """
    recent = kinds[-PHASE:]
    return "edit" not in recent and sum(kind in READING for kind in recent) * 2 > max(len(recent), PHASE // 2)


def reports_error(text: str) -> bool:
    """Whether a result tells that its call failed.

    >>> reports_error('{"error": "no such file"}'), reports_error("fine\\nexit code 1"), reports_error("no errors")
    (True, True, False)
    """
    return _ERROR.match(text[:_LOOKED_AT]) is not None


def phase_of(turn: Turn | None) -> Phase:
    """What the agent was in the middle of after this turn.

    >>> from recompact.values.chat import Message, ToolCall, assistant, user
    >>> call = assistant("", ToolCall("1", "read_file", '{"path": "a.py"}'))
    >>> phase_of(Turn(call, (Message("tool", "text", call_id="1"),), 5)), phase_of(Turn(call, (user("go on"),), 5))
    ('read', 'user')
    """
    if turn is None:
        return "other"
    if turn.results and turn.results[-1].role == "user" and not turn.results[-1].content.startswith("Error:"):
        return "user"
    if any(reports_error(result.content) for result in turn.results):
        return "error"
    if not turn.message.calls:
        return "other"
    call = turn.message.calls[-1]
    try:
        kind = effect_of(Call(call.id, call.name, call.parsed())).kind
    except ValueError:  # the arguments are no object
        return "other"
    if kind in READING:
        return "read"
    return "edit" if kind == "vcs-change" else kind if kind in ("edit", "test") else "other"  # type: ignore[return-value]
