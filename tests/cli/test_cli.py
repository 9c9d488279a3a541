"""The commands as a person meets them; those that get a signal or lose their reader in a process of their own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import fakes
import pytest
from commands import Done, recompact, served
from fakes import Noter, Reader
from sim_server import Server

from recompact.cli.main import COMMANDS, cli
from recompact.cli.stopping import interrupted_later
from recompact.engine.store.store import Store
from recompact.values.chat import Reply, Request

FAKES = Path(fakes.__file__)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server with the reader and the noter, in a thread of its own."""
    with served({"reader": Reader(), "noter": Noter(), "slow": Slow()}, require_key=None) as running:
        yield running


class Slow(Reader):
    async def reply(self, request: Request) -> Reply:
        await asyncio.sleep(0.2)
        return await super().reply(request)


def config(directory: Path, base_url: str, more: str = "", agent: str = "reader", compressor: str = "") -> Path:
    path = directory / "books.toml"
    path.write_text(f"""
[suite]
use = "{FAKES}:pages_suite_4"
[models.reader]
id = "{agent}"
base_url = "{base_url}"
retry_wait = 0.01
[models.noter]
id = "noter"
base_url = "{base_url}"
[agent]
model = "reader"
[compressor]
model = "noter"
budget = 500
{compressor}
[run]
step_limit = 20
{more}
""")
    return path


def test_help_loads_nothing_that_takes_long() -> None:
    code = "import sys; sys.argv[1:] = ['--help']\nfrom recompact.cli.main import main\nmain()"
    watched = f"import atexit, sys\natexit.register(lambda: print(*sys.modules, file=sys.stderr))\n{code}"
    done = subprocess.run([sys.executable, "-c", watched], capture_output=True, text=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert {"recompact", "click"} <= loaded
    assert not loaded & {"openai", "pydantic", "httpx2", "rich", "jinja2", "rs_bpe", "numpy", "asyncio"}


def module_of(name: str) -> ModuleType:
    return import_module(f"recompact.cli.{name.replace('-', '_')}")


def example_of(name: str) -> str:
    return str(module_of(name).command.epilog.removeprefix("\b\nExample: recompact "))


def test_help_names_every_command() -> None:
    said = recompact("--help").stdout
    for name in COMMANDS:
        assert f"  {name} " in said
        helped = recompact(name, "--help")
        assert helped.returncode == 0, name
        assert f"Example: recompact {example_of(name)}\n" in helped.stdout
    assert recompact("--version").stdout.startswith("recompact, version ")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_of_the_help_can_be_typed(name: str) -> None:
    context = cli.make_context("recompact", shlex.split(example_of(name)))
    words = [*context._protected_args, *context.args]
    command = cli.get_command(context, words[0])
    assert command is not None
    assert (words[0], command) == (name, module_of(name).command)
    command.make_context(name, words[1:])  # refuses what the command does not take


def test_a_mistyped_command_is_recognized() -> None:
    done = recompact("coolect")
    assert (done.returncode, "'collect'" in done.stderr) == (2, True)


def test_a_run_that_has_only_begun_is_not_said_to_lack_compactions(tmp_path: Path, server: Server) -> None:
    assert recompact("collect", config(tmp_path, server.base_url)).returncode == 0
    runs = tmp_path / "runs"
    with Store.open(runs / "books.db") as store:
        store.forget_units(("collect/",))
    done = recompact("boundaries", "books", "--dir", runs)
    assert (done.returncode, "compacted" in done.stdout, "yet" in done.stdout) == (0, False, True)
    (listed,) = json.loads(recompact("runs", "--dir", runs, "--json").stdout)
    assert (listed["stage"], listed["trajectories"]) == ("begun", 0)


def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "recompact", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, recompact("--version").stdout)


def test_collect_then_runs_then_show(tmp_path: Path, server: Server) -> None:
    path = config(tmp_path, server.base_url)
    first = recompact("collect", path)
    assert first.returncode == 0, first.stderr
    digest = first.stdout.strip().splitlines()[-1]
    assert digest.startswith("digest: ")
    assert len(digest) == len("digest: ") + 64
    asked = sum(server.received.values())
    again = recompact("collect", path, "--json")
    assert again.returncode == 0
    assert json.loads(again.stdout)["digest"] == digest.split()[1]
    assert sum(server.received.values()) == asked  # a finished run asks nobody

    runs = tmp_path / "runs"
    (listed,) = json.loads(recompact("runs", "--dir", runs, "--json").stdout)
    assert (listed["name"], listed["trajectories"], listed["success"]) == ("books", 4, 4)
    assert "books" in recompact("runs", "--dir", runs).stdout

    table = recompact("show", "books", "--dir", runs).stdout
    assert table.count("success") >= 4
    shown = recompact("show", runs / "books.db", "book-002").stdout
    assert "boundary 1:" in shown
    assert "The last page read was page" in shown
    assert "step 9" in shown
    assert "Read all pages of book 2." in shown
    (whole,) = json.loads(recompact("show", "books", "book-002", "--dir", runs, "--json").stdout)
    assert whole["boundaries"][0]["pre_tokens"] > 500
    assert len(whole["turns"]) == 9


def assert_refused(done: Done, *said: str) -> None:
    """One or two sentences, exit code 2, no traceback."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2, done.stderr
    for words in said:
        assert words in done.stderr, done.stderr


def nothing_written(directory: Path) -> bool:
    return not list(directory.glob("runs/*"))


def test_bad_input_is_named_and_leaves_nothing_behind(tmp_path: Path, server: Server) -> None:
    no_key = {"OPENAI_API_KEY": "", "MY_KEY": ""}
    assert_refused(recompact("collect", tmp_path / "no.toml"), "there is no config file", "no.toml")

    path = config(tmp_path, "http://models.invalid/v1")
    assert_refused(recompact("collect", path, env=no_key), "OPENAI_API_KEY", "key")
    assert_refused(recompact("check", path, env=no_key), "OPENAI_API_KEY")

    path = config(tmp_path, "http://127.0.0.1:9/v1")
    assert_refused(recompact("collect", path), "127.0.0.1:9")

    path = config(tmp_path, server.base_url, agent="raeder")
    assert_refused(recompact("collect", path), "raeder", "reader")

    path.write_text("[suite\n")
    assert_refused(recompact("collect", path), "books.toml", "not valid TOML")

    path = config(tmp_path, server.base_url, "bugdet = 1")
    assert_refused(recompact("collect", path), "books.toml", "bugdet")

    path = config(tmp_path, server.base_url, compressor='template = "mine"')
    assert_refused(recompact("collect", path), "mine")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "first.md").write_text("Summarize.")
    (mine / "update.md").write_text("{{ history }} {{ previous_summary }}")
    assert_refused(recompact("collect", path), "first.md", "{{ history }}")

    path = config(tmp_path, server.base_url)
    path.write_text(path.read_text().replace("pages_suite_4", "pages_suite_5"))
    assert_refused(recompact("collect", path), "pages_suite_5")
    assert nothing_written(tmp_path)


def test_a_changed_config_a_newer_store_and_a_second_process_are_refused(tmp_path: Path, server: Server) -> None:
    path = config(tmp_path, server.base_url)
    assert recompact("collect", path).returncode == 0
    changed = config(tmp_path, server.base_url)
    changed.write_text(changed.read_text().replace("budget = 500", "budget = 600"))
    assert_refused(recompact("collect", changed), "compressor.budget: 500 -> 600", "--run NAME")
    assert recompact("collect", changed, "--run", "other").returncode == 0
    with Store.open(tmp_path / "runs" / "books.db"):
        assert_refused(recompact("collect", config(tmp_path, server.base_url)), "in use by process")
    import sqlite3

    with sqlite3.connect(tmp_path / "runs" / "books.db") as db:
        db.execute("PRAGMA user_version=9")
    assert_refused(recompact("collect", path), "newer Recompact")
    assert_refused(recompact("show", tmp_path / "runs" / "books.db"), "newer Recompact")
    assert_refused(recompact("show", "nothing", "--dir", tmp_path / "runs"), "there are books, other")
    assert_refused(recompact("show", "other", "book-9", "--dir", tmp_path / "runs"), "book-00")


def test_a_ceiling_stops_cleanly_and_the_run_goes_on_when_it_is_raised(tmp_path: Path, server: Server) -> None:
    whole = recompact("collect", config(tmp_path, server.base_url), "--run", "whole").stdout.splitlines()[-1]
    price = "[models.reader.price]\ninput = 1000\noutput = 1000\n"
    low = config(tmp_path, server.base_url, "concurrency = 1\n[ceiling]\ntokens = 3000")
    done = recompact("collect", low)
    assert done.returncode == 3
    assert "raise [ceiling] tokens" in done.stderr
    with Store.read(tmp_path / "runs" / "books.db") as store:
        spent = sum(u.total for u in store.spent().values())
    assert 3000 <= spent < 4500
    assert recompact("collect", low).returncode == 3  # still spent
    money = config(tmp_path, server.base_url, f"concurrency = 1\n{price}[ceiling]\nmoney = 5")
    done = recompact("collect", money)
    assert done.returncode == 3
    assert "raise [ceiling] money" in done.stderr
    done = recompact("collect", config(tmp_path, server.base_url))
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == whole


def test_ctrl_c_while_the_command_line_is_loaded_prints_nothing(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("print('loading', flush=True)\nimport time\ntime.sleep(60)\n")
    variables = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "recompact", "runs"]
    with subprocess.Popen(
        command, env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loading\n"
        process.send_signal(signal.SIGINT)
        _, complained = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT  # which a shell tells as 130
    assert complained == ""


STOPS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


@pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(number, code, id=number.name, marks=() if number == signal.SIGINT else pytest.mark.slow)
        for number, code in STOPS.items()
    ],
)
def test_ctrl_c_and_its_like_end_cleanly_and_say_how_to_go_on(
    number: signal.Signals, code: int, tmp_path: Path, server: Server
) -> None:
    path = config(tmp_path, server.base_url, agent="slow")
    process = subprocess.Popen(
        [sys.executable, "-m", "recompact", "collect", str(path)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    run = tmp_path / "runs" / "books.db"
    while time.monotonic() < deadline:
        time.sleep(0.1)
        if run.exists():
            with Store.read(run) as store:
                if store.spent():
                    break
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert f"resume with: recompact collect {path}" in said
    assert "Traceback" not in said
    assert recompact("collect", path).returncode == 0


def test_a_signal_stops_a_job_for_which_ctrl_c_is_ignored_and_leaves_nothing(tmp_path: Path, server: Server) -> None:
    path = config(tmp_path, server.base_url, agent="slow")
    path.write_text(path.read_text().replace("[models.reader]", "host = true\nsandbox = 'off'\n[models.reader]"))
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    process = subprocess.Popen(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-m", "recompact", "collect", str(path)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list(scratch.glob("recompact-hosts-*/*/*")):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143, said
    assert "resume with: recompact collect" in said
    assert not list(scratch.glob("recompact-hosts-*"))


def test_output_that_nobody_reads_ends_the_command(tmp_path: Path) -> None:
    script = f'"{sys.executable}" -m recompact figures --help; "{sys.executable}" -m recompact suites; echo $? >&2'
    done = subprocess.run(["bash", "-c", f"exec > >(exec true); sleep 0.5; {script}"], capture_output=True, text=True)
    assert done.stderr.strip().splitlines()[-1] == "141", done.stderr


def test_check_tells_all_and_connects_on_request(tmp_path: Path, server: Server) -> None:
    path = config(tmp_path, server.base_url)
    done = recompact("check", path, "--connect")
    assert done.returncode == 0, done.stderr
    assert "4 tasks" in done.stdout
    assert "model reader answered" in done.stdout
    path.write_text("[run]\nsteplimit = 1\n[agent]\nmodle = 'x'\n")
    told = json.loads(recompact("check", path, "--json").stdout)["problems"]
    assert len(told) == 2


def test_check_finds_whatever_a_later_command_would_stumble_over(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(
        "[suite]\nuse = 'poket'\n[agent]\nmodel = 'luna'\n[compressor]\nkind = 'lifo'\ntemplate = 'nowhere'\n"
        "[adapt]\nmethod = 'par'\n[adapt.options]\nx = 1\n"
    )
    done = recompact("check", path, "--json")
    assert done.returncode == 2
    told = json.loads(done.stdout)["problems"]
    for place in (
        "line 4: [agent] model",
        "line 7: [compressor] template",
        "line 2: [suite] use",
        "line 6: [compressor] kind",
    ):
        assert sum(problem.startswith(place) for problem in told) == 1, told
    assert told[-1].startswith("line 9: [adapt] method: there is no method 'par'; did you mean 'pair'?")
    assert len(told) == 5
    path.write_text("[models.m]\nbase_url = 'http://127.0.0.1:9/v1'\n[agent]\nmodel = 'm'\n")
    done = recompact("check", path)
    assert done.returncode == 2
    assert "line 1: [models] m: a model at a server needs its `id`" in done.stderr


def test_keys_reach_neither_the_store_nor_the_screen(tmp_path: Path, server: Server) -> None:
    secret = {"OPENAI_API_KEY": "sk-very-secret-0123456789"}
    path = config(tmp_path, server.base_url)
    done = recompact("collect", path, env=secret)
    assert done.returncode == 0
    bad = recompact("collect", config(tmp_path, server.base_url, agent="nobody"), "--run", "bad", env=secret)
    for text in (done.stdout, done.stderr, bad.stdout, bad.stderr):
        assert "sk-very-secret" not in text
    for file in (tmp_path / "runs").iterdir():
        assert b"sk-very-secret" not in file.read_bytes()


def test_a_ctrl_c_that_an_import_swallows_is_not_lost() -> None:
    for presses in (1, 2):
        with pytest.raises(KeyboardInterrupt), interrupted_later():
            for _ in range(presses):
                with contextlib.suppress(BaseException):  # as Python does in the callbacks of an import
                    signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
