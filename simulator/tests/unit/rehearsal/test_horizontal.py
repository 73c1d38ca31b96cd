"""The autoscaler's decisions: metrics to replicas, windows, policies, missing values."""

import pytest

from simulator.rehearsal.horizontal import (
    Autoscaler,
    History,
    Metric,
    NoMetricError,
    Pods,
    Policy,
    Rules,
    decide,
    desired,
    parse,
    proposal,
)

QUEUE = Metric("queue", 5.0)
CACHE = Metric("cache", 0.8)
UNPLACED = Metric("unplaced", 1.0, is_external=True)
UP = Rules(0.0, (Policy(True, 100, 15), Policy(False, 4, 15)))
DOWN = Rules(300.0, (Policy(False, 1, 120),))


def scaler(*metrics, least=1, most=10, up=UP, down=DOWN):
    return Autoscaler("llm", least, most, metrics or (QUEUE,), up, down)


def pods(queue, *, running=None, pending=0, **more):
    count = len(queue) if running is None else running
    return Pods({"queue": queue, **more}, count, pending)


@pytest.mark.parametrize(
    ("queue", "running", "pending", "wanted"),
    [
        ([10, 10], 2, 0, 4),  # twice the target
        ([5.4, 5.4], 2, 0, 2),  # within the tolerance of a tenth
        ([1, 1, 1, 1], 4, 0, 1),
        ([20], 1, 1, 4),  # a pending pod counts as idle: 10 on average
        ([7], 1, 1, 2),  # with it, the load would be below the target: no change
        ([1], 2, 0, 2),  # a running pod without a value counts as at its target
        ([20], 2, 0, 4),  # or as idle where the load is high
    ],
)
def test_a_metric_proposes_replicas_from_the_average_of_its_pods(queue, running, pending, wanted):
    found = pods(queue, running=running, pending=pending)
    assert proposal(QUEUE, running + pending, found) == wanted


def test_a_number_of_replicas_as_a_metric_is_exact_up_to_ten():
    def reached(wanted):
        return [
            proposal(UNPLACED, current, Pods({}, current, 0, {"unplaced": wanted}))
            for current in range(1, wanted)
        ]

    assert all(set(reached(wanted)) == {wanted} for wanted in range(2, 11))
    assert reached(11)[-1] == 10


def test_an_external_metric_proposes_its_value_over_its_target_also_from_zero():
    assert proposal(UNPLACED, 0, Pods({}, 0, 0, {"unplaced": 3.0})) == 3
    assert proposal(UNPLACED, 2, Pods({}, 2, 0, {"unplaced": 0.0})) == 0


def test_a_metric_without_pods_or_values_has_no_proposal():
    for found in (Pods({}, 0, 0), Pods({"queue": []}, 2, 0)):
        with pytest.raises(NoMetricError):
            proposal(QUEUE, found.running, found)


def test_the_largest_proposal_wins_and_a_missing_metric_only_prevents_a_scale_in():
    both = scaler(QUEUE, CACHE)
    assert desired(both, 2, Pods({"queue": [10, 10], "cache": [0.1, 0.1]}, 2, 0)) == 4
    assert desired(both, 2, Pods({"queue": [10, 10]}, 2, 0)) == 4
    assert desired(both, 2, Pods({"queue": [0, 0]}, 2, 0)) is None


def test_a_scale_out_doubles_or_adds_four_in_15_seconds():
    history = History()
    assert decide(scaler(), 1, pods([100]), history, 0.0) == 5
    assert decide(scaler(), 5, pods([100] * 5), history, 10.0) == 5
    assert decide(scaler(), 5, pods([100] * 5), history, 16.0) == 10


def test_a_scale_in_waits_for_its_window_and_removes_one_replica_at_a_time():
    history, found = History(), []
    current = 4
    for at in range(0, 600, 15):
        load = [5.0] * current if at == 0 else [0.0] * current
        wanted = decide(scaler(), current, pods(load), history, float(at))
        if wanted != current:
            found.append((at, wanted))
        current = wanted
    assert found == [(300, 3), (420, 2), (540, 1)]


def test_bounds_apply_at_once_and_a_target_at_zero_with_a_minimum_stays_there():
    history = History()
    assert decide(scaler(least=2), 1, pods([0]), history, 0.0) == 2
    assert decide(scaler(most=3), 5, pods([100] * 5), history, 15.0) == 3
    assert decide(scaler(least=1), 0, Pods({}, 0, 0), history, 30.0) == 0


def test_an_object_is_read_with_the_defaults_of_kubernetes():
    metric = {
        "type": "Pods",
        "pods": {
            "metric": {"name": "cache"},
            "target": {"type": "AverageValue", "averageValue": "800m"},
        },
    }
    found = parse({"metadata": {"name": "llm"}, "spec": {"maxReplicas": 3, "metrics": [metric]}})
    assert found == Autoscaler(
        "llm", 1, 3, (Metric("cache", 0.8),), UP, Rules(300.0, (Policy(True, 100, 15),))
    )
