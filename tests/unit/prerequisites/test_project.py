"""APIs, permissions, quotas and organization policies of a project, in each state."""

import pytest

from scripts.prerequisites.apis import apis, permissions
from scripts.prerequisites.finding import State
from scripts.prerequisites.limits import quotas
from scripts.prerequisites.org_policies import org_policies
from tests.unit.bootstrap.fake_google import refused


def test_apis_that_are_on_are_one_row(project):
    (found,) = apis(project)
    assert (found.name, found.state) == ("21 APIs", State.MET)


def test_each_api_that_is_off_has_its_command(google, project):
    google.enabled.remove("cloudbuild.googleapis.com")
    met, missing = apis(project)
    assert met.name == "20 APIs"
    assert (missing.name, missing.state) == ("cloudbuild.googleapis.com", State.MISSING)
    assert missing.command == (
        "gcloud services enable cloudbuild.googleapis.com --project=acme-inference-prod"
    )


def test_a_project_without_the_api_of_apis_tells_how_to_enable_it(google, project):
    google.services.remove("serviceusage.googleapis.com")
    (found,) = apis(project)
    assert found.state is State.UNSEEN
    assert found.command.startswith("gcloud services enable serviceusage.googleapis.com")


def test_a_permission_that_the_caller_lacks_has_the_role_that_has_it(google, project):
    google.denied_permissions.add("container.clusters.create")
    met, missing = permissions(project)
    assert met.state is State.MET
    assert (missing.name, missing.state) == ("container.clusters.create", State.MISSING)
    assert missing.command.endswith("--member=MEMBER --role=roles/container.admin")


def test_permissions_of_builds_are_asked_for_where_the_stack_builds(google, project):
    google.denied_permissions |= {"cloudbuild.builds.create", "binaryauthorization.policy.update"}
    missing = [each.name for each in permissions(project) if each.state is State.MISSING]
    assert missing == ["cloudbuild.builds.create"]  # prod attests nothing


def test_a_quota_that_is_too_small_has_its_request(google, project):
    where = f"projects/{google.id}/locations/global/services/compute.googleapis.com/quotaInfos"
    infos = google.resources[f"cloudquotas.googleapis.com/v1/{where}"]["quotaInfos"]
    for info in infos:
        if info["quotaId"] == "NVIDIA-L4-GPUS-per-project-region":
            info["dimensionsInfos"][0]["details"]["value"] = "2"
    found = [each for each in quotas(project) if each.state is State.MISSING]
    assert {each.name for each in found} == {
        f"NVIDIA_L4_GPUS in {region}" for region in google.plan.regions
    }
    assert "limit 2" in found[0].says
    assert found[0].command.startswith("gcloud beta quotas preferences create")


def test_a_quota_that_the_project_does_not_report_cannot_be_seen(google, project):
    where = f"projects/{google.id}/locations/global/services/compute.googleapis.com/quotaInfos"
    infos = google.resources[f"cloudquotas.googleapis.com/v1/{where}"]["quotaInfos"]
    kept = [each for each in infos if each["quotaId"] != "NVIDIA-L4-GPUS-per-project-region"]
    google.resources[f"cloudquotas.googleapis.com/v1/{where}"]["quotaInfos"] = kept
    unseen = {each.name for each in quotas(project) if each.state is State.UNSEEN}
    assert unseen == {f"NVIDIA_L4_GPUS in {region}" for region in google.plan.regions}


def test_quotas_that_nobody_may_read_cannot_be_seen(google, project):
    google.refusals["compute.googleapis.com"] = refused(403, "denied")
    (found,) = quotas(project)
    assert found.state is State.UNSEEN


def test_policies_that_refuse_nothing_are_one_row(project):
    (found,) = org_policies(project)
    assert (found.name, found.state) == ("8 constraints", State.MET)


@pytest.mark.parametrize(
    ("constraint", "rule", "state", "says"),
    [
        ("gcp.resourceLocations", {"denyAll": True}, State.MISSING, "denies every location"),
        (
            "gcp.resourceLocations",
            {"values": {"deniedValues": ["in:asia-locations"]}},
            State.MISSING,
            "denies asia-northeast1",
        ),
        (
            "gcp.resourceLocations",
            {"values": {"allowedValues": ["in:us-central1-locations", "europe-west4"]}},
            State.MISSING,
            "does not allow asia-northeast1",
        ),
        (
            "gcp.resourceLocations",
            {
                "values": {
                    "allowedValues": ["in:us-locations", "in:asia-locations", "in:eu-locations"]
                }
            },
            State.UNSEEN,
            "whether europe-west4 belong there",
        ),
        (
            "gcp.restrictServiceUsage",
            {"values": {"deniedValues": ["container.googleapis.com"]}},
            State.MISSING,
            "denies container.googleapis.com",
        ),
        (
            "compute.restrictLoadBalancerCreationForTypes",
            {"values": {"deniedValues": ["in:EXTERNAL"]}},
            State.MISSING,
            "denies in:EXTERNAL",
        ),
        (
            "compute.restrictLoadBalancerCreationForTypes",
            {"values": {"allowedValues": ["INTERNAL_HTTP_HTTPS"]}},
            State.MISSING,
            "does not allow EXTERNAL_MANAGED_HTTP_HTTPS",
        ),
        (
            "compute.trustedImageProjects",
            {"values": {"allowedValues": ["projects/gke-node-images"]}},
            State.MISSING,
            "does not allow projects/acme-images",
        ),
        ("compute.requireShieldedVm", {"enforce": True}, State.MISSING, "no secure boot"),
        (
            "iam.disableServiceAccountCreation",
            {"enforce": True},
            State.MISSING,
            "a service account of their own",
        ),
        (
            "iam.disableWorkloadIdentityClusterCreation",
            {"enforce": True},
            State.MISSING,
            "by Workload Identity",
        ),
        (
            "iam.allowedPolicyMemberDomains",
            {"values": {"allowedValues": ["C0abc"]}},
            State.UNSEEN,
            "restricts members",
        ),
    ],
)
def test_a_policy_that_may_refuse_the_stack_has_its_row(
    google, project, constraint, rule, state, says
):
    google.policies[constraint] = [rule]
    found, fine = org_policies(project)
    assert (found.name, found.state) == (constraint, state)
    assert says in found.says
    assert bool(found.command) is (state is State.MISSING)
    assert fine.name == "7 constraints"


@pytest.mark.parametrize(
    ("constraint", "rule"),
    [
        ("compute.requireShieldedVm", {"enforce": False}),
        (
            "gcp.resourceLocations",
            {"values": {"allowedValues": ["us-central1", "europe-west4", "asia-northeast1"]}},
        ),
        (
            "compute.restrictLoadBalancerCreationForTypes",
            {"values": {"allowedValues": ["in:EXTERNAL"]}},
        ),
    ],
)
def test_a_policy_that_allows_the_stack_has_none(google, project, constraint, rule):
    google.policies[constraint] = [rule]
    (found,) = org_policies(project)
    assert found.state is State.MET


def test_a_rule_for_some_tags_only_cannot_be_judged(google, project):
    rule = {"enforce": True, "condition": {"expression": "resource.matchTag('a/b', 'c')"}}
    google.policies["iam.disableServiceAccountCreation"] = [rule]
    found, _ = org_policies(project)
    assert found.state is State.UNSEEN
    assert "for some tags" in found.says
