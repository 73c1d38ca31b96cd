"""A stack whose model is on Ray clusters: what a region builds for it, and what it leaves out."""

import json
from functools import partial
from typing import Any

import pytest

from infra.deploy.observability import observed_models
from infra.plan import resolve
from infra.reading.load import parse, settings_in
from infra.stack.problems import StackError
from tests.contract.infra.broken_stacks import edited, folder_of
from tests.contract.infra.test_checked_stacks import example


def test_the_cluster_has_the_ray_operator_and_no_operator_of_groups(deployed: Any) -> None:
    seen = deployed(example("ray"))
    cluster = seen.one("gcp:container/cluster:Cluster").inputs
    assert cluster["addonsConfig"]["rayOperatorConfigs"] == [{"enabled": True}]
    assert "group_operator" not in resolve(example("ray")).images.needed
    kinds = {each.type.rpartition(":")[2] for each in seen.registrations}
    assert "RayCluster" in kinds
    assert "LeaderWorkerSet" not in kinds


def test_an_autoscaler_targets_the_set_of_clusters(deployed: Any) -> None:
    seen = deployed(example("ray"))
    (scaler,) = seen.all("kubernetes:autoscaling/v2:HorizontalPodAutoscaler")
    (made,) = seen.all("kubernetes:gke-inference.internal/v1:RayClusterSet")
    assert scaler.inputs["spec"]["scaleTargetRef"] == {
        "apiVersion": made.inputs["apiVersion"],
        "kind": made.inputs["kind"],
        "name": made.inputs["metadata"]["name"],
    }
    clusters = seen.all("kubernetes:ray.io/v1:RayCluster")
    assert made.inputs["spec"]["clusters"] == [each.inputs["metadata"]["name"] for each in clusters]
    assert len(clusters) == scaler.inputs["spec"]["maxReplicas"]
    assert scaler.inputs["spec"]["minReplicas"] == made.inputs["spec"]["replicas"]
    assert named(seen, "RayScaler")


def named(seen: Any, component: str) -> list[str]:
    return [each.name for each in seen.registrations if each.type.endswith(f":{component}")]


def test_a_stack_without_such_a_model_has_no_ray_operator(deployed: Any) -> None:
    seen = deployed(example("multi-host"))
    cluster = seen.one("gcp:container/cluster:Cluster").inputs
    assert "rayOperatorConfigs" not in cluster["addonsConfig"]
    assert named(seen, "RayScaler") == []


def test_a_replica_is_priced_by_the_cluster_that_makes_its_pods_and_watched_by_its_set() -> None:
    (watched,) = observed_models(resolve(example("ray")))
    clusters = [f"llama-3-1-405b-gpu-{number}" for number in range(3)]
    assert list(watched.get("prices", {})) == clusters
    assert watched["deployments"] == ["llama-3-1-405b-gpu"]  # the autoscaler's name


def test_a_canary_has_clusters_a_set_and_a_disruption_budget_of_its_own(deployed: Any) -> None:
    words = {"replicas": {"min": 1, "max": 2}, "version": "v2", "weights": "llama-3.1-405b-v2"}
    edits = [{"at": ["models", "llama-3.1-405b", "canary"], "value": words}]
    text = json.dumps(edited("ray/ray", edits))
    seen = deployed(parse(text, partial(settings_in, folder_of("ray/ray"))))
    sets = seen.all("kubernetes:gke-inference.internal/v1:RayClusterSet")
    listed = [name for each in sets for name in each.inputs["spec"]["clusters"]]
    clusters = seen.all("kubernetes:ray.io/v1:RayCluster")
    assert sorted(listed) == sorted(each.inputs["metadata"]["name"] for each in clusters)
    assert len(listed) == 3 + 2
    budgets = seen.all("kubernetes:policy/v1:PodDisruptionBudget")
    least = {
        each.inputs["metadata"]["name"]: each.inputs["spec"].get("minAvailable") for each in budgets
    }
    kept = {least[each.inputs["spec"]["disruptionBudget"]] for each in sets}
    assert kept == {2 * 2 - 1, 1 * 2 - 1}


def test_a_team_has_none_as_its_platform_does_not_know_of_them() -> None:
    model = ["models", "llama-3.1-8b"]
    edits = [
        {"at": [*model, "spanning"], "value": "kuberay"},
    ]
    text = json.dumps(edited("teams/search", edits))
    with pytest.raises(StackError) as refused:
        parse(text, partial(settings_in, folder_of("teams/search")))
    assert str(refused.value.problems[0]) == (
        "models.llama-3.1-8b.spanning: must be engine or ray when layer is serving, got 'kuberay'"
    )
