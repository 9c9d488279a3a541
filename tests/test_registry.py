"""Plug-ins are found by name wherever they come from, and a mistake names what would be right."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from annotated_types import Gt
from hypothesis import given, strategies as st

from recompact import registry
from recompact.adaptation.method import METHODS, Method, load_method
from recompact.compressors.protocol import CompressorInputs, CompressorKind
from recompact.compressors.registry import COMPRESSORS, load_compressor
from recompact.engine.config import ModelConfig
from recompact.environments.loading import SUITES, load_suite
from recompact.errors import InputError, OptionError
from recompact.harnesses.registry import transcript_readers
from recompact.models.protocol import MODELS, load_model
from recompact.registry import Registry, build, from_file
from recompact.suites.pocket import PocketSuite
from recompact.values.template import default_template

TOOLS = Registry("tool", "recompact.tools_of_a_test", {"hammer": "pathlib:Path", "saw": "pathlib:PurePath"})


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Installs a package: its modules, and what its metadata declares."""
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    before = set(sys.modules)

    def install(group: str, declared: dict[str, str], **modules: str) -> None:
        info = tmp_path / "site" / "box-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: box\nVersion: 1.0\n")
        lines = [f"{name} = {target}" for name, target in declared.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
        for module, text in modules.items():
            (tmp_path / "site" / f"{module}.py").write_text(text)
        registry._declared_plugins.cache_clear()

    yield install
    registry._declared_plugins.cache_clear()
    for name in set(sys.modules) - before:
        if name.startswith("box"):
            del sys.modules[name]


# --- readers of transcripts


def test_an_installed_harness_brings_its_reader(installed: Callable[..., None]) -> None:
    installed(
        "recompact.harnesses",
        {"box": "box_harness:HARNESS"},
        box_harness="""
from recompact.harnesses.registry import Harness
from recompact.harnesses.transcripts.reader import Reader
READER = Reader("box", lambda sample, path: sample == ["box"], lambda records, tally: iter(()), ())
HARNESS = Harness("box", "Box", lambda template, budget: None, reader=READER)
""",
    )
    readers = transcript_readers()
    assert [reader.harness for reader in readers][:2] == ["box", "claude-code"]
    from recompact.harnesses.transcripts.registry import reader_of

    box = reader_of(["box"], Path("x.jsonl"), readers)
    assert box is not None
    assert box.harness == "box"


# --- names


def test_built_in_names_need_nothing_else() -> None:
    assert TOOLS.find("hammer") is Path
    assert TOOLS.names() == ("hammer", "saw")


def test_installed_packages_are_found_by_what_they_declare(installed: Callable[..., None]) -> None:
    declared = {"drill": "box_tools:drill", "hammer": "box_tools:drill", "gone": "box_nowhere:x", "bad": "box_bad:x"}
    installed(TOOLS.group, declared, box_tools="def drill():\n    return 'brrr'\n", box_bad="raise OSError('no')")
    assert TOOLS.names() == ("hammer", "saw", "drill", "gone", "bad")
    assert TOOLS.find("drill")() == "brrr"
    assert TOOLS.find("hammer") is Path  # nobody takes the name of a built-in one
    with pytest.raises(InputError, match=r"tool 'gone' \(box_nowhere:x\) could not be loaded: ModuleNotFoundError"):
        TOOLS.find("gone")
    with pytest.raises(InputError, match=r"tool 'bad' \(box_bad:x\) could not be loaded: OSError: no"):
        TOOLS.find("bad")
    with pytest.raises(InputError, match="did you mean 'drill'"):
        TOOLS.find("dril")


def test_a_file_of_ones_own_is_found_from_the_configs_directory(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from dataclasses import dataclass\n\n@dataclass\nclass Tool:\n    size: int = 3\n")
    found = TOOLS.find("mine.py:Tool", tmp_path)
    assert found().size == 3
    assert TOOLS.find("mine.py:Tool", tmp_path) is found  # loaded once
    assert TOOLS.find(f"{file}:Tool") is found
    file.write_text("class Tool:\n    size = 44\n")
    assert TOOLS.find("mine.py:Tool", tmp_path)().size == 44  # another version of the file


def test_a_module_is_found_without_a_declaration(installed: Callable[..., None]) -> None:
    installed("somebody.else", {}, box_plain="tool = 5\n")
    assert TOOLS.find("box_plain:tool") == 5
    assert TOOLS.find("os.path:join")("a", "b") == str(Path("a", "b"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hamer", "there is no tool 'hamer'; did you mean 'hammer'?; one of your own is file.py:name"),
        ("xyzzy", "there is no tool 'xyzzy'; there are hammer, saw; one of your own"),
        ("", "there is no tool ''"),
        ("mine.py:", "there is no tool 'mine.py:'"),
        (":tool", "there is no tool ':tool'"),
        ("no_such_module:x", "tool 'no_such_module:x': no module 'no_such_module' can be imported"),
        ("os.path:nowhere", "tool 'os.path:nowhere': os.path has no 'nowhere'"),
        ("missing.py:x", "tool 'missing.py:x': there is no file"),
        ("broken.py:x", "broken.py could not be loaded: ZeroDivisionError: division by zero (broken.py:1)"),
        ("wrong.py:x", "wrong.py could not be loaded: SyntaxError"),
        ("fine.py:y", "tool 'fine.py:y': fine.py has no 'y'"),
    ],
)
def test_a_name_that_stands_for_nothing_says_why(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "wrong.py").write_text("def\n")
    (tmp_path / "fine.py").write_text("x = 1\n")
    with pytest.raises(InputError) as caught:
        TOOLS.find(name, tmp_path)
    assert said in str(caught.value)


def test_a_file_that_failed_is_tried_again(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("1 / 0\n")
    for _ in range(2):
        with pytest.raises(InputError, match="ZeroDivisionError"):
            from_file(file)
    file.write_text("x = 1\n")
    assert from_file(file).x == 1


# --- options


def saw(teeth: int, speed: float = 1.0, *, sharp: bool = True) -> tuple[Any, ...]:
    if teeth < 1:
        raise ValueError("a saw has teeth")
    return teeth, speed, sharp


@pytest.mark.parametrize(
    ("options", "said", "key"),
    [
        ({"teeth": 3, "sped": 2}, "there is no option 'sped'; did you mean 'speed'?", "sped"),
        ({"teeth": 3, "xyzzy": 2}, "there is no option 'xyzzy'; it takes teeth, speed, sharp", "xyzzy"),
        ({"speed": 2}, "the option 'teeth' is needed", None),
        ({"teeth": 0}, "the options are not accepted: a saw has teeth", None),
        ({"teeth": "many"}, "the option 'teeth' must be a whole number", "teeth"),
        ({"teeth": True}, "the option 'teeth' must be a whole number", "teeth"),
        ({"teeth": 3, "speed": "fast"}, "the option 'speed' must be a number", "speed"),
        ({"teeth": 3, "sharp": 1}, "the option 'sharp' must be true or false", "sharp"),
    ],
)
def test_options_that_do_not_fit_are_named(options: dict[str, Any], said: str, key: str | None) -> None:
    with pytest.raises(OptionError) as caught:
        build(saw, options)
    assert said in str(caught.value)
    assert caught.value.key == key


def test_annotations_of_plain_values_are_checked_and_nothing_is_converted() -> None:
    def sawmill(
        kind: Literal["band", "chain"] = "band", size: Annotated[int, Gt(0)] | None = None, at: Path = Path()
    ) -> tuple[Any, ...]:
        return kind, size, at

    assert build(sawmill, {"kind": "chain", "size": 3, "at": "here"}) == ("chain", 3, "here")
    assert build(sawmill, {"size": None}) == ("band", None, Path())
    for options, said in (
        ({"kind": "circular"}, "the option 'kind' must be 'band' or 'chain'"),
        ({"size": 0}, "the option 'size' must be greater than 0"),
        ({"size": "secret"}, "the option 'size' must be a whole number"),
    ):
        with pytest.raises(OptionError) as caught:
            build(sawmill, options)
        assert str(caught.value) == said  # and not what was given, which may be a key


def test_annotations_that_cannot_be_read_exclude_nothing() -> None:
    if TYPE_CHECKING:
        from nowhere import Wood  # type: ignore[import-not-found]

    def cut(wood: Wood, length: int = 1) -> tuple[Any, ...]:
        return wood, length

    assert build(cut, {"wood": "oak", "length": "long"}) == ("oak", "long")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=3))
def test_an_option_is_given_as_it_is_or_refused_by_its_name(value: Any) -> None:
    def takes(number: int | None = None) -> Any:
        return number

    if value is None or type(value) is int:
        assert build(takes, {"number": value}) is value
        return
    with pytest.raises(OptionError) as caught:
        build(takes, {"number": value})
    assert caught.value.key == "number"


def test_what_is_offered_is_given_to_those_who_ask_and_is_no_option() -> None:
    assert build(saw, {"teeth": 3}, endpoint="here") == (3, 1.0, True)
    assert build(lambda endpoint, n=1: (endpoint, n), {"n": 2}, endpoint="here") == ("here", 2)
    with pytest.raises(OptionError, match="there is no option 'endpoint'; it takes n"):
        build(lambda endpoint, n=1: (endpoint, n), {"endpoint": "there"}, endpoint="here")
    assert build(lambda **options: options, {"any": 1}, endpoint="here") == {"any": 1}
    with pytest.raises(OptionError, match="it takes none"):
        build(lambda: 1, {"x": 1})


def test_an_input_error_of_a_plug_in_is_its_own_word() -> None:
    def picky() -> None:
        raise InputError("buy a licence")

    with pytest.raises(InputError, match=r"^buy a licence$"):
        build(picky, {})


def test_a_callable_that_does_not_tell_its_parameters_may_take_anything() -> None:
    assert build(dict, {"a": 1}, endpoint="here") == {"a": 1}
    not_callable: Any = 5
    with pytest.raises(OptionError, match="the options are not accepted: 'int' object is not callable"):
        build(not_callable, {})
    with pytest.raises(OptionError, match="there is no option 'a'"):
        build(lambda *, b=1: b, {"a": 1})
    with pytest.raises(OptionError, match="it takes none"):
        build(lambda *values: values, {"a": 1})


# --- the four kinds


@pytest.mark.parametrize("kind", [SUITES, MODELS, COMPRESSORS, METHODS], ids=lambda kind: kind.kind)
def test_every_built_in_name_can_be_found(kind: Registry) -> None:
    for name in kind.built_in:
        assert kind.find(name) is not None
    assert set(kind.built_in) <= set(kind.names())


def test_a_suite_may_be_a_value_or_made_from_options(tmp_path: Path) -> None:
    file = tmp_path / "suites.py"
    file.write_text(
        "from recompact.suites.pocket import PocketSuite\nready = PocketSuite()\nnothing = 5\n"
        "def made(size):\n    return PocketSuite() if size else None\n"
    )
    assert isinstance(load_suite("pocket", {}, tmp_path), PocketSuite)
    assert isinstance(load_suite("suites.py:ready", {}, tmp_path), PocketSuite)
    assert isinstance(load_suite("suites.py:made", {"size": 1}, tmp_path), PocketSuite)
    with pytest.raises(OptionError, match=r"'suites.py:ready' takes no options"):
        load_suite("suites.py:ready", {"size": 1}, tmp_path)
    for name in ("nothing", "made"):
        with pytest.raises(InputError, match="is not a suite: it needs name, splits"):
            load_suite(f"suites.py:{name}", {"size": 0} if name == "made" else {}, tmp_path)


def test_a_model_gets_its_endpoint_only_where_it_asks_for_it(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text(
        "class Echo:\n    name = 'echo'\n    def __init__(self, endpoint, volume=1):\n"
        "        self.endpoint, self.volume = endpoint, volume\n    async def reply(self, request): ...\n"
        "class Quiet:\n    name = 'quiet'\n    async def reply(self, request): ...\nready = Quiet()\n"
        "nothing = object()\n"
    )
    endpoint = ModelConfig(id="x")
    echo: Any = load_model("models.py:Echo", {"volume": 3}, endpoint, tmp_path)
    assert (echo.endpoint, echo.volume) == (endpoint, 3)
    assert load_model("models.py:Quiet", {}, endpoint, tmp_path).name == "quiet"
    assert load_model("models.py:ready", {}, endpoint, tmp_path).name == "quiet"
    with pytest.raises(OptionError, match="did you mean 'volume'"):
        load_model("models.py:Echo", {"volumes": 3}, endpoint, tmp_path)
    with pytest.raises(InputError, match="is not a model: it needs `name`"):
        load_model("models.py:nothing", {}, endpoint, tmp_path)


def test_a_compressor_may_be_a_kind_an_object_or_a_class(tmp_path: Path) -> None:
    (tmp_path / "compressors.py").write_text(
        "class Half:\n    def __init__(self, inputs, share=0.5):\n        self.inputs, self.share = inputs, share\n"
        "    async def compress(self, context, budget): ...\nclass Wrong:\n    pass\n"
        "class Plain:\n    async def compress(self, context, budget): ...\nready = Plain()\nnothing = 5\n"
    )
    inputs = CompressorInputs(model=None, template=default_template(), count=len)  # type: ignore[arg-type]

    def built(name: str, **options: Any) -> Any:
        return load_compressor(name, options, tmp_path).build(inputs)

    half = built("compressors.py:Half", share=0.25)
    assert (half.inputs, half.share) == (inputs, 0.25)
    assert type(built("compressors.py:ready")).__name__ == "Plain"
    assert built("none") is None
    assert [load_compressor(name, {}, tmp_path).uses_template for name in ("prompted", "fifo", "none")] == [
        True,
        False,
        False,
    ]
    assert isinstance(COMPRESSORS.find("prompted"), CompressorKind)
    with pytest.raises(InputError, match="gave Wrong, which has no `compress`"):
        built("compressors.py:Wrong")
    with pytest.raises(InputError, match="is not a compressor"):
        built("compressors.py:nothing")
    with pytest.raises(OptionError, match="takes no options"):
        built("compressors.py:ready", share=1)
    with pytest.raises(OptionError, match="there is no option 'shar'; did you mean 'share'"):
        built("compressors.py:Half", shar=1)


def test_a_method_may_be_a_value_or_made_from_options(tmp_path: Path) -> None:
    (tmp_path / "methods.py").write_text(
        "from recompact import Method\nasync def propose(study):\n    return ()\n"
        "ready = Method('mine', propose)\ndef made(rounds=1):\n    return Method(f'mine-{rounds}', propose)\n"
        "def nothing():\n    return 5\n"
    )
    assert load_method("methods.py:ready", {}, tmp_path).name == "mine"
    assert load_method("methods.py:made", {"rounds": 4}, tmp_path).name == "mine-4"
    assert [load_method(name).name for name in METHODS.built_in] == list(METHODS.built_in)
    assert isinstance(load_method("acon-ut", {"samples": 3}), Method)
    for name, options, said in (
        ("pair", {"samples": 3}, "method 'pair' takes no options"),
        ("acon-ut", {"sample": 3}, "there is no option 'sample'; did you mean 'samples'?"),
    ):
        with pytest.raises(OptionError) as caught:
            load_method(name, options)
        assert said in str(caught.value)
    with pytest.raises(InputError, match="is not a method: it must be, or give"):
        load_method("methods.py:nothing", {}, tmp_path)


# --- the plug-ins of this package


def test_the_shipped_table_is_the_one_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = project["entry-points"]
    assert {group: {e.name: e.value for e in registry._own_plugins(group)} for group in groups} == groups


def test_own_plugins_are_found_without_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "entry_points", lambda group: ())
    registry._declared_plugins.cache_clear()
    try:
        assert SUITES.find("qa").__name__ == "QaSuite"
        assert "sim-agent" in MODELS.names()
    finally:
        registry._declared_plugins.cache_clear()


def test_no_room_below_the_suites_names_one() -> None:
    """The rooms that make up the method know plug-ins by their group alone."""
    source = Path(registry.__file__).parent
    names = [*registry._declared_plugins("recompact.suites"), *registry._declared_plugins("recompact.models")]
    quoted = re.compile("|".join(f"""["']{re.escape(name)}["'.:]""" for name in names))
    rooms = ("agents", "environments", "compressors", "models", "audit", "values", "attribution", "adaptation")
    files = [file for room in rooms for file in (source / room).rglob("*.py")]
    hits = [
        f"{file.relative_to(source)}: {line}"
        for file in files
        for line in file.read_text().splitlines()
        if quoted.search(line) and "workspace" not in line
    ]
    assert hits == []
