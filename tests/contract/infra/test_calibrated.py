"""Each model and rung of a stack, from its objects and the labels of its metrics."""

import re
from collections.abc import Mapping

import pytest

from gke_inference.catalogue.engines import engine
from infra.plan import Plan, resolve
from infra.reading.load import read
from scripts.calibrate.comparing import Comparison
from scripts.calibrate.stack import Site, Window, compare_stack
from scripts.rehearse.engine_settings import settings_of, template_of
from simulator.dialects.sglang_metrics import SglangMetrics
from simulator.engine.metrics import EngineMetrics
from simulator.engine.settings import Deployment
from tests.contract.infra.resolved import stack
from tests.unit.calibrate.recorded import END, Recorded
from tests.unit.calibrate.virtual import scraped
from twin.host.paths import REPOSITORY
from twin.providers.kubernetes.manifests.objects import to_object
from twin.wire.kube import JsonObject, KubeError

ENGINES = REPOSITORY / "docs/examples/engines"
L4 = {"cloud.google.com/gke-accelerator": "nvidia-l4"}
TPU = {
    "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
    "cloud.google.com/gke-tpu-topology": "2x2",
    "cloud.google.com/reservation-name": "v6e-local",
    "node.kubernetes.io/instance-type": "ct6e-standard-4t",
}


class Objects:
    """A cluster's objects, and nodes of one kind."""

    def __init__(self, objects: list[JsonObject], nodes: Mapping[str, Mapping[str, str]]) -> None:
        self._objects = objects
        self._nodes = nodes

    def list(self, path: str) -> list[JsonObject]:
        assert path == "/api/v1/nodes"
        return [{"metadata": {"name": k, "labels": v}} for k, v in self._nodes.items()]

    def get(self, path: str) -> JsonObject:
        name = path.rpartition("/")[2]
        for each in self._objects:
            if each["kind"] == "Deployment" and each["metadata"]["name"] == name:
                return each
        raise KubeError(404, "NotFound", f"{name} not found", {})


def objects_of(deployed, platform) -> list[JsonObject]:
    made = deployed(platform).registrations
    return [
        to_object(seen.inputs)
        for seen in made
        if seen.type.startswith("kubernetes:") and "kind" in seen.inputs
    ]


def node_of(plan: Plan, name: str) -> Mapping[str, str]:
    (region,) = plan.regions.values()
    served = next(each for each in region.served if each.name == name)
    machine = next(rung for rung in served.rungs.values() if rung.kind == "gpu").machine_type
    return {**L4, "node.kubernetes.io/instance-type": machine}


def labels_of(plan: Plan, name: str, node: str) -> dict[str, str]:
    (region,) = plan.regions.values()
    served = next(each for each in region.served if each.name == name)
    return {
        "cluster": region.cluster_name, "location": region.location, "namespace": region.namespace,
        "job": served.object_name, "pod": f"{served.object_name}-x", "node": node,
        "instance": f"{served.object_name}-x:8000",
    }  # fmt: skip


def metrics_of(name: str, deployment: Deployment) -> EngineMetrics:
    if name == "sglang":
        return SglangMetrics(deployment, page_size=1, interval=40)
    return EngineMetrics(deployment)


def by_model(rows: list[Comparison]) -> dict[str, Comparison]:
    return {row.model: row for row in rows}


@pytest.mark.parametrize("slow", ["llama-3.1-8b", "qwen3-4b"])
def test_of_two_models_only_the_slow_one_is_found_in_ten_minutes(deployed, slow: str) -> None:
    platform = read("engines", ENGINES)
    plan, recorded = resolve(platform), Recorded()
    (region,) = plan.regions.values()
    api = Objects(objects_of(deployed, platform), {"gpu": node_of(plan, slow)})
    for served in region.served:
        if served.version is not None:
            continue
        template, hosts = template_of(api.get(f"/{served.deployments['gpu']}"))
        made = settings_of(served, next(iter(served.rungs.values())), template, hosts)
        metrics = metrics_of(served.settings.engine, made)
        pages = scraped(made, 1.4 if served.name == slow else 1.0, 0.3, metrics=metrics)
        recorded.add(pages, labels_of(plan, served.name, "gpu"))

    rows = compare_stack([Site(region, api, recorded.history)], Window(10, END))

    found = by_model(rows)
    assert len(rows) == 3, "with the canary, which had no request"
    other = next(name for name in ("llama-3.1-8b", "qwen3-4b") if name != slow)
    result = found[slow].result
    assert result is not None
    assert result.factor == pytest.approx(1.4, rel=0.05)
    assert found[slow].verdict == "slower"
    healthy = found[other].result
    assert healthy is not None
    assert healthy.factor == pytest.approx(1.0, rel=0.05)
    assert found[other].verdict == "within the interval"
    assert found["llama-3.1-8b"].engine == "vLLM"
    assert found["qwen3-4b"].engine == "SGLang"
    (canary,) = (row for row in rows if row.model not in ("llama-3.1-8b", "qwen3-4b"))
    assert canary.verdict == "no replica"
    entry = found[slow].entry(10, END)
    assert entry is not None
    assert entry.model == slow
    assert entry.rung == "nvidia-l4 x1 on-demand"


def test_the_node_tells_the_rung_and_rungs_with_equal_engines_are_one_row(deployed) -> None:
    platform = stack("local")
    plan, recorded = resolve(platform), Recorded()
    (region,) = plan.regions.values()
    nodes = {"tpu": TPU, "gpu": node_of(plan, "llama-3.1-8b")}
    api = Objects(objects_of(deployed, platform), nodes)
    (served,) = region.served
    template, _ = template_of(api.get(f"/{served.deployments['gpu']}"))
    gpu = next(rung for rung in served.rungs.values() if rung.kind == "gpu")
    pages = scraped(settings_of(served, gpu, template), 1.0, 0.3, 300)
    recorded.add(pages, labels_of(plan, "llama-3.1-8b", "gpu"))
    gone = {**labels_of(plan, "llama-3.1-8b", "gone"), "pod": "ended", "instance": "ended:8000"}
    recorded.add(pages, gone)

    rows = compare_stack([Site(region, api, recorded.history)], Window(10, END))

    assert [(row.rung, row.found.replicas, row.verdict) for row in rows] == [
        ("tpu-v6e 2x2 reservation", 0, "no replica"),
        ("nvidia-l4 x1 on-demand, nvidia-l4 x1 spot", 1, "within the interval"),
        ("unknown", 1, "not compared: on nodes that are gone, or of no rung of the stack"),
    ]
    assert all('namespace="models",job=~"llama-3-1-8b"' in each for each in recorded.asked)
    assert all(f'cluster="{region.cluster_name}"' in each for each in recorded.asked)


def test_what_an_engine_does_not_export_is_said_in_its_row(deployed) -> None:
    model = stack("local").models["llama-3.1-8b"]
    other = model.model_copy(update={"engine": "triton", "adapters": ()})
    platform = stack("local").model_copy(update={"models": {"llama-3.1-8b": other}})
    (region,) = resolve(platform).regions.values()

    rows = compare_stack([Site(region, Objects([], {}), Recorded().history)], Window(10, END))

    assert [row.verdict for row in rows] == [
        "not compared: Triton with TensorRT-LLM exports no time between tokens"
    ]


def test_a_model_whose_deployment_is_missing_is_said_in_its_row() -> None:
    (region,) = resolve(stack("local")).regions.values()
    rows = compare_stack([Site(region, Objects([], {}), Recorded().history)], Window(10, END))
    assert [(row.rung, row.verdict) for row in rows] == [
        ("all", f"not compared: cluster {region.cluster_name} has no Deployment llama-3-1-8b-tpu")
    ]


def test_every_stored_metric_that_a_comparison_needs_is_scraped() -> None:
    for name in ("vllm", "sglang"):
        metrics = engine(name).metrics
        stored = re.compile("|".join(metrics.stored()))
        for needed in (
            f"{metrics.between_tokens}_count", f"{metrics.between_tokens}_sum",
            f"{metrics.first_token}_count", f"{metrics.first_token}_sum", metrics.prompt_tokens,
        ):  # fmt: skip
            assert stored.fullmatch(str(needed)), needed
