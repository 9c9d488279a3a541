"""[cluster]: what is sent to the nodes, where they find the suite, and what an actor is asked for."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from needs import require

from recompact.environments.cluster.actor import RemoteSuite
from recompact.environments.cluster.connection import Connection
from recompact.environments.cluster.settings import ClusterSettings, directory_there, runtime_env_of
from recompact.environments.host_process import HostSettings
from recompact.errors import InputError
from recompact.version import install_command


def test_a_directory_is_at_the_same_path_or_in_what_was_sent(tmp_path: Path) -> None:
    study = tmp_path / "project" / "study"
    study.mkdir(parents=True)
    plain = ClusterSettings(runtime_env={"pip": ["numpy"]})
    assert directory_there(plain, study) == study
    assert runtime_env_of(plain, study, "runs") == {"pip": ["numpy"]}
    above = ClusterSettings(runtime_env={"working_dir": "..", "excludes": ["*.tmp"]})
    assert directory_there(above, study) == Path("study")
    sent = runtime_env_of(above, study, "runs")  # the run holds everything, and grows
    assert sent == {"working_dir": str(tmp_path / "project"), "excludes": ["*.tmp", "/study/runs"]}
    archive = ClusterSettings(runtime_env={"working_dir": "s3://bucket/study.zip"})
    assert directory_there(archive, study) == study
    assert runtime_env_of(archive, study, str(tmp_path)) == archive.runtime_env
    assert runtime_env_of(above, study, str(tmp_path / "elsewhere"))["excludes"] == ["*.tmp"]


def test_an_actor_has_hosts_under_its_own_python_unless_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = HostSettings("pocket", directory=Path("sent/study"), python="/there/only/python", sandbox="off")
    suite = RemoteSuite(settings, own_python=False).suite()
    assert (suite.python, suite.directory) == (sys.executable, tmp_path / "sent" / "study")
    graded = RemoteSuite(settings, own_python=True, grader={"answers": True}).suite()
    assert graded.python == "/there/only/python"
    assert graded.grader is not None
    assert graded.grader.options == {"answers": True}


def test_a_client_address_is_refused_and_ray_is_asked_for_by_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=re.escape(install_command("ray"))):
        Connection(ClusterSettings()).open()
    monkeypatch.undo()
    require("ray")
    with pytest.raises(InputError, match="ray://"):
        Connection(ClusterSettings("ray://head:10001")).open()
