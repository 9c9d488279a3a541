"""Builds a small data root for AppWorld's real engine: invented people and tasks on the real schemas.

Run by the interpreter that has AppWorld: `python appworld_miniature.py ROOT`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

PEOPLE = [
    {"first_name": "Ada", "last_name": "Quill", "email": "ada.quill@example.com", "phone_number": "5550100001"},
    {"first_name": "Ben", "last_name": "Moor", "email": "ben.moor@example.com", "phone_number": "5550100002"},
]
NOTES = [
    (0, "Garden", "Plant 14 tulips along the fence."),
    (0, "Packing list", "Boots, torch, map."),
    (1, "Recipes", "Soup, bread."),
]
CREATE = "Create a note titled 'Shopping' in my Simple Note account that says 'milk and eggs'."
COUNT = "How many tulips am I going to plant, according to my notes?"
SPLITS = {"train": ["a1b2c3d_1", "a1b2c3d_2"], "dev": ["e4f5a6b_1"], "test_normal": ["e4f5a6b_2"], "test_challenge": []}
TASKS: dict[str, tuple[str, int, Any, int]] = {  # instruction, whose, answer, difficulty
    "a1b2c3d_1": (CREATE, 0, None, 1),
    "a1b2c3d_2": (CREATE, 1, None, 1),
    "e4f5a6b_1": (COUNT, 0, 14, 2),
    "e4f5a6b_2": (COUNT, 0, 14, 2),
}
WRITTEN = "the new note says what it should"
UNTOUCHED = "no other note was changed"
ANSWERED = "the answer is right"
EVALUATION = f'''
def evaluate(test, public_data, private_data, main_user, models, ground_truth_answer):
    user = models.end.simple_note.User.find_one(email=main_user.email)
    before = {{note.id: note.content for note in models.start.simple_note.Note.all()}}
    after = {{note.id: note for note in models.end.simple_note.Note.all()}}
    if private_data.kind == "create":
        with test("{WRITTEN}"):
            created = [note for id, note in after.items() if id not in before]
            contents = [(note.user_id, note.title, note.content) for note in created]
            test.case(contents, "==", [(user.id, "Shopping", "milk and eggs")])
    else:
        with test("{ANSWERED}"):
            test.answer(models.end.supervisor.Task.all()[0].answer, ground_truth_answer)
    with test("{UNTOUCHED}"):
        kept = {{id: after[id].content for id in before if id in after}}
        test.case(kept, "==", before)
'''


def main(root: Path) -> None:
    os.environ["APPWORLD_ROOT"] = str(root)
    data = root / "data"
    for name in ("base_dbs", "api_docs/standard", "datasets", "tasks"):
        (data / name).mkdir(parents=True)

    from appworld.apps import get_all_apps
    from appworld.apps.model_lib import CachedDBHandler
    from appworld.collections.api_docs import ApiDocCollection
    from appworld.collections.models import ModelCollection
    from appworld.common.constants import CANARY_STRING, DB_VERSION
    from appworld.common.datetime import DateTime

    apps = list(get_all_apps())
    now = DateTime(2023, 5, 18, 12, 0, 0)
    base = str(data / "base_dbs")
    models = ModelCollection.load(to_db_home_path=base, load_apps=apps, create_db=True)
    for person in PEOPLE:
        models.admin.MainUser(**person, birthday="1990-01-01", sex="female").save()
        models.simple_note.User(
            first_name=person["first_name"],
            last_name=person["last_name"],
            email=person["email"],
            password=password(person),
            created_at=now,
            last_logged_in=now,
            verified=True,
        ).save()
    for owner, title, content in NOTES:
        models.simple_note.Note(
            user_id=owner + 1, title=title, content=content, tags=[], created_at=now, updated_at=now, pinned=False
        ).save()
    CachedDBHandler.reset()

    for app, documents in ApiDocCollection.build(tuple(app for app in apps if app != "admin")).items():
        named = {name: {**document, "canary_string": CANARY_STRING} for name, document in documents.items()}
        (data / "api_docs" / "standard" / f"{app}.json").write_text(json.dumps(named, default=str))
    for split, ids in SPLITS.items():
        (data / "datasets" / f"{split}.txt").write_text("\n".join(ids))
    for id, (instruction, owner, answer, difficulty) in TASKS.items():
        person, place = PEOPLE[owner], data / "tasks" / id
        (place / "ground_truth").mkdir(parents=True)
        memory = f":memory:making-{id}"
        models = ModelCollection.load(to_db_home_path=memory, from_db_home_path=base, load_apps=apps)
        models.supervisor.Supervisor(**person, birthday="1990-01-01", sex="female").save()
        models.supervisor.Task(supervisor_id=1, instruction=instruction).save()
        models.supervisor.AccountPassword(supervisor_id=1, account_name="simple_note", password=password(person)).save()
        models.save(str(place / "dbs"), format="changes", app_names=apps, save_model_hashes=True)
        CachedDBHandler.reset()
        specification = {
            "instruction": instruction,
            "supervisor": person,
            "datetime": now.isoformat(),
            "db_version": DB_VERSION,
            "canary_string": CANARY_STRING,
        }
        (place / "specs.json").write_text(json.dumps(specification))
        kind = "answer" if answer is not None else "create"
        tests = [(WRITTEN if answer is None else ANSWERED, "no_op_fail"), (UNTOUCHED, "no_op_pass")]
        truth: dict[str, Any] = {
            "public_data.json": {},
            "private_data.json": {"kind": kind},
            "answer.json": answer,
            "test_data.json": [{"requirement": text, "label": label} for text, label in tests],
            "metadata.json": {"mode": "minimal", "difficulty": difficulty, "num_apps": 1, "num_apis": 1}
            | {"num_api_calls": 3, "num_solution_code_lines": 3},
        }
        for name, value in truth.items():
            (place / "ground_truth" / name).write_text(json.dumps(value))
        (place / "ground_truth" / "evaluation.py").write_text(EVALUATION)


def password(person: dict[str, str]) -> str:
    return f"{person['first_name'].lower()}-secret"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
