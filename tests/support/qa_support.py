"""A small world of our own to ask questions about: islands that do not exist, a corpus about them, and tasks of eight
questions, each with the answers that the corpus gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_TABLE = """\
island   | capital     | founder      | year | peak          | height | export     | anthem                | ferry
Orvane   | Tessmoor    | Halda Brinn  | 1312 | Mount Korrel  | 1874   | blue salt  | Song of Nine Harbours | Gannet Line
Pellidor | Quay Istra  | Tomas Vell   | 1467 | Mount Ambrace | 962    | cork oak   | Under the Amber Lamp  | Tern Line
Suthrey  | Low Marrick | Ingrith Oake | 1588 | Mount Fenn    | 2203   | smoked eel | The Long Reef         | Petrel Line
Kalbreck | Dunvary     | Osric Tale   | 1290 | Mount Wither  | 1541   | peat glass | Bells of Dunvary      | Skua Line
"""
_HEADS, *_ROWS = ([cell.strip() for cell in line.split("|")] for line in _TABLE.splitlines())
ISLANDS = {row[0]: dict(zip(_HEADS, row, strict=True)) for row in _ROWS}
QUESTIONS = (
    ("What is the capital of {island}?", "capital"),
    ("Who founded the capital of {island}?", "founder"),
    ("In which year was the capital of {island} founded?", "year"),
    ("What is the highest peak of {island}?", "peak"),
    ("How many metres high is the highest peak of {island}?", "height"),
    ("What is the main export of {island}?", "export"),
    ("What is the anthem of {island} called?", "anthem"),
    ("Which ferry line serves {island}?", "ferry"),
)


def passages() -> list[dict[str, str]]:
    texts: dict[str, str] = {}
    for island, known in ISLANDS.items():
        capital, year, peak, ferry = known["capital"], known["year"], known["peak"], known["ferry"]
        texts |= {
            island: f"{island} is an island. Its capital is {capital}, and its main export is {known['export']}.",
            capital: f"{capital}, the capital of {island}, was founded by {known['founder']} in the year {year}.",
            peak: f"{peak} is the highest peak of {island}; it is {known['height']} metres high.",
            known["anthem"]: f"{known['anthem']} is the anthem of the island of {island}.",
            ferry: f"The {ferry} is the ferry line that serves {island} twice a day.",
        }
    return [{"id": str(n), "contents": f'"{title}"\n{text}'} for n, (title, text) in enumerate(texts.items())]


def tasks() -> list[dict[str, Any]]:
    """One task about each island, two in each split."""
    return [
        {
            "id": f"islands-{island.lower()}",
            "split": "train" if number < 2 else "test",
            "questions": [
                {"question": text.format(island=island), "answers": [ISLANDS[island][name]]} for text, name in QUESTIONS
            ],
        }
        for number, island in enumerate(ISLANDS)
    ]


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def written(directory: Path) -> dict[str, Any]:
    """Options of the suite for files in this directory."""
    corpus, file = write_jsonl(directory / "corpus.jsonl", passages()), write_jsonl(directory / "tasks.jsonl", tasks())
    return {"tasks": str(file), "corpus": str(corpus)}
