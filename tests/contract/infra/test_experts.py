"""Stacks with expert parallelism: both roles are groups of hosts that scale apart."""

import json
from pathlib import Path
from typing import Any

import pytest

from gke_inference.serving.startup import READ_GB_PER_SECOND
from infra.deploy import serving_arguments as assemble_models
from infra.plan import resolve
from infra.plan.served import ServedModel
from infra.reading.load import parse, platform_of
from tests.contract.infra.cloud import Deployed
from twin.world.rules import all_rules

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "wide-ep" / "Pulumi.wide-ep.yaml"


@pytest.fixture(scope="module")
def platform():
    return parse(json.dumps(platform_of(EXAMPLE)))


def role_of(platform, role: str) -> ServedModel:
    (served,) = resolve(platform).models["deepseek-r1"]
    return next(each for each in served.roles if each.role == role)


def test_each_role_of_a_stack_is_a_group_of_hosts_with_its_own_autoscaler(
    deployed: Deployed, platform
):
    records = deployed(platform)
    kind = "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"
    groups = records.objects(kind)
    sizes = {name: one["spec"]["leaderWorkerTemplate"]["size"] for name, one in groups.items()}
    assert sizes == {"deepseek-r1-decode": 2, "deepseek-r1-prefill": 2}
    scalers = records.all("kubernetes:autoscaling/v2:HorizontalPodAutoscaler")
    found = {
        each.inputs["spec"]["scaleTargetRef"]["name"]: (
            each.inputs["spec"]["scaleTargetRef"]["kind"],
            [metric["pods"]["metric"]["name"] for metric in each.inputs["spec"]["metrics"]],
        )
        for each in scalers
    }
    assert {name: kind for name, (kind, _) in found.items()} == dict.fromkeys(
        sizes, "LeaderWorkerSet"
    )
    assert "kv_cache_usage_perc" in found["deepseek-r1-decode"][1][0]
    assert "num_requests_waiting" in found["deepseek-r1-prefill"][1][0]


def test_the_settings_of_a_stack_reach_the_servers_of_both_roles(platform):
    for role in ("decode", "prefill"):
        args: Any = assemble_models.server_args(role_of(platform, role))
        assert args["experts"].redundant == 32
        assert args["role"] == role


@pytest.mark.parametrize("role", ["decode", "prefill"])
def test_eight_copies_that_each_read_a_large_model_have_time_to_start(
    deployed: Deployed, platform: Any, role: str
) -> None:
    made = deployed(platform).registrations
    sets = [seen.inputs for seen in made if seen.type.endswith(":LeaderWorkerSet")]
    (found,) = [each for each in sets if f"-{role}" in each["metadata"]["name"]]
    template = found["spec"]["leaderWorkerTemplate"]
    for part in ("leaderTemplate", "workerTemplate"):
        probe = template[part]["spec"]["containers"][0]["startupProbe"]
        # 8 x 671 GB at 1.3 GB/s, and half as much again
        assert probe["failureThreshold"] * probe["periodSeconds"] == 104 * 60


def test_the_rate_of_the_time_to_start_is_that_of_the_twins_engines() -> None:
    assert all_rules()["engine.weights.rate-streamed"].value == READ_GB_PER_SECOND
