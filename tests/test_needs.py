"""What a machine lacks is skipped by name and counted, and what it has is not."""

from __future__ import annotations

from collections.abc import Iterator

import needs
import pytest
from needs import NEEDS, Need


@pytest.fixture
def two_needs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(NEEDS, "anvil", Need(lambda: "the anvil is missing", "the forge", "`make anvil`"))
    monkeypatch.setitem(NEEDS, "hammer", Need(lambda: "", "the forge", "`make hammer`"))
    yield
    needs.unmet.cache_clear()


@pytest.mark.usefixtures("two_needs")
def test_what_is_missing_is_summed_up_with_its_remedy() -> None:
    reasons = [NEEDS["anvil"].reason, "another reason", NEEDS["anvil"].reason]
    assert list(needs.summary(reasons)) == ["the anvil is missing: 2 tests of the forge skipped; `make anvil`"]
    assert list(needs.summary(["another reason"])) == []


@pytest.mark.usefixtures("two_needs")
def test_only_what_needs_something_missing_is_skipped(request: pytest.FixtureRequest) -> None:
    item = pytest.Function.from_parent(request.node.parent, name=request.node.name, originalname=request.node.name)
    for marks, skipped in (([], False), (["hammer"], False), (["hammer", "anvil"], True)):
        item.own_markers[:] = [needs.needs(name).mark for name in marks]
        needs.skip_unmet([item])
        reasons = [mark.kwargs["reason"] for mark in item.iter_markers("skip")]
        assert reasons == [NEEDS["anvil"].reason] * skipped


@pytest.mark.usefixtures("two_needs")
def test_a_test_asks_in_the_middle_as_well() -> None:
    needs.require("hammer")
    with pytest.raises(pytest.skip.Exception, match="the anvil is missing"):
        needs.require("hammer", "anvil")


def test_a_need_that_nobody_knows_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="bubblewarp"):
        needs.needs("bubblewarp")
