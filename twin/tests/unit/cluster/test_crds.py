"""GKE's CRDs: strict, with sources, and consistent with the documentation."""

import pytest

from twin.cluster.controlplane import bootstrap, kinds

CRDS = {crd["spec"]["names"]["kind"]: crd for crd in kinds.own_crds()}


def schema(kind):
    return CRDS[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def walk(node, path=""):
    yield path, node
    for key, child in node.get("properties", {}).items():
        yield from walk(child, f"{path}.{key}")
    if "items" in node:
        yield from walk(node["items"], f"{path}[]")
    if isinstance(node.get("additionalProperties"), dict):
        yield from walk(node["additionalProperties"], f"{path}.*")


@pytest.mark.parametrize("kind", sorted(CRDS))
def test_a_crd_refuses_unknown_fields_and_names_its_source(kind):
    crd = CRDS[kind]
    annotations = crd["metadata"]["annotations"]
    assert annotations["gke-inference.dev/schema-source"]
    assert annotations["gke-inference.dev/schema-date"]
    loose = [
        path
        for path, node in walk(schema(kind))
        if node.get("x-kubernetes-preserve-unknown-fields")
    ]
    assert loose == []
    assert crd["metadata"]["name"] == f"{crd['spec']['names']['plural']}.{crd['spec']['group']}"


@pytest.mark.parametrize("kind", sorted(CRDS))
def test_every_field_of_a_crd_has_a_type(kind):
    untyped = [
        path
        for path, node in walk(schema(kind))
        if "type" not in node and not node.get("x-kubernetes-int-or-string")
    ]
    assert untyped == []


def test_the_kinds_the_blueprint_and_its_users_need_are_there():
    wanted = {
        "ComputeClass",
        "PodMonitoring",
        "ClusterPodMonitoring",
        "Rules",
        "ClusterRules",
        "GlobalRules",
        "OperatorConfig",
        "GCPBackendPolicy",
        "HealthCheckPolicy",
        "GCPGatewayPolicy",
        "GCPRoutingExtension",
        "GCPTrafficExtension",
        "GCPAuthzPolicy",
        "GCPTrafficDistributionPolicy",
        "GCPSessionAffinityPolicy",
        "ServiceAttachment",
        "Network",
        "GKENetworkParamSet",
        "AutoscalingMetric",
        "GCPDataSource",
    }
    assert wanted <= set(CRDS)


def test_a_compute_class_has_the_documented_bounds():
    spec = schema("ComputeClass")["properties"]["spec"]
    rule = spec["properties"]["priorities"]["items"]["properties"]
    assert spec["required"] == ["whenUnsatisfiable"]
    assert spec["properties"]["whenUnsatisfiable"]["enum"] == ["ScaleUpAnyway", "DoNotScaleUp"]
    assert (rule["maxPodsPerNode"]["minimum"], rule["maxPodsPerNode"]["maximum"]) == (8, 256)
    assert rule["reservations"]["properties"]["affinity"]["enum"] == [
        "Specific",
        "AnyBestEffort",
        "None",
    ]


def test_the_digest_of_a_crd_changes_with_its_schema():
    crd = CRDS["ComputeClass"]
    other = {**crd, "spec": {**crd["spec"], "scope": "Namespaced"}}
    assert bootstrap.digest(crd) != bootstrap.digest(other)


def test_autopilot_has_its_own_monitoring_namespace():
    def namespaces(autopilot):
        found = bootstrap.gke_objects(autopilot)
        return {item["metadata"]["name"] for item in found if item["kind"] == "Namespace"}

    assert "gmp-system" in namespaces(False)
    assert "gke-gmp-system" in namespaces(True)


def test_exactly_one_storage_class_is_the_default():
    key = "storageclass.kubernetes.io/is-default-class"
    classes = [item for item in bootstrap.gke_objects(False) if item["kind"] == "StorageClass"]
    defaults = [
        item["metadata"]["name"]
        for item in classes
        if item["metadata"].get("annotations", {}).get(key) == "true"
    ]
    assert defaults == ["standard-rwo"]


def test_upstream_crds_are_told_from_other_documents(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "kind: CustomResourceDefinition\nmetadata: {name: x}\n---\nkind: List\n"
    )
    assert [crd["metadata"]["name"] for crd in kinds.upstream_crds([tmp_path])] == ["x"]
