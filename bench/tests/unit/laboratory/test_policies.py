"""Policies are Envoy's own, upstream's chart, and what the component writes."""

import yaml

from bench.laboratory.policies import policies
from simulator.replays.picker_configs import Facts


def named(facts=None):
    return {policy.name: policy for policy in policies(facts or Facts())}


def test_there_are_the_five_policies_that_are_compared():
    assert list(named()) == [
        "round_robin", "random", "least_request", "picker_defaults", "shipped",
    ]  # fmt: skip


def test_sessions_are_also_compared_with_the_best_affinity():
    assert list(named(Facts(has_sessions=True)))[5:] == ["session_affinity"]


def test_the_defaults_are_those_of_upstreams_chart():
    document = yaml.safe_load(named()["picker_defaults"].picker or "")
    weights = {p["pluginRef"]: p["weight"] for p in document["schedulingProfiles"][0]["plugins"]}
    assert weights == {
        "queue-scorer": 2, "kv-cache-utilization-scorer": 2, "prefix-cache-scorer": 3,
    }  # fmt: skip
    assert all("parameters" not in plugin for plugin in document["plugins"])


def test_envoys_policies_are_named_as_envoy_names_them():
    found = named()["round_robin"].envoy_policy()["typed_extension_config"]
    assert found == {
        "name": "envoy.load_balancing_policies.round_robin",
        "typed_config": {
            "@type": "type.googleapis.com/"
            "envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin"
        },
    }


def test_a_changed_configuration_has_another_digest():
    digests = [policy.digest for policy in policies(Facts(has_adapters=True))]
    assert len(set(digests)) == 5
    assert named(Facts(has_adapters=True))["shipped"].digest != named()["shipped"].digest
