"""What a trial of Harbor needs without containers: an environment that is this machine, and an agent of Harbor's."""

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from harbor.agents.base import BaseAgent
from harbor.environments.base import BaseEnvironment, ExecResult


class Here(BaseEnvironment):
    """A directory of this machine. Harbor's absolute paths are below it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.root = Path(tempfile.mkdtemp())

    @staticmethod
    def type() -> str:
        return "here"

    def _validate_definition(self) -> None: ...

    def is_path_mounted(self, *paths: Any) -> bool:
        return False

    def _path(self, path: str) -> Path:
        return self.root / str(path).lstrip("/")

    async def start(self, force_build: bool) -> None:
        shutil.copytree(self.environment_dir / "files", self._path("/workspace"))
        for place in ("/logs/agent", "/logs/verifier", "/logs/artifacts"):
            self._path(place).mkdir(parents=True)

    async def stop(self, delete: bool) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    async def upload_file(self, source_path: Any, target_path: str) -> None:
        self._path(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source_path, self._path(target_path))

    async def upload_dir(self, source_dir: Any, target_dir: str) -> None:
        shutil.copytree(source_dir, self._path(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path: str, target_path: Any) -> None:
        Path(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self._path(source_path), target_path)

    async def download_dir(self, source_dir: str, target_dir: Any) -> None:
        if self._path(source_dir).is_dir():
            shutil.copytree(self._path(source_dir), target_dir, dirs_exist_ok=True)

    async def exec(self, command: str, cwd: Any = None, env: Any = None, **others: Any) -> ExecResult:
        for place in ("/tests", "/logs", "/workspace", "/solution"):
            command = command.replace(place, str(self._path(place)))
        places = {"TESTS": "/tests", "LOGS": "/logs/verifier", "WORKSPACE": "/workspace"}
        variables = {**os.environ, **(env or {}), **{name: str(self._path(path)) for name, path in places.items()}}
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_shell(
            command, cwd=self._path("/workspace"), env=variables, stdout=pipe, stderr=pipe
        )
        out, err = await process.communicate()
        return ExecResult(stdout=out.decode(), stderr=err.decode(), return_code=process.returncode or 0)


class Small(BaseAgent):
    """An agent of Harbor's that runs a program in the environment, with the variables it was given."""

    @staticmethod
    def name() -> str:
        return "small"

    def version(self) -> str:
        return "1"

    def __init__(self, *arguments: Any, program: str, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.program = program

    async def setup(self, environment: Any) -> None: ...

    async def run(self, instruction: str, environment: Any, context: Any) -> None:
        command = f"{sys.executable} {self.program} chat stream 'Read the notes.'"
        done = await environment.exec(command, env=self._extra_env)
        if done.return_code:
            raise RuntimeError(done.stderr)
