"""A serving stack that is delivered from git, and its platform: what each registers."""

import json
from functools import partial
from typing import Any

import pytest

from infra.deploy.team_program import deploy_team
from infra.estimate.stack_cost import stack_cost
from infra.plan import resolve
from infra.plan.services import DELIVERY_SERVICES
from infra.reading.load import parse, settings_in
from infra.reading.platform_reference import planned, shared
from infra.stack import DeliveryTool, Platform
from tests.contract.infra.broken_stacks import edited
from tests.contract.infra.cloud import CloudRecorder, Deployed
from tests.contract.recorder import Records
from tests.shipped_stacks import EXAMPLES

FOLDER = EXAMPLES / "gitops"
ARGO = {"at": ["delivery", "with"], "value": "argo-cd"}


def platform(*edits: dict[str, Any]) -> Platform:
    return parse(json.dumps(edited("gitops/shared", list(edits))))


def serving(*edits: dict[str, Any]) -> Platform:
    text = json.dumps(edited("gitops/search", list(edits)))
    return parse(text, partial(settings_in, FOLDER))


def registered(cloud: CloudRecorder, *, with_delivered: bool) -> Records:
    of = platform()
    regions = {name: each.cluster_name for name, each in resolve(of).regions.items()}
    given = shared("shared", planned(of, regions, "gke-1.example.goog"))
    cloud.run(lambda: deploy_team(serving(), given, with_delivered=with_delivered))
    return cloud


def kinds(records: Records) -> set[str]:
    return {
        each.type.rpartition(":")[2]
        for each in records.registrations
        if each.type.startswith("kubernetes:")
    }


def test_pulumi_registers_where_the_models_come_from_and_none_of_their_objects(
    cloud: CloudRecorder,
):
    made = registered(cloud, with_delivered=False)
    assert kinds(made) == {"RepoSync"}
    [sync] = [each.inputs for each in made.registrations if each.type.endswith(":RepoSync")]
    assert sync["metadata"]["namespace"] == "search"
    assert sync["metadata"]["labels"]["team"] == "search"
    assert sync["spec"]["git"]["dir"] == "clusters/search/us-central1"
    assert made.counts()["AlertPolicy"] > 0


@pytest.mark.parametrize(("allowed", "is_protected"), [([], True), (["repo-sync"], False)])
def test_what_takes_all_models_with_it_is_protected(
    cloud: CloudRecorder, allowed: list[str], is_protected: bool
):
    of = platform()
    regions = {name: each.cluster_name for name, each in resolve(of).regions.items()}
    given = shared("shared", planned(of, regions, "gke-1.example.goog"))
    found = serving({"at": ["allow_replace"], "value": allowed})
    team = found.model_copy(update={"protection": True})
    cloud.run(lambda: deploy_team(team, given))
    [sync] = [each for each in cloud.registrations if each.type.endswith(":RepoSync")]
    assert sync.protected is is_protected


def test_a_preview_can_have_both(cloud: CloudRecorder):
    found = kinds(registered(cloud, with_delivered=True))
    assert {"Deployment", "HTTPRoute", "InferencePool", "RepoSync"} <= found


def test_the_tool_is_the_platforms_and_the_rest_is_the_teams():
    assert serving().delivery.tool is DeliveryTool.CONFIG_SYNC
    source = serving().delivery.source
    assert source is not None
    assert source.directory == "clusters/search"


def test_delivery_changes_nothing_of_what_a_stack_costs():
    by_pulumi = serving({"at": ["delivery"], "value": {"kind": "pulumi"}})
    assert stack_cost(resolve(serving())) == stack_cost(resolve(by_pulumi))


def test_the_platform_brings_config_sync_with_the_rights_of_a_deployer(deployed: Deployed):
    made = deployed(platform())
    counts = made.counts()
    assert (counts["Feature"], counts["Membership"], counts["FeatureMembership"]) == (1, 1, 1)
    [binding] = [
        each.inputs
        for each in made.registrations
        if each.type.endswith(":RoleBinding") and each.inputs["metadata"]["namespace"] == "search"
    ]
    account = {
        "kind": "ServiceAccount",
        "name": "ns-reconciler-search",
        "namespace": "config-management-system",
    }
    assert account in binding["subjects"]
    [role] = [
        each.inputs
        for each in made.registrations
        if each.type.endswith(":Role") and each.inputs["metadata"]["namespace"] == "search"
    ]
    named = {resource for rule in role["rules"] for resource in rule["resources"]}
    assert "reposyncs" in named
    assert named.isdisjoint({"*", "namespaces", "secrets"})
    assert set(DELIVERY_SERVICES) <= set(resolve(platform()).project.services)


def test_argo_cd_gets_a_project_for_the_namespace_and_no_fleet(deployed: Deployed):
    made = deployed(platform(ARGO))
    counts = made.counts()
    assert "Feature" not in counts
    [project] = [each.inputs for each in made.registrations if each.type.endswith(":AppProject")]
    assert project["metadata"]["namespace"] == "argocd"
    assert project["spec"]["sourceNamespaces"] == ["search"]
    assert [each["namespace"] for each in project["spec"]["destinations"]] == ["search"]
    allowed = {each["kind"] for each in project["spec"]["namespaceResourceWhitelist"]}
    assert {"Deployment", "HTTPRoute", "InferencePool"} <= allowed
    assert allowed.isdisjoint({"Namespace", "Secret", "ResourceQuota"})
    assert set(DELIVERY_SERVICES).isdisjoint(resolve(platform(ARGO)).project.services)


def test_argo_cd_acts_as_an_account_that_can_grant_no_more_than_a_deployer(deployed: Deployed):
    # Roles of pickers are in the tree; as Argo CD's own account a team could give itself any right
    made = deployed(platform(ARGO))
    [project] = [each.inputs for each in made.registrations if each.type.endswith(":AppProject")]
    [account] = project["spec"]["destinationServiceAccounts"]
    assert account["defaultServiceAccount"] == "search:team-deployer"
    assert account["namespace"] == "search"
    [binding] = [
        each.inputs
        for each in made.registrations
        if each.type.endswith(":RoleBinding") and each.inputs["metadata"]["namespace"] == "search"
    ]
    subject = {"kind": "ServiceAccount", "name": "team-deployer", "namespace": "search"}
    assert subject in binding["subjects"]
    names = [
        each.inputs["metadata"]["name"]
        for each in made.registrations
        if each.type.endswith(":ServiceAccount")
        and each.inputs["metadata"]["namespace"] == "search"
    ]
    assert "team-deployer" in names
