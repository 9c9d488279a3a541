"""Runs inside an agent's sandbox, before it: opens the port of the gateway there and hands it out to the harness.

A socket belongs to the network that it was opened in. So the agent reaches the gateway at a port of its own loopback,
nothing else, and no process has to stand between them. Needs nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import sys

FILES = "/run/recompact/home"
"""Where a sandbox shows what is to be in a home that is only memory."""


def main() -> None:
    channel, port, limits, *command = sys.argv[1:]
    if channel != "-":
        if os.path.isdir(FILES):
            shutil.copytree(FILES, os.environ["HOME"], dirs_exist_ok=True)
        with socket.socket(fileno=int(channel)) as handover, socket.socket() as listener:
            listener.bind(("127.0.0.1", int(port)))
            listener.listen(128)
            socket.send_fds(handover, [b"port"], [listener.fileno()])
    with contextlib.suppress(ImportError, OSError, AttributeError, KeyError):  # the user's may hold passwords
        import ctypes

        number = {"x86_64": 250, "aarch64": 219, "riscv64": 219}[os.uname().machine]  # of the system call keyctl
        ctypes.CDLL(None).syscall(number, 1, None)  # join a new session keyring
    import resource

    for name, value in json.loads(limits).items():
        with contextlib.suppress(ValueError, OSError, AttributeError):
            kind = getattr(resource, f"RLIMIT_{name}")
            most = resource.getrlimit(kind)[1]
            least = value if most == resource.RLIM_INFINITY else min(value, most)
            resource.setrlimit(kind, (least, least))
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]} cannot be run: {error.strerror}", file=sys.stderr)
        sys.exit(127)


if __name__ == "__main__":
    main()
