"""Network policies of the serving namespace: who can reach its pods."""

from typing import Any, cast

import pulumi
import pytest

from gke_inference.namespace.network_policies import AllowedIngressArgs, network_policies
from gke_inference.namespace.serving_namespace import ServingNamespace, ServingNamespaceArgs

POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
PROXIES = "10.9.0.0/23"
BALANCER = [
    {"ipBlock": {"cidr": PROXIES}},
    {"ipBlock": {"cidr": "130.211.0.0/22"}},
    {"ipBlock": {"cidr": "35.191.0.0/16"}},
]


def collectors(namespace: str = "gmp-system") -> dict[str, Any]:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}


def pods(component: str) -> dict[str, Any]:
    return {"matchLabels": {"app.kubernetes.io/component": component}}


def ports(*numbers: int) -> list[dict[str, Any]]:
    return [{"port": number, "protocol": "TCP"} for number in numbers]


def specs(**more: Any) -> dict[str, Any]:
    args = cast("AllowedIngressArgs", {"proxies_cidr": PROXIES, **more})
    policies = network_policies("serving", args)
    return {name: policy["spec"] for name, policy in policies.items()}


def test_nothing_gets_in_but_what_a_policy_allows():
    assert specs()["default-deny"] == {"podSelector": {}, "policyTypes": ["Ingress"]}


def test_engines_are_reached_by_the_load_balancer_the_pickers_and_the_collectors():
    assert specs()["engines"] == {
        "ingress": [
            {
                "from": [*BALANCER, {"podSelector": pods("endpoint-picker")}, collectors()],
                "ports": ports(8000),
            }
        ],
        "podSelector": pods("model-server"),
        "policyTypes": ["Ingress"],
    }


def test_pickers_are_asked_by_the_load_balancer_and_read_by_the_collectors():
    assert specs()["pickers"] == {
        "ingress": [
            {"from": BALANCER, "ports": ports(9002, 9003)},
            {"from": [collectors()], "ports": ports(9090)},
        ],
        "podSelector": pods("endpoint-picker"),
        "policyTypes": ["Ingress"],
    }


def test_the_router_is_asked_by_the_load_balancer_and_read_by_the_collectors():
    assert specs()["body-router"]["ingress"] == [
        {"from": BALANCER, "ports": ports(9004, 9005)},
        {"from": [collectors()], "ports": ports(9090)},
    ]
    assert specs()["body-router"]["podSelector"] == pods("body-router")


def test_the_catalogue_is_for_the_load_balancer_alone():
    assert specs()["catalogue"]["ingress"] == [{"from": BALANCER, "ports": ports(8080)}]
    assert specs()["catalogue"]["podSelector"] == pods("model-catalogue")


def test_replicas_of_a_connected_model_reach_each_other_on_every_port():
    own = {
        "matchLabels": {
            "app.kubernetes.io/component": "model-server",
            "app.kubernetes.io/name": "qwen",
        }
    }
    made = specs(connected_models=["qwen"])
    assert made["qwen-replicas"] == {
        "ingress": [{"from": [{"podSelector": own}]}],
        "podSelector": own,
        "policyTypes": ["Ingress"],
    }
    assert set(made) - set(specs()) == {"qwen-replicas"}


def test_the_collectors_of_autopilot_have_a_namespace_of_their_own():
    made = specs(metrics_namespace="gke-gmp-system")
    assert collectors("gke-gmp-system") in made["engines"]["ingress"][0]["from"]
    assert made["pickers"]["ingress"][1]["from"] == [collectors("gke-gmp-system")]


def test_a_namespace_closes_with_its_policies_only(recorder):
    recorder.run(
        lambda: (
            ServingNamespace(
                "n", {"namespace": "serving", "ingress": {"proxies_cidr": PROXIES}}
            ).namespace
        )
    )
    made = {
        seen.inputs["metadata"]["name"]: seen.inputs["metadata"]["namespace"]
        for seen in recorder.registrations
        if seen.type == POLICY
    }
    assert made == dict.fromkeys(specs(), "serving")


def test_pods_of_a_namespace_may_get_nodes_and_nothing_else_of_them(recorder):
    recorder.run(lambda: ServingNamespace("n", {"namespace": "serving"}).namespace)
    role = recorder.one("kubernetes:rbac.authorization.k8s.io/v1:ClusterRole").inputs
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]
    binding = recorder.one("kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding").inputs
    assert binding["roleRef"]["name"] == role["metadata"]["name"] == "serving-node-reader"
    (subject,) = binding["subjects"]
    assert (subject["kind"], subject["name"]) == ("Group", "system:serviceaccounts:serving")


def test_a_namespace_without_ingress_has_no_policy(recorder):
    recorder.run(lambda: ServingNamespace("n", {"namespace": "serving"}).namespace)
    assert [seen for seen in recorder.registrations if seen.type == POLICY] == []


def test_a_namespace_that_exists_is_not_made_and_not_closed_to_others(recorder):
    ingress: AllowedIngressArgs = {"proxies_cidr": PROXIES}
    args: ServingNamespaceArgs = {"existing": True, "ingress": ingress, "namespace": "serving"}
    recorder.run(lambda: ServingNamespace("serving", args).namespace)
    assert recorder.all("kubernetes:core/v1:Namespace") == []
    selected = {seen.inputs["metadata"]["name"] for seen in recorder.all(POLICY)}
    assert selected == {"engines", "pickers", "body-router", "catalogue"}


def test_a_pod_security_level_of_a_namespace_that_exists_is_refused(recorder):
    args: ServingNamespaceArgs = {
        "existing": True,
        "namespace": "serving",
        "pod_security": "baseline",
    }
    with pytest.raises(pulumi.InputPropertyError, match=r"podSecurity.*must not be set when"):
        recorder.run(lambda: ServingNamespace("serving", args).namespace)
