"""Code of an agent that means harm: its episode ends with a recorded reason, and nobody else notices anything."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from appworld_support import CREATE, DONE, NOTE, hosted, login, miniature, run
from needs import needs

from recompact.environments.protocol import EnvironmentFailed
from recompact.environments.sandbox import HostLimits

pytestmark = needs("appworld", "bubblewrap")

MIB = 1024**2

# The engine's guard takes the usual functions away, so this code takes the ones below them.
READ = """
def contents(path):
    posix = __import__('posix')
    descriptor = posix.open(path, 0)
    text = posix.read(descriptor, 100000)
    posix.close(descriptor)
    return text
"""
WALK = """
posix = __import__('posix')
def below(place, depth=6):
    try:
        names = posix.listdir(place)
    except Exception:
        return
    for name in names:
        path = place.rstrip('/') + '/' + name
        yield path
        if depth and not path.startswith(('/proc', '/sys', '/usr', '/lib')):
            yield from below(path, depth - 1)
paths = list(below('/'))
print(len(paths) > 50, [path for path in paths if 'ground_truth' in path and '/appworld/' not in path])
print([path for path in paths if path.endswith(('answer.json', 'evaluation.py', 'private_data.json'))])
"""

ENDED = {  # what is done -> the reason that is recorded
    "an endless loop that swallows its timeout": (
        "while True:\n    try:\n        for n in iter(int, 1): n += 1\n    except BaseException: n = 0",
        "step took longer than 45 s and its host was killed",
    ),
    "an end of the process": ("posix = __import__('posix')\nposix._exit(7)", "its host died during step"),
}
ANSWERED = {  # what is done -> what is observed; the episode goes on
    "an endless loop": ("while True: pass", "timed out after 5 seconds"),
    "a KeyboardInterrupt": ("raise KeyboardInterrupt('now')", "KeyboardInterrupt"),
    "a SystemExit": ("raise SystemExit(3)", "Exit"),
    "50 MB of output": ("for _ in range(50): print('x' * 1_000_000)", "characters left out"),
    "a file outside": (f"{READ}\nprint(contents('/etc/shadow'))", "FileNotFoundError"),
    "a write outside": ("posix = __import__('posix')\nposix.open('/usr/mine', 65)", "Read-only file system"),
    "a look for the answers": (WALK, "True []\n[]"),
    "an open file": ("print(open('/etc/passwd').read())", "Execution failed"),
    "a fork": ("posix = __import__('posix')\nposix.fork()", "os.fork is not allowed here"),
    "a program": ("__import__('posix').system('id')", "os.system is not allowed here"),
    "another program": ("__import__('_posixsubprocess')\n__import__('subprocess').Popen(['id'])", "Execution"),
    "a library": ("__import__('ctypes').CDLL(None)", "ctypes.dlopen is not allowed here"),
    "memory without bound": (
        "def fill():\n    x = []\n    while True: x.append(bytearray(50_000_000))\nfill()",
        "MemoryError",
    ),
}


def fingerprint(place: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(place.rglob("*")):
        total.update(f"{path.relative_to(place)} {path.lstat().st_mode}".encode())
        total.update(path.read_bytes() if path.is_file() else b"")
    return total.hexdigest()


async def test_hostile_code_beside_calm_episodes() -> None:
    """All of it in branches of one process: those that share its sandbox go on as if nothing had happened."""
    limits = HostLimits(memory=1200 * MIB, processes=64, file=16 * MIB, message=16 * MIB)
    suite = hosted({"seconds": 5}, timeout=45, limits=limits)
    before = fingerprint(miniature())
    original = suite.episode(CREATE)
    await original.start()
    await original.step(login())
    snapshot = await original.snapshot()
    assert snapshot is not None
    problems = []
    for name, (code, text) in {**ENDED, **ANSWERED}.items():
        branch = suite.episode(CREATE)
        await branch.start()
        await branch.restore(snapshot)
        try:
            observation = await branch.step(run(code))
            good = name in ANSWERED and text in observation.text and not observation.done
            good = good and len(observation.text) < 200_000
            if good:  # the world is still in order
                good = (await branch.step(NOTE)).text.startswith('{"message"') and (await branch.step(DONE)).done
            if not good:
                problems.append((name, observation.text[:300]))
        except EnvironmentFailed as failure:
            if name not in ENDED or text not in str(failure):
                problems.append((name, str(failure)))
        await branch.close()
    assert problems == []
    assert not (await original.step(NOTE)).error
    assert (await original.step(DONE)).done
    assert (await original.score()).success
    await original.close()
    assert fingerprint(miniature()) == before


async def test_a_full_disk_ends_the_episode_and_gives_the_space_back() -> None:
    suite = hosted(timeout=60, limits=HostLimits(disk=64 * MIB))
    episode = suite.episode(CREATE)
    await episode.start()
    fill = """
posix = __import__('posix')
for number in range(100000):
    descriptor = posix.open(f'/tmp/fill{number}', 65)
    for _ in range(20): posix.write(descriptor, bytes(1_000_000))
    posix.close(descriptor)
"""
    with pytest.raises(EnvironmentFailed, match="it wrote more than 67,108,864 bytes to its directories"):
        await episode.step(run(fill))
    await episode.close()
