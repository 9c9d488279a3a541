"""The model on paper of a cluster: its bounds hold, and it names the one that holds first."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given, strategies as st

import cluster
from cluster import Costs, Load, agents_needed, fit_costs, throughput

seconds = st.floats(1e-4, 1.0)
costs_of = st.builds(Costs, seconds, seconds, seconds)


def test_the_examples_are_true() -> None:
    assert doctest.testmod(cluster).failed == 0


@given(costs_of, seconds, st.integers(1, 10_000), st.floats(1, 2000), st.floats(0, 10), st.floats(0.1, 1000))
def test_no_bound_is_passed_and_more_never_slows_it_down(
    costs: Costs, environment: float, agents: int, cores: float, thinking: float, rate: float
) -> None:
    limit = throughput(costs, environment, agents, cores=cores, thinking=thinking, model_rate=rate)
    assert limit.rate * costs.driver <= 1 + 1e-9
    assert limit.rate * (costs.node + environment) <= cores * (1 + 1e-9)
    assert limit.rate <= rate
    assert limit.rate * (costs.latency + environment + thinking) <= agents * (1 + 1e-9)
    assert throughput(costs, environment, agents + 1, cores=cores + 1, thinking=thinking).rate >= limit.rate
    slower = throughput(costs, environment, agents, cores=cores, thinking=thinking + 1, model_rate=rate)
    assert slower.rate <= limit.rate


@given(costs_of, seconds, st.floats(1, 2000), st.floats(0, 10))
def test_so_many_agents_as_are_needed_are_no_limit_and_half_of_them_are(
    costs: Costs, environment: float, cores: float, thinking: float
) -> None:
    needed = agents_needed(costs, environment, cores=cores, thinking=thinking)
    enough = throughput(costs, environment, int(needed) + 1, cores=cores, thinking=thinking)
    assert enough.rate == pytest.approx(throughput(costs, environment, 10**12, cores=cores, thinking=thinking).rate)
    if needed >= 4:
        assert throughput(costs, environment, int(needed / 2), cores=cores, thinking=thinking).by == "agents"


def test_the_costs_come_from_environments_that_do_nothing() -> None:
    measured = [Load(1, 0, 100, 0.5, 0.3, 0.3), Load(16, 0, 1600, 3.2, 3.2, 1.6), Load(16, 10, 1600, 9.0, 9.0, 9.0)]
    costs = fit_costs(measured)
    assert (costs.driver, costs.node, costs.latency) == pytest.approx((0.002, 0.001, 0.005))
