"""A platform and the serving stacks of its teams: what each makes, and what joins them."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pulumi
import pytest

from gke_inference.catalogue.pickers import picker_line, picker_lines
from gke_inference.catalogue.versions import api
from gke_inference.gateway.picker import PickerSetup, picker_objects
from gke_inference.namespace.team_share import deploying
from gke_inference.serving.ray.scaler import scaler_objects
from gke_inference.serving.weights_gate import gate_objects
from infra.deploy.options import labeled
from infra.deploy.program import deploy
from infra.deploy.team_program import deploy_team
from infra.estimate.quota_needs import needs
from infra.estimate.stack_cost import stack_cost
from infra.plan import resolve
from infra.reading.load import STACKS, parse, read, settings_in, teams_of
from infra.reading.platform_reference import (
    OUTPUT,
    VERSION,
    Reference,
    Shared,
    SharedRegion,
    planned,
    shared,
)
from infra.stack import Layer, Platform
from infra.stack.problems import StackError
from policies.framework.reading import CLUSTER
from tests.contract.infra.broken_stacks import edited
from tests.contract.infra.cloud import CloudRecorder, Deployed
from tests.contract.recorder import Records
from tests.shipped_stacks import EXAMPLES
from twin.wire.property_values import UNKNOWN

TEAMS = EXAMPLES / "teams"
IAM = ("IAMMember", "IamMember")


def serving(*edits: dict[str, Any]) -> Platform:
    """Return the stack `search` of the example after edits, with the settings of its platform."""
    text = json.dumps(edited("teams/search", list(edits)))
    return parse(text, partial(settings_in, TEAMS))


def platform(*edits: dict[str, Any]) -> Platform:
    """Return the platform of the example after edits."""
    return parse(json.dumps(edited("teams/shared", list(edits))))


def exported(of: Platform, endpoint: str = "gke-1.example.goog") -> Shared:
    """Return what a platform exports."""
    regions = {name: each.cluster_name for name, each in resolve(of).regions.items()}
    return shared("shared", planned(of, regions, endpoint))


@pytest.fixture
def served(cloud: CloudRecorder) -> Callable[[Platform, Shared], Records]:
    """Returns what a serving stack registers."""

    def run(stack: Platform, given: Shared) -> Records:
        cloud.run(lambda: deploy_team(stack, given))
        return cloud

    return run


def objects(records: Records, kind: str) -> dict[str, dict[str, Any]]:
    """Return the inputs of the objects of a kind, by namespace and name."""
    found = [seen.inputs for seen in records.registrations if seen.type.endswith(f":{kind}")]
    return {f"{each['metadata']['namespace']}/{each['metadata']['name']}": each for each in found}


def test_a_platform_makes_all_but_models(deployed: Deployed):
    made = deployed(platform())
    counts = made.counts()
    for kind in ("ModelServer", "Autoscaling", "Monitoring", "WeightsGate", "AlertPolicy"):
        assert kind not in counts, kind
    assert {kind: counts[kind] for kind in ("Cluster", "Gateway", "Address", "ComputeClass")} == {
        "Cluster": 1, "Gateway": 1, "Address": 1, "ComputeClass": 2,
    }  # fmt: skip
    assert set(objects(made, "Deployment")) == {
        "inference-gateway/acme-shared-gateway-body-router",
        "inference-gateway/acme-shared-gateway-catalogue",
    }


def test_a_platform_makes_a_bucket_of_caches_for_each_team(deployed: Deployed):
    buckets = {
        seen.inputs["name"] for seen in deployed(platform()).all("gcp:storage/bucket:Bucket")
    }
    assert buckets == {
        "acme-shared-models-us-central1",
        "acme-shared-caches-us-central1-search",
        "acme-shared-caches-us-central1-ads",
    }


def test_a_team_has_a_namespace_with_a_quota_of_chips(deployed: Deployed):
    made = deployed(platform())
    names = {seen.inputs["metadata"]["name"] for seen in made.all("kubernetes:core/v1:Namespace")}
    assert names == {"inference-gateway", "search", "ads"}
    quotas = objects(made, "ResourceQuota")
    assert {where: each["spec"]["hard"] for where, each in quotas.items()} == {
        "search/team": {"requests.google.com/tpu": "8", "requests.nvidia.com/gpu": "2"},
        "ads/team": {"requests.google.com/tpu": "0", "requests.nvidia.com/gpu": "2"},
        "default/accelerators": {"requests.google.com/tpu": "0", "requests.nvidia.com/gpu": "0"},
    }


def test_every_pod_of_a_team_reads_its_buckets_and_those_of_no_other(deployed: Deployed):
    stack = platform({"at": ["teams", "ads", "buckets"], "value": ["acme-ads-weights"]})
    grants = deployed(stack).all("gcp:storage/bucketIAMMember:BucketIAMMember")
    pool = "principalSet://iam.googleapis.com/projects/271828182845/locations/global/"
    pool += "workloadIdentityPools/acme-inference-shared.svc.id.goog/namespace/ads"
    found = {(seen.name, seen.inputs["role"]) for seen in grants if seen.inputs["member"] == pool}
    assert found == {
        ("us-central1-ads-share-bucket-acme-ads-weights", "roles/storage.objectViewer"),
        ("us-central1-ads-share-bucket-caches", "roles/storage.objectUser"),
        ("us-central1-ads-share-bucket-models", "roles/storage.objectViewer"),
    }


def test_the_deployers_of_a_team_have_rights_in_its_namespace_alone(deployed: Deployed):
    made = deployed(platform())
    binding = objects(made, "RoleBinding")["search/team-deployer"]
    email = "acme-shared-search-ci-deploy@acme-inference-shared.iam.gserviceaccount.com"
    assert [each["name"] for each in binding["subjects"]] == [email]
    assert [each["kind"] for each in binding["subjects"]] == ["User"]
    rules = objects(made, "Role")["search/team-deployer"]["rules"]
    named = {resource for rule in rules for resource in rule["resources"]}
    assert {"deployments", "httproutes", "inferencepools", "podmonitorings"} <= named
    assert named.isdisjoint({"*", "gateways", "namespaces", "secrets"})
    writes = [rule for rule in rules if "resourcequotas" in rule["resources"]]
    assert [rule["verbs"] for rule in writes] == [["get", "list", "watch"]]


def test_the_gateway_takes_routes_of_the_teams_and_of_nobody_else(deployed: Deployed):
    gateway = objects(deployed(platform()), "Gateway")["inference-gateway/acme-shared-gateway"]
    [listener] = gateway["spec"]["listeners"]
    allowed = listener["allowedRoutes"]["namespaces"]
    [term] = allowed["selector"]["matchExpressions"]
    assert allowed["from"] == "Selector"
    assert term["key"] == "kubernetes.io/metadata.name"
    assert term["values"] == ["inference-gateway", "ads", "search"]


HOSTS = (
    {"at": ["gateway", "hostname"], "value": "models.example.com"},
    {"at": ["gateway", "certificate"], "value": "models"},
    {"at": ["gateway", "port"], "value": 443},
    {"at": ["teams", "search", "hostname"], "value": "search.example.com"},
)


def test_a_host_of_a_team_is_a_listener_that_takes_its_routes_only(deployed: Deployed):
    made = deployed(platform(*HOSTS))
    listeners = objects(made, "Gateway")["inference-gateway/acme-shared-gateway"]["spec"][
        "listeners"
    ]
    by_host = {
        each["hostname"]: each["allowedRoutes"]["namespaces"]["selector"]["matchExpressions"][0]
        for each in listeners
    }
    assert by_host["search.example.com"]["values"] == ["search"]
    assert by_host["models.example.com"]["values"] == ["inference-gateway", "ads"]


def test_a_serving_stack_makes_no_grant_and_nothing_of_the_platform(served: Any):
    made = served(serving(), exported(platform()))
    cloud = {seen.type for seen in made.registrations if seen.type.startswith("gcp:")}
    assert cloud == {"gcp:monitoring/alertPolicy:AlertPolicy", "gcp:monitoring/dashboard:Dashboard"}
    counts = made.counts()
    for kind in ("Namespace", "Gateway", "ClusterRole", "ComputeClass", *IAM):
        assert kind not in counts, kind


def test_everything_of_a_team_is_in_its_namespace_and_has_its_label(served: Any):
    made = served(serving(), exported(platform()))
    inside = [seen for seen in made.registrations if seen.type.startswith("kubernetes:")]
    inside = [seen for seen in inside if "metadata" in seen.inputs]
    assert len(inside) > 20
    for seen in inside:
        metadata = seen.inputs["metadata"]
        assert (metadata["namespace"], metadata["labels"]["team"]) == ("search", "search"), (
            seen.name
        )
    for name, each in objects(made, "Deployment").items():
        assert each["spec"]["template"]["metadata"]["labels"]["team"] == "search", name
        assert "team" not in each["spec"]["selector"]["matchLabels"], name


def test_the_pods_of_a_group_have_the_label_of_the_team():
    pods: dict[str, Any] = {"spec": {}, "metadata": {"labels": {"role": "leader"}}}
    group = {"leaderWorkerTemplate": {"leaderTemplate": pods, "workerTemplate": {"spec": {}}}}
    found = labeled({"metadata": {}, "spec": group}, "search")["spec"]["leaderWorkerTemplate"]
    assert found["leaderTemplate"]["metadata"]["labels"] == {"role": "leader", "team": "search"}
    assert found["workerTemplate"]["metadata"]["labels"] == {"team": "search"}


def test_routes_of_a_team_lead_from_the_gateway_of_the_platform(served: Any):
    made = served(serving(), exported(platform()))
    routes = objects(made, "HTTPRoute")
    assert set(routes) == {"search/acme-shared-gateway-catalogue", "search/llama-3-1-8b"}
    for route in routes.values():
        [parent] = route["spec"]["parentRefs"]
        assert (parent["namespace"], parent["name"]) == ("inference-gateway", "acme-shared-gateway")
        assert "hostnames" not in route["spec"]
    matches = routes["search/acme-shared-gateway-catalogue"]["spec"]["rules"][0]["matches"]
    assert [match["path"] for match in matches] == [
        {"type": "PathPrefix", "value": "/search/v1/models"},
        {"type": "Exact", "value": "/search/healthz"},
    ]


def test_a_team_with_a_host_of_its_own_lists_its_models_where_clients_look(served: Any):
    of = platform(*HOSTS)
    settings = json.dumps(json.loads(exported(of).settings))
    stack = parse(json.dumps(edited("teams/search", [])), lambda _: settings)
    routes = objects(served(stack, exported(of)), "HTTPRoute")
    assert {tuple(each["spec"]["hostnames"]) for each in routes.values()} == {
        ("search.example.com",)
    }
    first = routes["search/acme-shared-gateway-catalogue"]["spec"]["rules"][0]["matches"][0]
    assert first["path"]["value"] == "/v1/models"


def test_dashboards_and_alerts_are_of_the_namespace_of_the_team(served: Any):
    made = served(serving(), exported(platform()))
    policies = made.all("gcp:monitoring/alertPolicy:AlertPolicy")
    assert {seen.inputs["displayName"].split(":")[0] for seen in policies} == {"acme shared search"}
    queries = json.dumps([seen.inputs for seen in policies])
    assert 'namespace=\\"search\\"' in queries


def test_a_move_of_the_canary_changes_the_weights_of_the_routes_and_nothing_else(
    engine: Callable[[], Any], engine_loop: Any
):
    from tests.contract.recorder import install  # noqa: PLC0415 - two engines, one after another

    def at(percent: int) -> dict[str, Any]:
        canary = {"version": "v2", "weights": "llama-next", "percent": percent}
        stack = serving(
            {"at": ["models", "llama-3.1-8b", "canary"], "value": canary},
            {"at": ["models", "llama-3.1-8b", "replicas"], "value": {"min": 1, "max": 1}},
        )
        recorder = install(CloudRecorder(), engine_loop)
        recorder.run(lambda: deploy_team(stack, exported(platform())))
        return {f"{seen.type} {seen.name}": seen.inputs for seen in recorder.registrations}

    ten, twenty = at(10), at(20)
    assert {name for name in ten if ten[name] != twenty[name]} == {
        "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute us-central1-routes-llama-3-1-8b-route-1"
    }


def test_a_serving_stack_reaches_the_cluster_that_the_platform_exports(served: Any):
    made = served(serving(), exported(platform()))
    inputs = made.one("pulumi:providers:kubernetes").inputs
    assert "https://gke-1.example.goog" in inputs["kubeconfig"]
    assert inputs["clusterIdentifier"] == "acme-inference-shared/acme-shared-us-central1"


def test_before_the_platform_is_up_the_cluster_is_not_known():
    region = exported(platform(), endpoint="").regions["us-central1"]
    assert region.kubeconfig == UNKNOWN


def test_a_platform_exports_what_its_serving_stacks_read(cloud: CloudRecorder):
    outputs: dict[str, Any] = {}
    stack = platform()

    def program() -> None:
        deploy(stack)
        root: Any = pulumi.runtime.get_root_resource()
        outputs.update(root.outputs)

    found: list[Any] = []

    def kept() -> Any:
        program()
        return pulumi.Output.from_input(outputs[OUTPUT]).apply(found.append)

    cloud.run(kept)
    [value] = found
    assert value["version"] == VERSION
    given = shared("shared", value)
    assert given.regions == {
        "us-central1": SharedRegion("203.0.113.10", "acme-shared-us-central1", "gke-1.example.goog")
    }
    assert parse(json.dumps(edited("teams/search", [])), lambda _: given.settings) == serving()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "platform must be a stack with the output 'platform', got 'shared': it must be up"),
        (
            {"version": 0},
            "must export version 1 of the record 'platform', got 0 from shared: deploy",
        ),
        ({"version": 2}, "got 2 from shared: deploy this stack with a newer release"),
    ],
)
def test_a_platform_without_a_record_that_can_be_read_is_refused_in_one_message(
    value: Any, message: str
):
    with pytest.raises(StackError) as refused:
        shared("shared", value)
    assert message in str(refused.value)
    assert len(refused.value.problems) == 1


def test_settings_of_a_later_release_are_refused_in_one_message():
    settings = json.loads(exported(platform()).settings)
    settings["gateway"]["colour"] = "blue"
    with pytest.raises(StackError) as refused:
        parse(json.dumps(edited("teams/search", [])), lambda _: json.dumps(settings))
    [problem] = refused.value.problems
    assert problem.sentence().startswith(
        "platform must be a platform that this release of gke-inference reads, got 'shared':"
        " gateway.colour is not a field of a stack"
    )


def test_the_reference_is_read_from_the_stack_that_the_engine_has(
    cloud: CloudRecorder, monkeypatch: pytest.MonkeyPatch
):
    value = planned(platform(), {"us-central1": "acme-shared-us-central1"}, "gke.example.goog")
    cloud.outputs["pulumi:pulumi:StackReference"] = {"outputs": {OUTPUT: value}}
    reference = Reference()
    text = json.dumps(edited("teams/search", []))
    seen: list[Platform] = []
    monkeypatch.setattr(pulumi, "get_organization", lambda: "organization")
    cloud.run(lambda: seen.append(parse(text, reference.settings)))
    assert seen == [serving()]
    assert reference.shared is not None
    assert reference.shared.regions["us-central1"].endpoint == "gke.example.goog"
    named = cloud.one("pulumi:pulumi:StackReference")
    assert named.inputs["name"] == "organization/gke-inference/shared"


def test_two_stacks_of_one_team_are_refused(tmp_path: Path):
    copied(tmp_path)
    text = (tmp_path / "Pulumi.ads.yaml").read_text().replace("team: ads", "team: search")
    (tmp_path / "Pulumi.ads.yaml").write_text(text)
    with pytest.raises(StackError) as refused:
        read("search", tmp_path)
    assert (
        str(refused.value)
        == "team must be set in only one stack, got 'search', the team of ads, too"
    )


def test_two_teams_with_a_model_of_one_name_on_one_host_are_refused(tmp_path: Path):
    copied(tmp_path)
    text = (tmp_path / "Pulumi.ads.yaml").read_text().replace("qwen3-8b", "llama-3.1-8b")
    (tmp_path / "Pulumi.ads.yaml").write_text(text)
    with pytest.raises(StackError) as refused:
        read("search", tmp_path)
    assert str(refused.value) == (
        "models.llama-3.1-8b must be a name that no other team uses on the gateway's address,"
        " got 'llama-3.1-8b', that of models.llama-3.1-8b in ads"
    )


def test_adapters_that_the_engine_names_after_their_model_collide_with_none(tmp_path: Path):
    copied(tmp_path)
    for name in ("ads", "search"):
        file = tmp_path / f"Pulumi.{name}.yaml"
        text = file.read_text()
        assert "context: 8192" in text
        more = "context: 8192\n        adapters: [sql]\n        engine: sglang"
        file.write_text(text.replace("context: 8192", more))
    (served,) = read("search", tmp_path).models.items()
    assert served[1].adapter_names(served[0]) == (f"{served[0]}:sql",)


def copied(folder: Path) -> None:
    """Copy the example to a folder."""
    for file in TEAMS.glob("*.yaml"):
        (folder / file.name).write_text(file.read_text())


def test_the_example_is_a_platform_and_two_teams():
    assert teams_of("shared", TEAMS) == {"ads": "ads", "search": "search"}
    assert read("shared", TEAMS).layer is Layer.PLATFORM
    assert [read(name, TEAMS).team for name in ("ads", "search")] == ["ads", "search"]


def test_no_stack_of_the_repository_changes_its_layer():
    assert {read(name).layer for name in ("dev", "local", "prod", "staging")} == {Layer.ALL}
    assert teams_of("prod", STACKS) == {}


def test_platform_and_teams_cost_what_is_theirs():
    groups = {
        name: {
            group.name
            for group in stack_cost(resolve(read(name, TEAMS))).groups
            if group.maximum.value
        }
        for name in ("shared", "search")
    }
    assert groups == {
        "shared": {"cluster", "network", "storage", "observability"},
        "search": {"accelerators", "storage", "observability"},
    }


def test_platform_and_teams_ask_of_quotas_for_what_is_theirs():
    kinds = {
        name: {need.kind for need in needs(resolve(read(name, TEAMS)))}
        for name in ("shared", "search")
    }
    # a node more while GKE upgrades a pool: the pools are the platform's
    assert kinds["shared"] == {"accelerator", "machine", "disk", "address", "network"}
    assert kinds["search"] == {"accelerator", "machine", "disk", "network"}
    metrics = {need.metric.name for need in needs(resolve(read("search", TEAMS)))}
    assert metrics.isdisjoint({"NETWORKS", "URL_MAPS", "STATIC_ADDRESSES", "CPUS"})


def test_a_model_that_needs_a_newer_gke_than_the_platform_asks_for_is_refused():
    dual = [
        {"at": ["teams", "search", "privileged"], "value": True},
        {"at": ["regions", "us-central1", "version"], "value": "1.34"},
    ]
    with pytest.raises(StackError, match="must have GKE"):
        platform(*dual)


def test_what_is_wrong_on_the_platform_is_said_to_be_there():
    settings = json.loads(exported(platform()).settings)
    settings["capacity"]["gpus"]["node_pools"] = {"min_nodes": 3, "max_nodes": 1}
    with pytest.raises(StackError) as refused:
        parse(json.dumps(edited("teams/search", [])), lambda _: json.dumps(settings))
    assert str(refused.value).startswith("platform shared: capacity.gpus.node_pools.min_nodes must")


def test_the_gpus_of_a_model_that_falls_back_to_processors_count_with_its_minimum():
    rungs = [
        {"accelerator": "nvidia-l4", "count": 1, "provisioning": "on-demand"},
        {"machine_type": "c3-standard-8", "provisioning": "on-demand"},
    ]
    of = exported(platform({"at": ["capacity", "gpus", "rungs"], "value": rungs}))
    fraud = {
        "weights": "fraud", "engine": "tritonserver", "task": "predict", "capacity": "gpus",
        "size": {"parameters_billion": 0.000001, "bits": 32}, "replicas": {"min": 3, "max": 3},
        "autoscaling": {"queue_depth": 4}, "timeout_seconds": 10,
    }  # fmt: skip
    stack = edited("teams/search", [{"at": ["models"], "value": {"fraud": fraud}}])
    with pytest.raises(StackError, match=r"at most 2 GPU chips in us-central1.*got 3"):
        parse(json.dumps(stack), lambda _: of.settings)


def test_the_cluster_of_a_serving_stack_is_not_among_its_resources(served: Any):
    assert not served(serving(), exported(platform())).all(CLUSTER)


def test_a_serving_stack_loads_no_sdk_of_clusters_and_networks():
    program = """
import sys
from twin.pulumi.speedups import speed_up_imports
speed_up_imports()
import infra.deploy.team_program
print(sorted(name for name in sys.modules if name.endswith("._inputs") and "pulumi_gcp" in name))
"""
    answer = subprocess.run(
        [sys.executable, "-c", program],
        cwd=STACKS.parent,
        env={**os.environ, "PYTHONPATH": ".:components"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout == "['pulumi_gcp._inputs', 'pulumi_gcp.monitoring._inputs']\n"


def _granted(rules: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def picker_role(line: str) -> dict[str, Any]:
    """Return the role of a picker of a line."""
    setup = PickerSetup(line=line)
    return picker_objects(
        "picker", "search", "pool", has_adapters=True, replicas=2, timeout_seconds=60, setup=setup
    )[1]


@pytest.mark.parametrize(
    "role",
    [
        gate_objects("search", "gate")["role"],
        scaler_objects("search")["role"],
        *map(picker_role, picker_lines()),
    ],
    ids=["gate", "scaler", *picker_lines()],
)
def test_a_deployer_has_what_it_grants_to_the_programs_of_models(role: dict[str, Any]):
    deployer = deploying("search", ["ci@acme.iam"])["deployer"]["rules"]
    assert _granted(role["rules"]) - _granted(deployer) == set()


@pytest.mark.parametrize("line", picker_lines())
def test_a_deployer_may_create_each_kind_that_models_have_with_either_picker(
    served: Any, line: str
):
    rules = deploying("search", ["ci@acme.iam"])["deployer"]["rules"]
    of = exported(platform({"at": ["gateway", "picker"], "value": line}))
    stack = parse(json.dumps(edited("teams/search", [])), lambda _: of.settings)
    groups: dict[str, set[str]] = {}
    for each in served(stack, of).registrations:
        if each.type.startswith("kubernetes:"):
            _, version, kind = each.type.split(":")
            plural = re.sub("([^s])$", r"\1s", kind.lower().replace("policy", "policie"))
            groups.setdefault(version.rpartition("/")[0].replace("core", ""), set()).add(plural)
    assert "inferenceobjectives" in groups[api(picker_line(line).apis["objective"]).group]
    wanted = {(group, name, "create") for group, names in groups.items() for name in names}
    assert wanted - _granted(rules) == set()


def test_a_deployer_cannot_grant_itself_more_or_act_as_another_account():
    rules = deploying("search", ["ci@acme.iam"], "config-sync")["deployer"]["rules"]
    verbs = {verb for rule in rules for verb in rule["verbs"]}
    assert verbs == {
        "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
    }  # fmt: skip
