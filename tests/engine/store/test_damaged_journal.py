"""A journaled reply that is damaged, or that an older version kept as it came: its unit is set aside, others go on."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import fakes
import pytest
from commands import Done, reading_config, recompact, served
from fakes import Noter, Reader
from run_files import change_rows, select_rows

from recompact.engine.store.store import Store

Damage = Callable[[Path], None]


def message(text: str) -> Damage:
    """A reply whose message is this text, under its own hash, as an older version might have kept it."""

    def damage(path: Path) -> None:
        import hashlib

        raw = text.encode("utf-8", "surrogatepass")
        key = hashlib.sha256(raw).digest()
        change_rows(path, "INSERT OR IGNORE INTO texts VALUES (?, 0, ?)", (key, raw))
        change_rows(path, "UPDATE calls SET message = ? WHERE unit = 'collect/book-001' AND ordinal = 3", (key,))

    return damage


def column(name: str, value: object, seal: bool = True) -> Damage:
    def damage(path: Path) -> None:
        where = "unit = 'collect/book-001' AND ordinal = 3"
        change_rows(path, f"UPDATE calls SET {name} = ? WHERE {where}", (value,), seal=seal)

    return damage


def calling(id: object = "c", name: object = "look", arguments: object = '{"page": 4}') -> str:
    return json.dumps({"role": "assistant", "content": "", "calls": [[id, name, arguments]]})


def packed_badly(path: Path) -> None:
    change_rows(path, "INSERT INTO texts VALUES (?, 1, ?)", (b"\1" * 32, zlib.compress(b"x" * 500)[:9]))
    column("message", b"\1" * 32)(path)


DAMAGES: dict[str, Damage] = {
    "980 brackets": message(calling(arguments='{"page": ' + "[" * 980 + "]" * 980 + "}")),
    "an id that is an object": message(calling(id={"a": 1})),
    "half a character in an id": message(calling(id="c\ud800").replace("\\ud800", "\ud800")),
    "half a character in a name": message(calling(name="look\ud800").replace("\\ud800", "\ud800")),
    "arguments that are an object": message(calling(arguments={"page": 4})),
    "a call of two": message(json.dumps({"role": "assistant", "content": "", "calls": [["c", "look"]]})),
    "no content": message(json.dumps({"role": "assistant"})),
    "no object": message("[]"),
    "no JSON": message("{"),
    "5,000 levels": message("[" * 5000),
    "a text that is not there": column("message", b"\0" * 32),
    "a hash that is a number": column("message", 7),
    "negative usage": column("input", -5),
    "usage that is a text": column("output", "many"),
    "a finish that is none": column("finish", "odd"),
    "notes that are no list": column("notes", "7"),
    "a text that does not unpack": packed_badly,
    "another checksum": column("checksum", 7, seal=False),
    "other usage": column("input", 5, seal=False),
}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of a run that was killed when two of its four units were half done."""
    home = tmp_path_factory.mktemp("killed")
    with served({"reader": Reader(), "noter": Noter()}) as server:
        config = home / "pages.toml"
        config.write_text(reading_config(f"{fakes.__file__}:pages_suite_4", server.base_url))
        assert recompact("collect", config).returncode == 0
        with Store.open(home / "runs" / "pages.db") as store:
            for unit in ("collect/book-001", "collect/book-002"):
                store.reopen(unit)
        yield home


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
def test_the_unit_is_set_aside_with_its_reason_and_the_others_finish(
    damage: Damage, killed: Path, tmp_path: Path
) -> None:
    home = shutil.copytree(killed, tmp_path / "home")
    config, path = home / "pages.toml", home / "runs" / "pages.db"
    with Store.open(path) as store:
        spent = store.spent()
    damage(path)
    for _ in range(2):
        ended = recompact("collect", config)
        assert ended.returncode == 1, ended.stderr
        assert "collect/book-001 (set aside)" in ended.stderr
        assert "reply 4 of" in ended.stderr
        assert "--skip book-001" in ended.stderr
        assert "--retry" in ended.stderr
        assert "Traceback" not in ended.stderr
        assert finished(path) == ["book-000", "book-002", "book-003"]
    assert server_calls(path) == 4 * 12  # nothing was asked again
    skipped = recompact("collect", config, "--skip", "book-001")
    assert skipped.returncode == 0, skipped.stderr
    assert "book-001" in skipped.stderr
    with Store.open(path) as store:
        assert store.spent().keys() == spent.keys()


def test_what_was_set_aside_is_played_again_when_asked_and_its_calls_stay_paid(tmp_path: Path) -> None:
    with served({"reader": Reader(), "noter": Noter()}) as server:
        config = tmp_path / "pages.toml"
        config.write_text(reading_config(f"{fakes.__file__}:pages_suite_4", server.base_url))
        path = tmp_path / "runs" / "pages.db"
        whole = digest(recompact("collect", config))
        with Store.open(path) as store:
            store.reopen("collect/book-001")
        DAMAGES["an id that is an object"](path)
        assert recompact("collect", config).returncode == 1
        runs = recompact("runs", "--dir", path.parent)
        assert "1 unit set aside" in runs.stdout
        again = recompact("collect", config, "--retry")
        assert again.returncode == 0, again.stderr
        assert digest(again) == whole
        with Store.read(path) as store:
            paid = sum(usage.calls for usage in store.spent().values())
        assert paid == 4 * 12 + (12 - 3)  # the calls from the damaged one on were made twice


def digest(ended: Done) -> str:
    return next(line for line in (ended.stdout + ended.stderr).splitlines() if line.startswith("digest: "))


def finished(path: Path) -> list[str]:
    with Store.read(path) as store:
        return [row["task"] for row in select_rows(store, "SELECT task FROM trajectories ORDER BY task")]


def server_calls(path: Path) -> int:
    with Store.read(path) as store:
        return int(select_rows(store, "SELECT count(*) AS n FROM calls")[0]["n"])
