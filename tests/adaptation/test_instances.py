"""Instances of the evidence are refused wherever they stood; words that anybody would use are not."""

from __future__ import annotations

import string
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from recompact.adaptation.lock import broken_rules, instances_in, names
from recompact.values.template import Template, default_template

TEMPLATE = default_template()
FILLER = "the agent looked at the list, then it paid what was due and said so."


def naming(literal: str) -> Template:
    """The default template with a clause that names a literal."""
    goal = "## Goal\n"
    return replace(TEMPLATE, first=TEMPLATE.first.replace(goal, f"{goal}- Keep {literal} in view.\n", 1))


letters = st.text("bdfghjklmnpqrstvwxz", min_size=3, max_size=8)  # no vowels: no ordinary words
digits = st.text(string.digits, min_size=3, max_size=6)
people = st.tuples(letters, letters).map(lambda pair: " ".join(word.capitalize() for word in pair))
INSTANCES = st.one_of(
    people,
    st.tuples(letters, digits).map("".join),
    st.tuples(letters, digits).map("-".join),
    st.tuples(letters, letters).map(lambda pair: f"{pair[0]}.{pair[1]}@post.example"),
    st.dates().map(lambda date: f"{date.year:04d}-{date.month:02d}-{date.day:02d}"),
    st.decimals(1, 9999, places=2).map(str),
    st.integers(10_000, 10**9).map(str),
    st.tuples(letters, st.sampled_from(["pdf", "xlsx", "docx", "csv"])).map(".".join),
)


@given(INSTANCES, st.sampled_from(["{}", '{{"value":"{}"}}', "see ({}), please", "It was {}."]))
def test_an_instance_is_caught_wherever_it_stands(literal: str, frame: str) -> None:
    text = frame.replace("{{", "{").replace("}}", "}").replace("{}", literal)
    instances = instances_in((FILLER, text), TEMPLATE.parts().values())
    assert any(names(literal, found) for found in instances), (literal, instances)
    assert broken_rules(TEMPLATE, naming(literal), instances)


GENERIC = [
    "Access Token",
    "access token",
    "utf-8",
    "UTF-8",
    "sha256",
    "iso-8601",
    "base64",
    "oauth2",
    "24-hour",
    "1st",
    "Next Steps",
    "User Name",
    "Credit Card",
]


@pytest.mark.parametrize("word", GENERIC)
def test_generic_words_are_no_instances(word: str) -> None:
    text = f"The {word} was used. {word} again: {word}"
    assert not any(names(word, found) for found in instances_in((FILLER, text), TEMPLATE.parts().values()))
    assert broken_rules(TEMPLATE, naming(word), instances_in((text,))) == ()


@given(letters, letters)
def test_a_phrase_that_the_texts_also_write_small_is_no_instance(first: str, second: str) -> None:
    phrase = f"{first.capitalize()} {second.capitalize()}"
    assert phrase in instances_in((f"It is {phrase} here.",))
    for small in (f"the {first} {second} has expired", f'{{"{first}_{second}": 1}}'):
        assert phrase not in instances_in((f"It is {phrase} here.", small))
    # A user name in a value is the person's own, and makes nobody an ordinary word.
    assert phrase in instances_in((f"It is {phrase} here.", f'{{"user": "{first}_{second}"}}'))
    assert phrase in instances_in((f"It is {phrase} here.", f"{first}.{second}@post.example"))


@given(letters, digits)
def test_tools_and_what_belongs_to_everybody_are_no_instances(word: str, number: str) -> None:
    tool = f"{word}{number}"
    assert tool in instances_in((f"id {tool}",))
    assert tool not in instances_in((f"-> {tool}({{}})", f"call {tool} first"))
    assert tool not in instances_in((f"call {tool} first",), (f"the policy says {tool}",))


@pytest.mark.parametrize("name", ["list_v2_orders", "payments.send_v2"])
def test_names_of_interfaces_are_no_instances(name: str) -> None:
    assert not instances_in((f'{{"api": "{name}"}} and {name}()',))


def test_case_and_neighbours_do_not_hide_an_instance() -> None:
    instances = instances_in(["Dear Ann Miller, José García and Mary-Jane O'Neil paid; call 555-239-8396."])
    assert {"Ann Miller", "José García", "555-239-8396"} <= instances
    assert broken_rules(TEMPLATE, naming("ann miller"), instances)
    assert not broken_rules(TEMPLATE, naming("annotations"), instances)


def test_an_underscore_is_part_of_a_word() -> None:
    assert names("set _x7 to 1", "_x7")
    assert not names("set max_x7 to 1", "_x7")
    assert not names("set _x7y to 1", "_x7")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It was Ann Miller.", {"Ann Miller"}),
        ("It was Ann Mary Miller.", {"Ann Mary", "Mary Miller"}),
        ("It was Ann", set()),  # a single word is no name
        ("see Dear Miller", set()),  # a word that begins sentences
        ("see Miller Dear", {"Miller Dear"}),
        ("see Error Miller", {"Error Miller"}),  # one ordinary word beside a name
        ("see Miller Error", {"Miller Error"}),
        ("see Error Message", set()),  # two ordinary words
        ("see Policy Miller", {"Policy Miller"}),
        ("see Policy Error", set()),  # a word of what belongs to everybody
        ("see Access Token", set()),
    ],
)
def test_names_are_pairs_of_capitalised_words_that_are_not_both_ordinary(text: str, found: set[str]) -> None:
    assert instances_in((text,), ("the policy",)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("call box.t1042(3) then t1042", set()),
        ("call t1042.run(3) then t1042", set()),
        ('{"t1042": 1} and t1042', {"t1042"}),  # digits inside are no key of a record
        ('{"part_2": 1} and part_2', set()),
        ("key_name= and t1042", {"t1042"}),
        ("sha256 and t1042 and UTF-8", {"t1042"}),
    ],
)
def test_functions_and_keys_are_words_of_the_suite(text: str, found: set[str]) -> None:
    assert instances_in((text,)) == found


def test_a_phrase_is_ordinary_if_any_text_writes_it_small_or_as_a_key() -> None:
    phrase = "see Blue Harbour"
    assert instances_in((phrase,)) == {"Blue Harbour"}
    assert instances_in((phrase, "the blue harbour is far")) == frozenset()
    assert instances_in((phrase,), ("the blue harbour is far",)) == frozenset()
    assert instances_in((phrase, '{"blue_harbour": 1}')) == frozenset()
    assert instances_in((phrase, "blue_harbour=1")) == frozenset()
    assert instances_in((phrase, '{"blue": "harbour"}')) == {"Blue Harbour"}
    assert instances_in((phrase, "blue, harbour")) == {"Blue Harbour"}


@pytest.mark.parametrize(
    ("text", "literal", "named"),
    [
        ("pay t12 now", "t12", True),
        ("pay xt12 now", "t12", False),
        ("pay t123 now", "t12", False),
        ("pay T12", "t12", True),
        ("costs x$5 now", "$5", True),  # what begins with a sign may stand right after a word
        ("costs $55 now", "$5", False),
        ("a.b", "a.b", True),
        ("axb", "a.b", False),
    ],
)
def test_a_literal_is_named_as_a_whole(text: str, literal: str, named: bool) -> None:
    assert names(text, literal) is named
