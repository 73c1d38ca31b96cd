"""Counters of two versions, and the share of a canary in a stack file."""

import json
import math
import shutil
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from infra.plan import Plan, resolve
from infra.reading.load import STACKS, parse
from infra.stack import Exposure, Front
from infra.stack.problems import StackError
from scripts.canary.comparison import Share
from scripts.canary.measuring import Measured, Version, counters_of, growth, versions_of
from scripts.canary.rollout import write_percent
from scripts.canary.steps import NotMeasurable
from twin.cluster.monitoring.promql import QueryError, Sample

EXAMPLE = STACKS.parent / "docs" / "examples" / "gitops"
CANARY, STABLE = (
    Version(name, "search", "lb:https", "vllm:ttft", is_twin=True) for name in ("llama-v2", "llama")
)


def test_a_counter_that_is_new_or_began_again_grew_from_nothing():
    key = frozenset({("pod", "a")})
    assert growth({}, {key: 7.0}) == {key: 7.0}
    assert growth({key: 5.0}, {key: 7.0}) == {key: 2.0}
    assert growth({key: 5.0}, {key: 1.0}) == {key: 1.0}


def test_series_of_two_clusters_are_two_counters():
    samples = [Sample({"pod": "a"}, 1.0, 0.0), Sample({"pod": "b"}, math.nan, 0.0)]
    found = {**counters_of(samples, "us-east5"), **counters_of(samples, "us-central1")}
    assert sorted(found.values()) == [1.0, 1.0]


class Cluster:
    """Answers expressions from a dictionary of words in them."""

    matchers = 'cluster="c"'
    load_balancer_matchers = 'region="us"'

    def __init__(self):
        self.values: dict[tuple[str, str], float] = {}

    def query(self, expression):
        kinds = {
            "_request_count{response": "failed",
            "_request_count{backend": "answered",
            "objective_request_total": "picked",
            "error_total": "refused",
        }
        name = "llama-v2" if "llama-v2" in expression else "llama"
        if "_bucket" in expression:
            return [
                Sample({"le": bound}, self.values.get((name, bound), 0.0), 0.0)
                for bound in ("0.5", "+Inf")
            ]
        [kind] = [kind for word, kind in kinds.items() if word in expression]
        value = self.values.get((name, kind))
        return [] if value is None else [Sample({}, value, 0.0)]


def test_requests_are_counted_from_the_beginning_of_a_step():
    cluster = Cluster()
    deployed: Any = SimpleNamespace(clusters={"us": cluster})
    measured = Measured(deployed, ("us",), CANARY, STABLE, 0.5)
    cluster.values = {("llama", "picked"): 100.0, ("llama", "failed"): 3.0}
    measured.begin()
    cluster.values = {
        ("llama", "picked"): 150.0,
        ("llama", "answered"): 50.0,
        ("llama", "failed"): 4.0,
        ("llama-v2", "picked"): 25.0,
        ("llama-v2", "answered"): 20.0,  # five are on their way
        ("llama-v2", "refused"): 10.0,
        ("llama", "0.5"): 45.0,
        ("llama", "+Inf"): 50.0,
        ("llama-v2", "+Inf"): 20.0,
    }
    assert measured.look().measures == {
        "errors": (Share(10, 30), Share(1, 50)),
        "late first tokens": (Share(20, 20), Share(5, 50)),
    }


def engines_stack() -> Plan:
    whole = yaml.safe_load((EXAMPLE.parent / "engines" / "Pulumi.engines.yaml").read_text())
    return resolve(parse(json.dumps(whole["config"]["gke-inference:platform"])))


def test_each_version_is_measured_by_the_metrics_of_its_own_engine():
    newer, older = versions_of(engines_stack(), "llama-3.1-8b", is_twin=True)
    assert newer.first_token == "sglang:time_to_first_token_seconds"
    assert older.first_token == "vllm:time_to_first_token_seconds"


def test_versions_behind_a_global_load_balancer_are_counted_by_their_internal_gateways():
    newer, older = versions_of(engines_stack(), "llama-3.1-8b", is_twin=True)
    assert {newer.balancer, older.balancer} == {"loadbalancing_googleapis_com:https_internal"}
    plan = engines_stack()
    gateway = plan.platform.gateway
    outside = gateway.model_copy(update={"exposure": Exposure.EXTERNAL})
    for front, expected in (
        (None, "loadbalancing_googleapis_com:https_external_regional"),
        (Front.GLOBAL, "loadbalancing_googleapis_com:https_internal"),
    ):
        own = plan.platform.model_copy(
            update={"gateway": outside.model_copy(update={"front": front})}
        )
        found = versions_of(replace(plan, platform=own), "llama-3.1-8b", is_twin=True)
        assert {each.balancer for each in found} == {expected}


class Histograms:
    """Answers with the buckets of two engines; each was asked for by its own histogram."""

    matchers = 'cluster="c"'
    load_balancer_matchers = ""

    def __init__(self, canary, stable):
        self._of = {"sglang:ttft": canary, "vllm:ttft": stable}
        self.is_begun = False

    def set_canary(self, buckets):
        self._of["sglang:ttft"] = buckets

    def query(self, expression):
        for name, buckets in self._of.items():
            if expression.startswith(f"{name}_bucket") and self.is_begun:
                return [Sample({"le": le}, count, 0.0) for le, count in buckets.items()]
        return []


def look_at(canary, stable, threshold, histogram="sglang:ttft"):
    cluster = Histograms(canary, stable)
    deployed: Any = SimpleNamespace(clusters={"us": cluster})
    newer = Version("llama-v2", "search", "lb:https", histogram, is_twin=True)
    measured = Measured(deployed, ("us",), newer, STABLE, threshold)
    measured.begin()
    cluster.is_begun = True
    return measured.look()


SGLANG = {"0.4": 10.0, "1.0": 60.0, "2.0": 90.0, "10.0": 99.0, "+Inf": 100.0}
VLLM = {"0.5": 10.0, "1.0": 95.0, "2.5": 98.0, "10.0": 100.0, "+Inf": 100.0}


def test_two_engines_are_compared_at_a_bound_that_both_histograms_have():
    at_own_percentile = look_at(SGLANG, VLLM, None).measures["late first tokens"]
    assert at_own_percentile == (Share(40, 100), Share(5, 100))
    of_slo = look_at(SGLANG, VLLM, 2.0).measures["late first tokens"]
    assert of_slo == (Share(1, 100), Share(0, 100))  # at 10 s


def test_without_requests_of_the_stable_version_its_last_percentile_is_the_threshold():
    cluster = Histograms(VLLM, VLLM)
    deployed: Any = SimpleNamespace(clusters={"us": cluster})
    newer = Version("llama-v2", "search", "lb:https", "sglang:ttft", is_twin=True)
    measured = Measured(deployed, ("us",), newer, STABLE, None, least_requests=50)
    measured.begin()
    cluster.is_begun = True
    assert measured.look().measures["late first tokens"] == (Share(5, 100), Share(5, 100))
    measured.begin()
    cluster.set_canary({"0.5": 10.0, "1.0": 110.0, "2.5": 190.0, "10.0": 200.0, "+Inf": 200.0})
    late = measured.look().measures["late first tokens"]
    assert late == (Share(85, 100), Share(0, 0))  # later than 1 s, as before


def test_a_prometheus_that_does_not_answer_is_no_sight():
    def refuse(expression):
        raise QueryError("timed out")

    cluster = SimpleNamespace(name="c", matchers="", load_balancer_matchers="", query=refuse)
    deployed: Any = SimpleNamespace(clusters={"us": cluster})
    with pytest.raises(NotMeasurable, match="c: timed out"):
        Measured(deployed, ("us",), CANARY, STABLE, None).begin()


@pytest.mark.parametrize(
    ("canary", "threshold", "first_token"),
    [
        ({"0.4": 10.0, "+Inf": 100.0}, None, "sglang:ttft"),
        (SGLANG, 20.0, "sglang:ttft"),
        (SGLANG, 1.0, None),
    ],
)
def test_engines_without_a_bound_in_common_are_judged_by_errors_alone(
    canary, threshold, first_token
):
    measurements = look_at(canary, VLLM, threshold, first_token)
    assert list(measurements.measures) == ["errors"]
    assert list(measurements.not_comparable) == ["late first tokens"]


def test_the_series_of_a_version_are_not_those_of_the_other():
    assert 'backend_name="pool/search/llama"' in STABLE.expressions("x", "y")["failed"]
    cloud = Version("llama", "search", "lb", None).expressions('cluster="c"', 'region="r"')
    assert "buckets" not in cloud
    assert "gkegw1-[a-z0-9]+-search-llama(-ip-[a-z0-9]+)?-[0-9]+-" in cloud["failed"]


@pytest.mark.parametrize("kind", ["answered", "failed"])
def test_series_of_the_load_balancer_are_not_asked_for_by_cluster(kind):
    for is_twin in (True, False):
        version = Version("llama", "search", "lb", None, is_twin=is_twin)
        expression = version.expressions('cluster="c",location="us-east5"', 'region="us-east5"')
        assert "cluster=" not in expression[kind]
        assert "location=" not in expression[kind]
        assert 'region="us-east5"' in expression[kind]


def test_requests_that_the_load_balancer_has_not_counted_yet_are_too_few():
    cluster = Cluster()
    deployed: Any = SimpleNamespace(clusters={"us": cluster})
    measured = Measured(deployed, ("us",), CANARY, STABLE, 0.5)
    measured.begin()
    cluster.values = {
        ("llama", "answered"): 500.0,
        ("llama", "picked"): 500.0,
        ("llama-v2", "picked"): 500.0,
        ("llama-v2", "refused"): 3.0,
    }
    assert measured.look().measures["errors"] == (Share(0, 0), Share(0, 500))


@pytest.fixture
def folder(tmp_path):
    for file in EXAMPLE.glob("*.yaml"):
        shutil.copy(file, tmp_path)
    file = tmp_path / "Pulumi.search.yaml"
    block = "replicas: {min: 1, max: 2}\n        canary: {version: v2, weights: new} # tried\n"
    file.write_text(file.read_text().replace("replicas: {min: 1, max: 2}\n", block))
    return tmp_path


def test_the_share_of_a_canary_is_one_changed_line(folder):
    file = folder / "Pulumi.search.yaml"
    before = file.read_text().splitlines()
    write_percent("search", "llama-3.1-8b", 25, folder)
    after = file.read_text().splitlines()
    changed = [line for line in after if line not in before]
    assert changed == ["        canary: {version: v2, weights: new, percent: 25} # tried"]
    assert len(after) == len(before)


def test_a_share_that_the_stack_cannot_have_leaves_the_file_as_it_was(folder):
    file = folder / "Pulumi.search.yaml"
    before = file.read_text()
    with pytest.raises(StackError, match=r"canary\.percent"):
        write_percent("search", "llama-3.1-8b", 101, folder)
    assert file.read_text() == before
