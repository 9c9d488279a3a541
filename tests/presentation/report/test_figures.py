"""What figures hold, whatever the data is called: the right values, sound images, the same bytes each time."""

from __future__ import annotations

import csv
import io
import re
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from figures_support import HOSTILE, arm, arms, found, swept

from recompact.errors import InputError
from recompact.evaluation.breakdown import by_model
from recompact.evaluation.summary import evaluation
from recompact.presentation.report.figures.boundaries import panels
from recompact.presentation.report.figures.drawing import NAME, Figure, looks, png, save, short_label, svg
from recompact.presentation.report.figures.sets import (
    boundary_figures,
    boundary_gaps,
    breakdown_figures,
    evaluation_figures,
    evaluation_gaps,
)

SVG = "{http://www.w3.org/2000/svg}"
HARMED = (1.0, 4, 0.0, 9)  # success lost, five steps added
SAME = (1.0, 4, 1.0, 4)
BETTER = (0.0, 8, 1.0, 5)


def named(made: list[Figure]) -> dict[str, Figure]:
    return {figure.name: figure for figure in made}


def texts(text: str) -> list[str]:
    return ["".join(e.itertext()) for e in ElementTree.fromstring(text).iter(f"{SVG}text")]


def rows(figure: Figure) -> list[dict[str, str]]:
    from recompact.values.tables import as_csv

    assert figure.data is not None
    return list(csv.DictReader(io.StringIO(as_csv(figure.data() if callable(figure.data) else figure.data))))


@cache
def every(name: str) -> list[Figure]:
    """All the figures there are, of arms, tasks and models that are called like that."""
    nine = [HARMED] * 5 + [SAME] * 4
    boundaries = [(f"{name}-{n}", 1 + n % 2, bool(n % 2), nine if n < 2 else [SAME] * 8 + [BETTER]) for n in range(4)]
    models = ({"agent": name, "compressor": "b"}, {"agent": "other"})
    three = (arm("none", ["111", "101"]), arm("prompting", ["110", "101"]), arm(name, ["111", "110"]))
    evaluations = [evaluation(f"{name}-{n}", three, models=said) for n, said in enumerate(models)]
    made = [
        *evaluation_figures(swept(name)),
        *boundary_figures(found(boundaries)),
        *breakdown_figures(by_model(evaluations)),
    ]
    assert [figure.name for figure in made] == [
        *("by-budget", "arms", "reliability-tokens"),
        *("boundary-effects", "sensitivity-draws", "sensitivity-thresholds", "by-model"),
    ]
    return made


@cache
def images(name: str, inline: bool = False) -> dict[str, str]:
    """All of them as SVG, each drawn once."""
    return {figure.name: svg(figure, inline=inline) for figure in every(name)}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(HOSTILE, id="hostile"),
        pytest.param("_$hidden$", id="hidden", marks=pytest.mark.slow),
        pytest.param("名^3" * 100, id="long", marks=pytest.mark.slow),
    ],
)
def test_whatever_a_name_is_the_images_are_sound(name: str) -> None:
    for figure in every(name):
        text = images(name, inline=True)[figure.name]
        root = ElementTree.fromstring(text)
        assert root.tag == f"{SVG}svg"
        assert not list(root.iter(f"{SVG}script"))
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ufffe]", text)
        if name == HOSTILE:
            assert png(figure, 40).startswith(b"\x89PNG")
        assert len(figure.caption) < 1200
        assert "\n" not in figure.caption
    # It is shown as it is, and nothing in it is a formula.
    first = texts(images(name, inline=True)["arms"])
    assert short_label(f"{name}@1024/history", 30) in first
    legend = texts(images(name, inline=True)["by-model"])
    assert short_label(name, NAME) in [text.strip() for text in legend]


def test_the_same_data_gives_the_same_bytes() -> None:
    for one, other in zip(every("pair"), every.__wrapped__("pair"), strict=True):
        first = images("pair")[one.name]
        assert first == svg(other)
        assert "dc:date" not in first
        if one.name == "arms":
            assert first == svg(one)  # also when it was saved before
            assert images("pair", inline=True)[one.name] == svg(other, inline=True)
            assert png(one, 50) == png(other, 50)


def test_an_inline_figure_belongs_to_its_page() -> None:
    seen: set[str] = set()
    for figure in every("pair"):
        text = images("pair", inline=True)[figure.name]
        assert text.startswith("<svg")
        root = ElementTree.fromstring(text)
        assert root.attrib["role"] == "img"
        assert root.attrib["aria-label"] == figure.title
        assert float(root.attrib["width"]) == pytest.approx(1.5 * float(root.attrib["viewBox"].split()[2]), abs=1)
        assert "height" not in root.attrib
        assert len(root.attrib["viewBox"].split()) == 4
        ids = {element.attrib["id"] for element in root.iter() if "id" in element.attrib}
        assert all(one.startswith(f"{figure.name}-") for one in ids)
        assert not ids & seen
        seen |= ids
        used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
        assert used <= ids
        for element in root.iter():
            assert "style" not in element.attrib
            assert element.tag != f"{SVG}style"
            if element.tag == f"{SVG}text":
                assert element.attrib["fill"]
        assert 'fill="currentColor"' in text
        assert "#1b1b1c" not in text
        assert "#ffffff" not in text  # no paper of its own
        assert "#ffffff" in images("pair")[figure.name]
        assert not {e.attrib.get("font-family") for e in root.iter()} - {None}
    assert seen


def test_files(tmp_path: Path) -> None:
    made = evaluation_figures(arms("pair"))
    written = save(made, tmp_path / "deep" / "er", ("svg", "png", "csv"))
    assert [path.name for path in written][:3] == ["arms.svg", "arms.png", "arms.csv"]
    assert all(path.stat().st_size > 100 for path in written)
    sly = Figure("../../out", "t", "c", made[0].drawing)
    assert [path.parent for path in save([sly], tmp_path / "sly")] == [tmp_path / "sly"] * 2
    with pytest.raises(InputError, match="choose from svg, png, csv"):
        save(made, tmp_path, ("pdf",))
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        save(made, tmp_path / "file")


def test_nothing_of_matplotlib_is_changed_for_others() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    svg(evaluation_figures(arms("pair"))[0])
    assert dict(matplotlib.rcParams) == before


def test_figures_of_an_evaluation() -> None:
    made = named(evaluation_figures(arms("fifo", "pair")))
    assert list(made) == ["arms", "reliability-tokens"]
    data = rows(made["arms"])
    assert [row["arm"] for row in data] == ["none", "fifo", "pair"]
    assert float(data[0]["acc"]) == pytest.approx(100 * 9 / 12)
    assert float(data[2]["pass^3"]) == pytest.approx(25.0)
    assert float(data[2]["pass^3_low"]) == pytest.approx(4.56, abs=0.01)
    assert float(data[2]["pass^3_high"]) == pytest.approx(69.94, abs=0.01)
    tokens = rows(made["reliability-tokens"])
    assert [float(row["tokens"]) for row in tokens] == [1.035, 0.935, 1.035]
    assert "is that of fifo/history and pair/history, 25.0 %;" in made["arms"].caption
    assert "fifo/history reaches 25.0 % for 0.9 thousand tokens" in made["reliability-tokens"].caption
    assert "pair/history, 25.0 % (4.6 to 69.9)" in named(evaluation_figures(arms("pair")))["arms"].caption
    assert "without compaction it is 50.0 %" in made["arms"].caption
    assert {"Acc, %", "Pass³, %", "pair/history"} <= set(texts(svg(made["arms"])))
    single = evaluation("one run", [arm("none", ["1", "0"]), arm("pair", ["1", "1"], "history", 99)])
    assert "Pass" not in svg(named(evaluation_figures(single))["arms"])
    assert evaluation_figures(evaluation("nothing", [])) == []


def test_the_budget_sweep() -> None:
    made = named(evaluation_figures(swept()))["by-budget"]
    data = rows(made)
    assert [(row["value"], row["arm"]) for row in data] == [
        (budget, arm) for budget in ("1,024", "2,048", "4,096") for arm in ("none", "prompting")
    ]
    # Steps are 10, 11, 12 without and 15, 16, 17 with: 16 / 11.
    assert float(data[1]["steps_delta"]) == pytest.approx(100 * (16 / 11 - 1))
    assert "Extra steps: beside none" in made.caption
    assert {"(a) Acc, %", "(c) Extra steps, %", "1,024"} <= set(texts(svg(made)))


def test_maps_show_what_matters_most() -> None:
    boundaries = [(f"task-{n:02d}", 1, False, [SAME] * 3) for n in range(33)]
    boundaries += [("task-07", 2, False, [HARMED] * 3), ("task-20", 3, False, [BETTER] * 3)]
    boundaries += [(f"won-{n:02d}", 1, True, [HARMED] * (n == 5) + [SAME] * 2) for n in range(20)]
    boundaries.append(("won-06", 2, True, []))
    data = found(boundaries)
    failed, passed, burden = panels(data)
    assert (len(failed.rows), failed.of, failed.columns) == (30, 33, 3)
    assert failed.rows[0][0] == "task-07"
    assert [len(panel.rows) for panel in (passed, burden)] == [10, 15]
    assert passed.rows[0][0] == "won-05"
    assert burden.of == 53
    made = named(boundary_figures(data))["boundary-effects"]
    for said in (
        "in (a) 30 of 33 failed, in (b) 10 of 20 successful, in (c) 15 of 53 of either outcome",
        "1 have H ≥ 0.5",
        "55 boundaries",
    ):
        assert said in made.caption, made.caption
    inside = texts(svg(made))
    for text in ("(a) H, failed", "+1", "−1", "+.33", "+5.0", "no verdict", "07", "task-"):
        assert text in inside
    # An outline is seen on its cell, also where the page and its ink are the other way round.
    outlines = re.findall(r'stroke="(#0d0d0d|#fefefe)"', svg(made, inline=True))
    assert len(outlines) == sum(f.retained for panel in panels(data) for _, cells in panel.rows for f in cells.values())
    assert len(rows(made)) == 56
    assert rows(made)[33]["H"] == "1.0"


def test_without_failed_trajectories_there_is_no_panel_for_them() -> None:
    data = found([("a-1", 1, True, [HARMED] * 2), ("a-2", 1, True, [SAME] * 2)])
    assert [panel.title for panel in panels(data)] == ["H, successful", "B, all"]
    assert boundary_figures(found([("a", 1, True, [])])) == []
    assert boundary_figures(found([])) == []
    assert boundary_figures(data, simulated=True)[0].caption.endswith("Simulated models.")


def test_many_compactions_get_signs_for_numbers() -> None:
    data = found([("long", index, False, [HARMED if index == 12 else SAME] * 3) for index in range(1, 25)])
    inside = texts(svg(named(boundary_figures(data))["boundary-effects"]))
    assert inside.count("+") == 2  # of H and of B
    assert "+1" in inside  # on the scale alone
    assert {"5", "10", "15", "20"} <= set(inside)


def test_sensitivity_needs_the_same_draws_everywhere() -> None:
    nine = [(f"t-{n}", 1, True, [HARMED] * (n % 4) * 2 + [SAME] * (9 - n % 4 * 2)) for n in range(8)]
    made = named(boundary_figures(found(nine)))
    draws = rows(made["sensitivity-draws"])
    assert [row["draws"] for row in draws] == ["1", "3", "5", "9"]
    assert float(draws[-1]["hazard_correlation"]) == pytest.approx(1)
    assert float(draws[-1]["jaccard"]) == 1
    assert float(draws[0]["hazard_correlation"]) < float(draws[2]["hazard_correlation"])
    assert "8 boundaries with 9 draws" in made["sensitivity-draws"].caption
    thresholds = rows(made["sensitivity-thresholds"])
    assert [row["value"] for row in thresholds] == [
        "0.3",
        "0.4",
        "0.5",
        "0.6",
        "0.7",
        "3.0",
        "4.0",
        "5.0",
        "6.0",
        "7.0",
    ]
    # The first three draws: all harmful for n % 4 of 2 and 3, two of three for 1.
    assert [row["selected"] for row in thresholds] == ["6"] * 4 + ["4"] + ["6"] * 5
    assert float(thresholds[4]["jaccard"]) == pytest.approx(4 / 6)
    uneven = [*nine, ("t-9", 1, True, [SAME] * 5)]
    most, known = found(uneven).equal_draws
    assert (most, {len(o.pre) for o in known.values()}) == (5, {5})
    assert [row["draws"] for row in rows(named(boundary_figures(found(uneven)))["sensitivity-draws"])] == [
        "1",
        "3",
        "5",
    ]
    three = [(task, n, passed, pairs[:3]) for task, n, passed, pairs in nine]
    assert list(named(boundary_figures(found(three)))) == ["boundary-effects", "sensitivity-thresholds"]
    two = [*nine, ("t-9", 1, True, [SAME] * 2)]
    assert list(named(boundary_figures(found(two)))) == ["boundary-effects"]


def test_gaps_say_what_to_do() -> None:
    gaps = evaluation_gaps(arms("pair"))
    assert list(gaps) == ["by-budget"]
    assert "--budget" in gaps["by-budget"]
    assert evaluation_gaps(swept()) == {}
    assert boundary_gaps(found([("t", 1, True, [SAME] * 9)])) == {}
    assert "uniform:9" in boundary_gaps(found([("t", 1, True, [SAME] * 3)]))["sensitivity-draws"]
    assert len(boundary_gaps(found([("t", 1, True, [SAME])]))) == 2
    assert "verify" in boundary_gaps(found([("t", 1, True, [])]))["boundary-effects"]
    assert "nothing was compacted" in boundary_gaps(found([]))["boundary-effects"]


def test_an_arm_has_one_colour_that_can_be_read_anywhere() -> None:
    one = looks(["none", "prompting", "pair", "mine"])
    other = looks(["PAIR", "fifo", "prompting", "theirs", "acon-ut", "more", "x", "y", "z"])
    assert one["pair"] == other["PAIR"]
    assert one["prompting"] == other["prompting"]
    assert len({look.color for look in one.values()}) == 4
    assert len({look.color for look in list(other.values())[:6]}) == 6
    for look in [*list(one.values())[1:], *other.values()]:
        for paper in ("#ffffff", "#15171a"):
            assert contrast(look.color, paper) >= 3


def contrast(one: str, other: str) -> float:
    """As WCAG has it."""

    def luminance(color: str) -> float:
        parts = [int(color[n : n + 2], 16) / 255 for n in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_names_beside_points_keep_apart() -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    names = [f"arm-{n}" for n in range(7)]
    made = named(evaluation_figures(arms(*names)))["reliability-tokens"]
    canvas: Any = FigureCanvasAgg(made.drawing)
    renderer = canvas.get_renderer()
    made.drawing.draw_without_rendering()
    # Of the words alone: that of an annotation includes its line.
    boxes = [Text.get_window_extent(text, renderer) for text in made.drawing.axes[0].texts if text.get_text()]
    assert len(boxes) == 8
    for n, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[n + 1 :])
