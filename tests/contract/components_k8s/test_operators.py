"""What holds for every operator that this project installs."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from gke_inference.operators import group_operator, queue_operator
from gke_inference.operators.job_sets import job_set_operator

OPERATORS = {
    "groups": (group_operator, group_operator.LeaderWorkerSetOperator),
    "job sets": (job_set_operator, job_set_operator.JobSetOperator),
    "queues": (queue_operator, queue_operator.QueueOperator),
}


@pytest.fixture(params=OPERATORS)
def operator(request: pytest.FixtureRequest) -> tuple[ModuleType, Callable[..., Any]]:
    return OPERATORS[request.param]


@pytest.mark.parametrize("replicas", [0, 6])
def test_replicas_outside_the_range_are_refused(
    recorder: Any, operator: tuple[ModuleType, Callable[..., Any]], replicas: int
) -> None:
    _, build = operator
    with pytest.raises(Exception, match=f"must be 1 to 5, got {replicas}"):
        recorder.run(lambda: build("operator", {"replicas": replicas}).namespace)


def test_every_role_is_bound_and_every_bound_one_is_there(
    operator: tuple[ModuleType, Callable[..., Any]],
) -> None:
    module, _ = operator
    objects = module.operator_objects().values()
    made = {(o["kind"], o["metadata"]["name"]) for o in objects if "rules" in o}
    bound = {(o["roleRef"]["kind"], o["roleRef"]["name"]) for o in objects if "roleRef" in o}
    assert made == bound


def test_it_reads_secrets_in_its_own_namespace_only(
    operator: tuple[ModuleType, Callable[..., Any]],
) -> None:
    module, _ = operator
    with_secrets = [
        (obj["kind"], obj["metadata"].get("namespace"))
        for obj in module.operator_objects().values()
        if any("secrets" in rule["resources"] for rule in obj.get("rules", ()))
    ]
    assert with_secrets == [("Role", module.NAMESPACE)]
