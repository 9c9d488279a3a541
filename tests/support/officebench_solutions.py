"""Tasks solved by hand: the actions that do each, and others that look much alike and do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Step = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Solution:
    right: list[Step]
    wrong: list[Step] = field(default_factory=list)
    answer: str = "None"
    wrong_answer: str = "None"


def step(name: str, **arguments: Any) -> Step:
    return name, arguments


def event(user: str, summary: str, start: str, end: str) -> Step:
    return step("calendar.create_event", user=user, summary=summary, time_start=start, time_end=end)


def events(users: str, summary: str) -> list[Step]:
    return [event(user, summary, "2020-05-08 09:00:00", "2020-05-08 11:00:00") for user in users.split()]


def cell(file: str, row: int, column: int, text: Any) -> Step:
    return step("excel.set_cell", file_path=f"data/{file}", row_idx=row, column_idx=column, text=str(text))


def empty(file: str, *places: tuple[int, int]) -> list[Step]:
    return [
        step("excel.delete_cell", file_path=f"data/{file}", row_idx=row, column_idx=column) for row, column in places
    ]


def sheet(file: str, *rows: Sequence[Any]) -> list[Step]:
    new = step("excel.create_new_file", file_path=f"data/{file}")
    return [new, *(cell(file, r, c, value) for r, row in enumerate(rows, 1) for c, value in enumerate(row, 1))]


def column(*values: Any) -> list[Step]:
    return [cell("class_member.xlsx", row, 2, value) for row, value in enumerate(values, 1)]


def document(file: str, *paragraphs: str) -> list[Step]:
    new = step("word.create_new_file", file_path=f"data/{file}")
    return [new, *(step("word.write_to_file", file_path=f"data/{file}", contents=text) for text in paragraphs)]


def printed(source: str, target: str) -> Step:
    return step("word.convert_to_pdf", word_file_path=f"data/{source}", pdf_file_path=f"data/{target}")


def mail(recipient: str, subject: str, content: str, sender: str = "Bob@mail.com") -> Step:
    return step("email.send_email", sender=sender, recipient=recipient, subject=subject, content=content)


def shell(command: str) -> Step:
    return step("shell.command", command=command)


def sheet_of(file: str) -> Step:
    return step("excel.read_file", file_path=f"data/{file}")


def mailbox(user: str) -> Step:
    return step("email.list_emails", username=user)


SORTED: list[list[Any]] = [
    ["Name", "midterm1", "midterm2"],
    ["Alice", 78, 75],
    ["Liam", 74, 72],
    ["Jack", 71, 73],
    ["Ivy", 64, 90],
]
REVENUES = "4439044 2212203 1193225 2793265 2080460 1791112 3098049 3975966 3251777 2918667"
LATER = "4983791 4611210 3294631 1463500 3945846 3907271 3651262 2005820 2170828 2832545"
AGENDA = [("Introductions", "Linda", 13), ("Agenda", "Davide", 14), ("Strategy", "Charlie", 15)]

ONE_APP = {
    "1-1/0": Solution(
        [event("Bob", "Meeting", "2024-05-17 10:30:00", "2024-05-17 11:00:00")],
        [event("Bob", "Meeting", "2024-05-17 22:30:00", "2024-05-17 23:00:00")],
    ),
    "1-1/3": Solution(
        [event("Bob", "Class at Mathematic Science 4000A", "2024-05-15 16:00:00", "2024-05-15 18:00:00")],
        [event("Bob", "Class", "2024-05-15 16:00:00", "2024-05-15 18:00:00")],
    ),
    "1-2/0": Solution(
        [
            step("calendar.list_events", username="Bob"),
            step("calendar.list_events", username="Tom"),
            event("Bob", "Zoom meeting", "2024-05-01 14:30:00", "2024-05-01 15:30:00"),
            event("Tom", "Zoom meeting", "2024-05-01 14:30:00", "2024-05-01 15:30:00"),
        ],
        [
            event("Bob", "Zoom meeting", "2024-05-01 14:00:00", "2024-05-01 15:00:00"),
            event("Tom", "Zoom meeting", "2024-05-01 14:00:00", "2024-05-01 15:00:00"),
        ],
    ),
    "1-2/3": Solution([step("calendar.list_events", username="Tom")], [], "Tom gets up earlier", "Bob"),
    "1-3/3": Solution([shell("rm data/file3.xlsx")], [shell("rm data/file4.jpg")]),
    "1-3/4": Solution([shell("mkdir data/new_dir && mv data/file* data/new_dir/")], [shell("mkdir data/new_dir")]),
    "1-4/0": Solution([cell("score.xlsx", 12, 2, 100)], [cell("score.xlsx", 2, 12, 100)]),
    "1-5/3": Solution(
        [
            step("calculator.calculate", expression="2051000 * 1.1 ** 3"),
            cell("company_budget.xlsx", 5, 1, "predicted budget"),
            cell("company_budget.xlsx", 5, 2, "2729881"),
        ],
        [cell("company_budget.xlsx", 5, 1, "predicted budget"), cell("company_budget.xlsx", 5, 2, "2,729,881 $")],
    ),
    "1-6/0": Solution(column("Class", *(1, 2, 3, 4, 5)), column("Class", *(5, 6, 7, 8, 9))),
    "1-6/2": Solution(
        column("Meeting", "8:00", "8:10", "8:20", "8:30", "8:40"), column("Meeting", "8:00", "8:20", "8:40", "9:00")
    ),
    "1-7/3": Solution(empty("salary.xlsx", (3, 1), (3, 2)), empty("salary.xlsx", (4, 1), (4, 2))),
    "1-8/2": Solution(
        empty("salary.xlsx", (1, 2), (2, 2), (3, 2), (4, 2)), empty("salary.xlsx", (1, 2), (2, 2), (3, 2))
    ),
    "1-11/0": Solution(
        [sheet_of("score.xlsx"), *sheet("sorted_score.xlsx", *SORTED)],
        sheet("sorted_score.xlsx", SORTED[0], *SORTED[:0:-1]),
    ),
    "1-12/2": Solution([sheet_of("CS161_Class_Roster.xlsx")], [], "54", "61"),
    "1-16/0": Solution(
        [
            shell("cat data/random_paragraph.txt"),
            *document(
                "random_paragraph.docx",
                "In the heart of the bustling city, a small café stood as a tranquil oasis amidst the chaos.",
            ),
        ],
        document("random_paragraph.docx", "In the heart of the city, a small café stood as an oasis amidst the chaos."),
    ),
    "1-20/3": Solution([mailbox("Bob")], [], "Yes, 1", "No"),
}

TWO_APPS = {
    "2-13/1": Solution(
        [sheet_of("team_training_schedule.xlsx"), *events("Alice David Grace Jack", "Team training")],
        [*events("Alice Bob David Grace Jack", "Team training")],
    ),
    "2-15/0": Solution(
        [step("calendar.list_events", username="Alice"), *sheet("meeting_agenda.xlsx", *AGENDA)],
        sheet("meeting_agenda.xlsx", *AGENDA[:2]),
    ),
    "2-18/2": Solution(
        document("shopping_list.docx", "apple", "cabbage", "onion"), document("shopping_list.docx", "apple", "onion")
    ),
    "2-33/0": Solution(
        [sheet_of("score.xlsx"), shell("printf 'Tina\\nRachel\\nSam\\n' > /testbed/data/top3.txt")],
        [shell("printf 'Tina\\nRachel\\nSam\\n' > /tmp/top3.txt")],
    ),
    "2-39/4": Solution(
        [
            mailbox("Bob"),
            *document("jan.docx", "From gradescope: Your Project 2 has been graded."),
            printed("jan.docx", "Jan_emails.pdf"),
        ],
        [
            *document("jan.docx", "Project 2 has been graded.", "Can we have a meeting?", "rent is due", "scholarship"),
            printed("jan.docx", "Jan_emails.pdf"),
        ],
    ),
    "2-40/2": Solution(
        [mail("Bob", "events", "class, nap, lunch and dinner")],
        [mail("Bob", "events", "class, nap, lunch, dinner, sleeping")],
    ),
    "2-42/0": Solution(
        [mailbox("Alice"), mailbox("Bob"), *sheet("email_counting.xlsx", ["Alice", 2], ["Bob", 4])],
        sheet("email_counting.xlsx", ["Name", "Number"], ["Alice", 2], ["Bob", 4]),
    ),
    "2-43/1": Solution(
        [mail("Bob", "revenues", REVENUES), mail("Tom", "revenues of the rest", LATER)],
        [mail("Bob", "revenues", REVENUES), mail("Tom", "the rest", REVENUES)],
    ),
    "2-49/0": Solution(
        [mailbox("Alice"), *sheet("score.xlsx", ["Name", "Score"], ["Alice", 100], ["Bob", 89], ["Carol", 96])],
        sheet("score.xlsx", ["Alice", 100], ["Bob", 89], ["Carol", 96]),
    ),
}

THREE_APPS = {
    "3-1/0": Solution(
        [
            sheet_of("task.xlsx"),
            step("excel.convert_to_pdf", excel_file_path="data/task.xlsx", pdf_file_path="data/task.pdf"),
            step("pdf.read_file", pdf_file_path="data/task.pdf"),
            mail("Alice", "Tasks", "\n".join(f"Activity {n}" for n in range(1, 13))),
        ],
        [step("excel.convert_to_pdf", excel_file_path="data/task.xlsx", pdf_file_path="data/task.pdf")],
    ),
    "3-4/0": Solution(
        [
            step(
                "excel.convert_to_pdf",
                excel_file_path="data/financial_report_2.xlsx",
                pdf_file_path="data/financial/report.pdf",
            )
        ],
        [step("excel.convert_to_pdf", excel_file_path="data/financial_report_2.xlsx", pdf_file_path="data/report.pdf")],
    ),
    "3-52/0": Solution(
        [
            sheet_of("meeting_agenda_2.xlsx"),
            *(event("Bob", what, f"2020-05-01 {at}:00:00", f"2020-05-01 {at + 1}:00:00") for what, _, at in AGENDA),
            *(mail(who, f"{what} reminder", f"{what} by {who} at {at}:00") for what, who, at in AGENDA),
        ],
        [
            *(event("Bob", what, f"2020-05-01 {at}:00:00", f"2020-05-01 {at + 1}:00:00") for what, _, at in AGENDA),
            *(mail("Linda", f"{what} reminder", f"{what} by {who} at {at}:00") for what, who, at in AGENDA),
        ],
    ),
    "3-54/0": Solution(
        [
            *document("reward.docx", "Tina has the highest score."),
            mail("Tina@mail.com", "Tina", "Tina has the highest score in midterm1: 100."),
        ],
        [*document("reward.docx", "Sam has the highest score."), mail("Sam@mail.com", "Sam", "midterm1 highest score")],
    ),
    "3-55/0": Solution(
        [
            *document("reward.docx", "Tina did best."),
            printed("reward.docx", "reward.pdf"),
            step("pdf.convert_to_image", pdf_file_path="data/reward.pdf", image_file_path="data/reward.jpg"),
        ],
        [*document("reward.docx", "Tina did best."), printed("reward.docx", "reward.pdf")],
    ),
    "3-82/0": Solution(
        document("list.docx", "Rachel, Tina, Sam, Bob, Carol"),
        document("list.docx", "Rachel, Tina, Sam, Bob, Carol, David, Alice, Liam"),
    ),
    "3-83/0": Solution(
        [sheet_of("class_member.xlsx"), *document("members.docx", "Mia"), printed("members.docx", "Class_member.pdf")],
        [*document("members.docx", "Carol, Jack, Mia"), printed("members.docx", "Class_member.pdf")],
    ),
    "3-93/0": Solution(
        [
            mail("Bob", "All events", "lunch, class, nap, dinner, sleeping"),
            *document("event.docx", "lunch, class, nap, dinner, sleeping"),
            printed("event.docx", "event.pdf"),
        ],
        [
            mail("Tom", "All events", "lunch, class, nap, dinner, sleeping", sender="Tom"),
            *document("event.docx", "lunch, class, nap, dinner, sleeping"),
            printed("event.docx", "event.pdf"),
        ],
    ),
    "3-96/0": Solution(
        [
            sheet_of("company_revenues.xlsx"),
            mail("Bob", "revenues", f"{REVENUES} {LATER}"),
            *document("revenue.docx", "Revenues are summarized here."),
        ],
        [
            mail("Bob", "company revenues", f"{REVENUES} {LATER}"),
            *document("revenue.docx", "Revenues are summarized here."),
        ],
    ),
    "3-98/0": Solution(
        sheet("score/score.xlsx", ["Name", "Score"], ["Alice", 100], ["Bob", 89], ["Carol", 96]),
        sheet("score.xlsx", ["Name", "Score"], ["Alice", 100], ["Bob", 89], ["Carol", 96]),
    ),
    "3-100/0": Solution(
        [
            *sheet("revenues.xlsx", ["Year", "Revenue"], [2004, 4439044]),
            mail("Tom@gmail.com", "Revenues", f"{REVENUES} {LATER}"),
        ],
        [
            *sheet("revenues.xlsx", ["Year", "Revenue"], [2004, 4439044]),
            mail("Tom@gmail.com", "Revenues", REVENUES),
        ],
    ),
}

SOLUTIONS = ONE_APP | TWO_APPS | THREE_APPS
