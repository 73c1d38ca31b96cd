"""A stack with a model whose prompts are computed apart, as arguments of the components."""

import json
from typing import Any

from gke_inference.intent.words import Role
from gke_inference.serving.autoscaling import autoscaler
from gke_inference.serving.disaggregation import ROLE_LABEL
from gke_inference.serving.model_plan import model_plan
from gke_inference.serving.settings import ScalingTargets
from infra.deploy import serving_arguments as assemble_models
from infra.deploy.observability import observed_models
from infra.plan import ServedModel, resolve
from infra.plan.names import object_name, resolve_names
from infra.reading.load import parse
from infra.stack import Platform
from tests.contract.infra.broken_stacks import edited
from tests.contract.infra.cloud import Deployed
from tests.contract.infra.resolved import region_of, served_in

MODEL = "llama-3.3-70b"
OTHERS = ("gemma-3-27b", "qwen3-32b", "qwen3-embedding-0.6b")


def platform(**prefill: Any) -> Platform:
    """Return prod with a model in two roles, and one beside it that is whole."""
    wanted = {"prefill": {"replicas": {"min": 2, "max": 6}, **prefill}, "threshold_tokens": 512}
    h200 = edited("prod", [])["capacity"]["heavy"]["rungs"][0]
    zones = h200["reservation_zones"]
    spot = {
        "accelerator": h200["accelerator"],
        "count": 8,
        "provisioning": "spot",
        "zones": zones,
    }
    regions = sorted({zone.rpartition("-")[0] for zone in zones})
    edits = [
        {"at": ["models", MODEL, "disaggregated"], "value": wanted},
        {"at": ["models", MODEL, "disk"], "remove": True},
        {"at": ["models", MODEL, "regions"], "value": regions},
        *({"at": ["models", name], "remove": True} for name in OTHERS),
        {"at": ["capacity", "heavy"], "value": {"rungs": [h200]}},
        {"at": ["capacity", "prompts"], "value": {"rungs": [spot]}},
    ]
    return parse(json.dumps(edited("prod", edits)))


def first_region(prod: Platform) -> str:
    return next(iter(prod.regions_of(prod.models[MODEL])))


def roles(prod: Platform) -> tuple[ServedModel, ServedModel]:
    """Return the replicas of the model that answer, and those that compute prompts."""
    decode, prefill = served_in(prod, MODEL, first_region(prod)).roles
    return decode, prefill


def test_the_roles_are_two_servers_of_one_model():
    prod = platform()
    decode, prefill = (assemble_models.server_args(role) for role in roles(prod))
    assert (decode.get("role"), prefill.get("role")) == ("decode", "prefill")
    assert decode["model"] == prefill["model"]
    assert decode["replicas"] == prod.models[MODEL].replicas
    assert prefill["replicas"].min == 2
    assert prefill["rungs"] == decode["rungs"]


def test_prefill_may_have_a_capacity_of_its_own():
    prod = platform(capacity="prompts")
    prefill = assemble_models.server_args(roles(prod)[1])
    assert [rung.provisioning.value for rung in prefill["rungs"]] == ["spot"]
    assert region_of(prod, first_region(prod)).capacity["prompts"].is_used


def test_prefill_follows_its_queue_and_decode_its_cache():
    prod = platform()
    answers, computes = roles(prod)
    region = region_of(prod, first_region(prod))
    decode = assemble_models.scaling_args(region, answers)["llama-3-3-70b-decode"]
    prefill = assemble_models.prefill_scaling_args(region, computes)["llama-3-3-70b-prefill"]
    assert (decode.get("signals"), prefill.get("signals")) == (["kv-cache"], ["queue"])
    assert (prefill["replicas"].min, prefill["replicas"].max) == (2, 6)


def test_each_role_has_its_own_targets():
    prod = platform(autoscaling={"queue_depth": 2, "running_requests": 4})
    answers, computes = roles(prod)
    region = region_of(prod, first_region(prod))
    decode = assemble_models.scaling_args(region, answers)["llama-3-3-70b-decode"]
    prefill = assemble_models.prefill_scaling_args(region, computes)["llama-3-3-70b-prefill"]
    assert prefill.get("targets") == ScalingTargets(queue_depth=2, running_requests=4)
    assert "running_requests" not in decode
    metrics = [
        (
            metric["pods"]["metric"]["name"].split("|")[1],
            metric["pods"]["target"]["averageValue"],
        )
        for metric in autoscaler(prefill)["spec"]["metrics"]
    ]
    assert metrics == [("vllm:num_requests_waiting", "2"), ("vllm:num_requests_running", "4")]


def test_both_roles_are_watched_by_the_names_of_their_deployments():
    prod = platform(capacity="prompts")
    made: list[str] = []
    for role in roles(prod):
        args = assemble_models.server_args(role)
        made += model_plan(args, list(role.rungs.values())).deployments.values()
        assert role.deployments == model_plan(args, list(role.rungs.values())).deployments
    (found,) = [
        model for model in observed_models(resolve(prod)) if model["job"] == object_name(MODEL)
    ]
    assert found["deployments"] == sorted(made)
    prices = found.get("prices", {})
    assert sorted(prices) == sorted(made)
    assert prices[f"{object_name(MODEL)}-prefill"] < prices[f"{object_name(MODEL)}-decode"]  # spot


def test_an_alert_misses_each_role_in_each_cluster_and_series_say_it(deployed: Deployed):
    records = deployed(platform())
    (alert,) = [seen for seen in records.registrations if seen.name == "alerts-no-ready-replica"]
    (condition,) = alert.inputs["conditions"]
    asked = condition["conditionPrometheusQueryLanguage"]["query"]
    cluster = resolve_names(platform()).cluster(first_region(platform()))
    for role in Role:
        assert f'job="{object_name(MODEL)}",cluster="{cluster}",role="{role}"' in asked
    assert asked.count("role=") == len(Role) * len(platform().regions_of(platform().models[MODEL]))
    said = {
        seen.inputs["metadata"]["name"]
        for seen in records.registrations
        if seen.type.endswith(":PodMonitoring")
        and {"from": ROLE_LABEL, "to": "role"}
        in seen.inputs["spec"].get("targetLabels", {}).get("fromPod", [])
    }
    assert said == {object_name(MODEL)}


def test_a_model_that_is_whole_has_no_prefill():
    prod = parse_prod()
    served = served_in(prod, MODEL, first_region(prod))
    assert (served.role, served.prefill) == ("serve", None)
    assert "role" not in assemble_models.server_args(served)


def parse_prod() -> Platform:
    return parse(json.dumps(edited("prod", [])))
