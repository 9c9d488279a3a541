"""Commands of an agent that means harm: each ends with an error or a recorded reason, and nothing outside changes."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from needs import OFFICEBENCH, needs
from officebench_support import Player, playing

from recompact.environments.shell import CommandLimits, Shell

pytestmark = needs("officebench", "bubblewrap")


@pytest.fixture
def player() -> Iterator[Player]:
    with playing("1-4/0") as player:
        yield player


def command(player: Player, text: str) -> str:
    return player.do("shell.command", command=text).text


def processes() -> set[str]:
    return {name for name in os.listdir("/proc") if name.isdigit()}


def processes_like(mark: str) -> list[str]:
    """Processes whose command line has the mark in it."""
    lines = []
    for pid in processes():
        try:
            lines.append(Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return [line for line in lines if mark in line]


def test_an_endless_loop_is_stopped() -> None:
    with playing("1-4/0", shell_timeout=1.0) as player:
        assert "the command was stopped: it took longer than 1 s" in player.refused(
            "shell.command", command="echo begun; while :; do :; done"
        )
        assert player.finish() is False


def test_too_many_processes_are_stopped_and_leave_nothing(player: Player) -> None:
    mark = f"sleep\x0060.0{os.getpid()}"
    text = player.refused("shell.command", command=f"for n in $(seq 300); do sleep 60.0{os.getpid()} & done; sleep 60")
    assert "it started more than 64 processes" in text
    assert processes_like(mark) == []
    assert player.ok("shell.command", command="echo alive").startswith("alive")


@needs("process limit")
def test_a_fork_bomb_is_stopped_and_leaves_nothing(player: Player) -> None:
    mark = f"bomb-{os.getpid()}"
    text = player.refused("shell.command", command=f"{{ bomb() {{ bomb | bomb & }}; bomb; }}; sleep 60; : {mark}")
    assert "it started more than 64 processes" in text
    assert processes_like(mark) == []
    assert player.ok("shell.command", command="echo alive").startswith("alive")


def test_a_process_that_daemonizes_dies_with_its_command(player: Player) -> None:
    mark = f"daemon-{os.getpid()}"
    player.ok(
        "shell.command", command=f"setsid nohup sh -c 'sleep 1; touch data/late; : {mark}' >/dev/null 2>&1 & exit 0"
    )
    assert processes_like(mark) == []
    time.sleep(1.2)
    assert not (player.testbed / "data" / "late").exists()


def test_killing_everything_kills_only_itself(player: Player) -> None:
    player.do("shell.command", command="kill -INT $PPID; kill -KILL -1; kill -KILL 1")
    assert player.ok("shell.command", command="echo alive").startswith("alive")


@pytest.mark.parametrize(
    "text",
    [
        "for n in $(seq 1000); do head -c 20M /dev/zero > data/fill$n; done",
        "for n in $(seq 1000); do head -c 20M /dev/zero > /tmp/fill$n; done",
        pytest.param("cd data; seq 1 100000 | split -l 1 -a 5 -", marks=pytest.mark.slow),
        pytest.param("mkdir -p data/deep/{1..9}/{1..9}/{1..9}/{1..9}", marks=pytest.mark.slow),
    ],
)
def test_filling_the_disk_ends_the_episode(player: Player, text: str) -> None:
    observation = player.do("shell.command", command=text)
    assert observation.error
    assert observation.done
    assert "the episode is ended: the testbed has more than" in observation.text
    score = player.environment.score()
    assert not score.success
    assert "the testbed has more than" in score.details["reason"]
    assert (
        sum(1 for _ in player.environment.directory.rglob("*")) == 2
    )  # the space is given back: two empty directories
    assert player.do("shell.command", command="ls").done


def test_a_file_has_a_largest_size(player: Player) -> None:
    assert "failed with exit code" in command(player, "dd if=/dev/zero of=data/big bs=1M count=500")
    assert (player.testbed / "data" / "big").stat().st_size <= 32 * 1024 * 1024
    assert "alive" in player.ok("shell.command", command="rm data/big; echo alive")


@pytest.mark.slow
def test_memory_is_limited(player: Player) -> None:
    text = player.refused("shell.command", command="head -c 1500M /dev/zero | tail -n 1 | wc -c; exit ${PIPESTATUS[1]}")
    assert "failed with exit code" in text or "it used more than" in text  # whoever notices first


def test_printing_fifty_megabytes_is_cut(player: Player) -> None:
    text = player.refused("shell.command", command="yes hello | head -c 50000000")
    assert "it printed more than" in text
    assert len(text) < 15_000


def test_a_long_output_is_shown_in_part(player: Player) -> None:
    text = player.ok("shell.command", command="yes hello | head -c 30000")
    assert "[cut: 20,000 more characters]" in text


def test_output_that_is_no_text_is_shown_somehow(player: Player) -> None:
    assert "�" in player.ok("shell.command", command="head -c 300 /dev/urandom; printf '\\xff'")


@pytest.mark.parametrize(
    "text",
    [
        "cat /etc/shadow",
        "cat /etc/passwd",
        "ls /root",
        "ls /home",
        "cat /proc/1/environ | grep -a canary",
        "ls /var/log",
    ],
)
def test_nothing_outside_can_be_read(player: Player, text: str) -> None:
    assert "failed with exit code" in player.refused("shell.command", command=text)


def test_the_answers_and_the_grader_are_not_there(player: Player) -> None:
    found = command(
        player,
        "find / -name expected.json -o -path '*subtasks*' -o -name evaluator.py 2>/dev/null | head",
    )
    assert "/expected.json" not in found
    assert "subtasks" not in found
    assert "evaluator.py" not in found
    assert command(player, f"ls {OFFICEBENCH.resolve()}").startswith("Error")
    assert command(player, f"ls {Path(__file__).resolve().parent}").startswith("Error")


def test_a_place_among_the_programs_can_be_hidden(tmp_path: Path) -> None:
    """As the tree and recompact itself are, where they are installed below /usr."""
    (tmp_path / "testbed").mkdir()
    shell = Shell.of_this_machine(False, "/testbed", CommandLimits(), hidden=[Path("/usr/share")])
    outcome = shell.run("ls /usr/share; touch /usr/share/new", tmp_path / "testbed")
    assert outcome.output.startswith("touch:")
    assert outcome.code


def test_a_command_that_is_too_long_is_refused(player: Player) -> None:
    assert "at most 100,000 bytes" in player.refused("shell.command", command="#" + "x" * 100_000)


def test_no_variable_of_ours_is_seen(player: Player, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary-123")
    seen = command(player, "env; cat /proc/*/environ | tr '\\0' '\\n'")
    assert "canary-123" not in seen
    assert "PATH=" in seen


def test_there_is_no_network(player: Player) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        text = player.refused("shell.command", command=f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected")
        assert "connected" not in text.replace("unconnected", "")


def test_only_the_testbed_and_tmp_are_writable(player: Player) -> None:
    """Also for a harness that runs as root: the kernel's settings in /proc would be its own."""
    seen = command(
        player, "find / -path /testbed -prune -o -path /tmp -prune -o -writable ! -type l -print 2>/dev/null"
    )
    places = [line for line in seen.splitlines() if line.startswith("/")]
    nulls = ("/proc/keys", "/proc/key-users")  # /dev/null stands there: it takes everything and keeps nothing
    assert [place for place in places if not place.startswith("/dev/") and place not in nulls] == []
    command(player, "echo mark > /proc/keys")
    assert "mark" not in command(player, "cat /proc/keys")
    assert "/dev/shm" not in places


def test_links_to_the_outside_lead_nowhere(player: Player, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    assert command(player, f"ln -s {secret} data/link; cat data/link").startswith("Error")
    assert command(player, f"ln {secret} data/hard").startswith("Error")


def test_ignoring_signals_does_not_help() -> None:
    with playing("1-4/0", shell_timeout=1.0) as player:
        text = player.refused("shell.command", command="trap '' TERM INT HUP; while :; do sleep 0.1; done")
        assert "took longer than 1 s" in text


def test_a_shell_without_bubblewrap_is_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from recompact.environments import shell as sandbox

    monkeypatch.setattr(sandbox, "find_bubblewrap", lambda: (None, "bubblewrap (bwrap) is not installed"))
    with playing("1-3/3") as player:
        assert "not installed; unsafe_shell = true in [suite.options]" in caplog.text
        assert "shell" not in player.environment.start().prefix[1].content
        assert "the shell is not available on this machine" in player.refused("system.switch_app", target_app="shell")
        assert "the shell is not available on this machine" in player.refused("shell.command", command="true")
        assert player.finish() is False
        assert "not installed" in player.environment.score().details["shell"]
    with playing("1-3/3", unsafe_shell=True) as player:
        monkeypatch.setenv("OPENAI_API_KEY", "canary-123")
        assert "canary" not in player.ok("shell.command", command="env")
        player.ok("shell.command", command="rm data/file3.xlsx")
        assert player.finish() is True
