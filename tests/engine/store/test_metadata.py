"""The metadata of a run: what is written is read back, and what is not ours stays."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from hypothesis import given, strategies as st
from run_files import change_rows

from recompact.engine.store.metadata import RunMetadata
from recompact.engine.store.store import Store

_TEXTS = st.text(max_size=8)
_TABLES = st.dictionaries(_TEXTS, st.integers() | _TEXTS, max_size=3)
_METADATA = st.builds(
    RunMetadata,
    command=_TEXTS,
    suite=_TEXTS,
    version=_TEXTS,
    config_hash=_TEXTS,
    config_file=_TEXTS,
    identity=_TABLES,
    verified=st.none() | st.dictionaries(_TEXTS, st.integers(), min_size=1, max_size=2),
    arms=st.dictionaries(_TEXTS, _TABLES, max_size=2),
    arm_order=st.lists(_TEXTS, max_size=3).map(tuple),
    fingerprint=st.dictionaries(_TEXTS, _TEXTS, max_size=2),
    suite_changes=st.lists(_TABLES, max_size=2).map(tuple),
    templates=st.dictionaries(_TEXTS, st.dictionaries(_TEXTS, _TEXTS, max_size=2), max_size=2),
    adaptations=st.dictionaries(_TEXTS, _TABLES, max_size=2),
    others=st.dictionaries(st.text(max_size=8).map("x-{}".format), st.integers(), max_size=2),
)


@given(_METADATA)
def test_json_and_back_is_the_same(metadata: RunMetadata) -> None:
    assert RunMetadata.from_json(json.loads(json.dumps(metadata.to_json()))) == metadata


def test_keys_of_another_version_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with Store.open(path) as store:
        store.set_metadata(RunMetadata(command="collect", verified={"hazard": 0.5}))
    change_rows(path, """INSERT INTO meta VALUES ('later', '{"a":1}', 0)""")
    with Store.open(path) as store:
        store.set_metadata(replace(store.metadata, suite="office", verified=None))
        assert store.metadata == RunMetadata(command="collect", suite="office", others={"later": {"a": 1}})


def test_what_a_run_began_with_is_read_off_its_identity() -> None:
    identity = {"run": {"step_limit": 30, "seed": 7}, "suite": {"split": "dev"}, "template": "abc"}
    metadata = RunMetadata(identity=identity)
    assert (metadata.step_limit, metadata.seed, metadata.split, metadata.template) == (30, 7, "dev", "abc")
    assert RunMetadata().template == ""
