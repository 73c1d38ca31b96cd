"""The engine model beside runs of real engines."""

from statistics import median

from simulator.engine.accuracy import closed_loops, traces


def test_runs_of_dense_models_are_as_near_as_those_of_the_best_published_simulator():
    dense = [one.errors for one in (*traces(), *closed_loops()) if not one.is_mixture]
    assert len(dense) == 15
    assert max(abs(each["e2e"]) for each in dense) <= 0.067
    assert max(abs(each["e2e_p99"]) for each in dense if "e2e_p99" in each) <= 0.092
    assert median(abs(each["tpot"]) for each in dense) <= 0.071
    assert median(abs(each["ttft"]) for each in dense) <= 0.176


def test_most_runs_were_not_fitted():
    found = (*traces(), *closed_loops())
    assert sum(one.is_fitted for one in found) < len(found) / 2 + 1
    assert not any(one.is_fitted for one in found if "Qwen" in one.name)
