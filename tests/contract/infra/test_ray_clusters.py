"""A stack whose model is on Ray clusters: what a region builds for it, and what it leaves out."""

import json
from functools import partial
from typing import Any

import pytest

from infra.plan import resolve
from infra.plan.image_names import needed
from infra.reading.load import parse, settings_in
from infra.stack.problems import StackError
from tests.contract.infra.broken_stacks import edited, folder_of
from tests.contract.infra.test_checked_stacks import example


def test_the_cluster_has_the_ray_operator_and_no_operator_of_groups(deployed: Any) -> None:
    seen = deployed(example("ray"))
    cluster = seen.one("gcp:container/cluster:Cluster").inputs
    assert cluster["addonsConfig"]["rayOperatorConfigs"] == [{"enabled": True}]
    assert "group_operator" not in needed(resolve(example("ray")))
    kinds = {each.type.rpartition(":")[2] for each in seen.registrations}
    assert "RayCluster" in kinds
    assert not kinds & {"HorizontalPodAutoscaler", "LeaderWorkerSet"}


def test_a_stack_without_such_a_model_has_no_ray_operator(deployed: Any) -> None:
    cluster = deployed(example("multi-host")).one("gcp:container/cluster:Cluster").inputs
    assert "rayOperatorConfigs" not in cluster["addonsConfig"]


def test_a_replica_is_priced_by_the_cluster_that_makes_its_pods() -> None:
    (served,) = resolve(example("ray")).models["llama-3.1-405b"]
    assert served.controllers("gpu") == ["llama-3-1-405b-gpu-0", "llama-3-1-405b-gpu-1"]


def test_a_team_has_none_as_its_platform_does_not_know_of_them() -> None:
    model = ["models", "llama-3.1-8b"]
    edits = [
        {"at": [*model, "spanning"], "value": "kuberay"},
        {"at": [*model, "replicas"], "value": {"min": 1, "max": 1}},
    ]
    text = json.dumps(edited("teams/search", edits))
    with pytest.raises(StackError) as refused:
        parse(text, partial(settings_in, folder_of("teams/search")))
    assert str(refused.value.problems[0]) == (
        "models.llama-3.1-8b.spanning: must be engine or ray when layer is serving, got 'kuberay'"
    )
