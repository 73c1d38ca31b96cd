"""APIs, permissions, quotas and organization policies of a project, in each state."""

from dataclasses import replace

import pytest

from infra.plan import resolve
from infra.stack import AdapterPlace, Filestore, Lustre
from infra.stack.gateway import Dns
from infra.stack.images import PullThrough, UpstreamCredentials
from infra.stack.models import LiveAdapters
from scripts.prerequisites.apis import apis, number, permissions
from scripts.prerequisites.finding import Project, State
from scripts.prerequisites.limits import quotas
from scripts.prerequisites.org_policies import org_policies
from tests.unit.bootstrap.fake_google import refused


def test_the_number_of_another_project_is_not_the_project_s(project):
    (found,) = number(project)
    assert (found.name, found.state) == ("141421356237", State.MET)
    platform = project.plan.platform.model_copy(update={"project_number": 5})
    (wrong,) = number(replace(project, plan=resolve(platform)))
    assert wrong.state is State.MISSING
    assert wrong.says == (
        "project_number: must be 141421356237, the number of acme-inference-prod, got 5"
    )


def test_a_number_that_google_does_not_show_is_not_met(google, project):
    google.refusals["serviceusage.googleapis.com"] = refused(403, "denied")
    (found,) = number(project)
    assert found.state is State.UNSEEN
    google.refusals["serviceusage.googleapis.com"] = (200, {})
    (found,) = number(project)
    assert (found.state, found.says) == (State.UNSEEN, "the response has no number")


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
    met, missing, budget = permissions(project)
    assert met.state is budget.state is State.MET
    assert (missing.name, missing.state) == ("container.clusters.create", State.MISSING)
    assert missing.command.endswith("--member=MEMBER --role=roles/container.admin")


def test_a_budget_asks_for_a_permission_on_its_billing_account(google, project):
    (found,) = [each for each in permissions(project) if "billing" in each.name]
    assert (found.name, found.state) == (
        "1 permission on billing account 01A2B3-4C5D6E-7F8A9B",
        State.MET,
    )
    google.denied_permissions.add("billing.budgets.create")
    (missing,) = [each for each in permissions(project) if each.state is State.MISSING]
    assert missing.name == "billing.budgets.create on billing account 01A2B3-4C5D6E-7F8A9B"
    assert missing.command == (
        "gcloud billing accounts add-iam-policy-binding 01A2B3-4C5D6E-7F8A9B --member=MEMBER"
        " --role=roles/billing.costsManager"
    )


def test_a_billing_account_that_nobody_may_read_cannot_be_seen(google, project):
    google.refusals["cloudbilling.googleapis.com"] = refused(403, "denied")
    (found,) = [each for each in permissions(project) if "billing" in each.name]
    assert found.state is State.UNSEEN


def test_client_keys_ask_for_permissions_on_secrets(google, project):
    google.denied_permissions.add("secretmanager.secrets.create")
    (missing,) = [each for each in permissions(project) if each.state is State.MISSING]
    assert missing.name == "secretmanager.secrets.create"
    assert missing.command.endswith("--role=roles/secretmanager.admin")
    platform = project.plan.platform.model_copy(update={"clients": None})
    without = replace(project, plan=resolve(platform))
    assert [each for each in permissions(without) if each.state is State.MISSING] == []


@pytest.mark.parametrize("owner", ["acme-inference-prod", "acme-keys"])
def test_credentials_of_registries_ask_for_a_permission_on_their_secret(google, project, owner):
    login = UpstreamCredentials(username="acme", secret=f"projects/{owner}/secrets/hub/versions/1")
    platform = project.plan.platform
    through = PullThrough(name="upstream", credentials={"docker.io": login})
    images = platform.images.model_copy(update={"pull_through": through})
    platform = platform.model_copy(update={"clients": None, "images": images})
    google.services.add("secretmanager.googleapis.com")
    google.denied_permissions.add("secretmanager.secrets.setIamPolicy")
    plan = resolve(platform)
    (missing,) = [
        each for each in permissions(replace(project, plan=plan)) if each.state is State.MISSING
    ]
    assert missing.name == f"secretmanager.secrets.setIamPolicy on secret hub of {owner}"
    assert missing.command == (
        f"gcloud secrets add-iam-policy-binding hub --project={owner} --member=MEMBER"
        " --role=roles/secretmanager.admin"
    )
    path = f"secretmanager.googleapis.com/v1/projects/{owner}/secrets/hub:testIamPermissions"
    assert ("POST", path) in google.calls


def test_a_zone_of_another_project_asks_for_permissions_there(google, project):
    platform = project.plan.platform
    dns = Dns(
        zone="inner",
        project="acme-dns",
        certificate_zone="example-com",
        certificate_project="acme-web",
    )
    gateway = platform.gateway.model_copy(update={"dns": dns, "issue_certificate": True})
    plan = resolve(platform.model_copy(update={"gateway": gateway}))
    google.denied_permissions.add("dns.changes.create")
    missing, second = [
        each for each in permissions(replace(project, plan=plan)) if each.state is State.MISSING
    ]
    assert missing.name == "dns.changes.create in acme-dns"
    assert second.name == "dns.changes.create in acme-web"
    assert missing.command.startswith("gcloud projects add-iam-policy-binding acme-dns ")
    assert any("projects/acme-dns:testIamPermissions" in path for _, path in google.calls)


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
    assert (found.name, found.state) == ("9 constraints", State.MET)


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
            "whether they include europe-west4",
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
        (
            "compute.requireShieldedVm",
            {"enforce": True},
            State.UNSEEN,
            "have secure boot if GKE applies the cluster's auto-provisioning defaults",
        ),
        (
            "iam.disableServiceAccountCreation",
            {"enforce": True},
            State.MISSING,
            "a dedicated service account",
        ),
        (
            "iam.disableWorkloadIdentityClusterCreation",
            {"enforce": True},
            State.MISSING,
            "through Workload Identity",
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
    assert fine.name == "8 constraints"


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


@pytest.mark.parametrize(
    ("rule", "state", "says"),
    [
        ({"denyAll": True}, State.MISSING, "denies peerings; storage.lustre needs one"),
        ({"values": {"allowedValues": ["under:organizations/1"]}}, State.UNSEEN, "restricts"),
        ({"values": {"deniedValues": ["under:projects/x"]}}, State.UNSEEN, "restricts peerings"),
    ],
)
def test_lustre_needs_a_peering_that_policies_can_refuse(google, project, rule, state, says):
    google.policies["compute.restrictVpcPeering"] = [rule]
    (found,) = org_policies(project)
    assert found.state is State.MET  # prod has no Lustre
    found, _ = org_policies(with_storage(project, "lustre"))
    assert (found.name, found.state) == ("compute.restrictVpcPeering", state)
    assert found.says.startswith(says)


def test_lustre_is_fine_where_no_policy_restricts_peerings(project):
    (found,) = org_policies(with_storage(project, "lustre"))
    assert found.state is State.MET


@pytest.mark.parametrize(
    ("place", "permission", "role"),
    [
        ("filestore", "file.instances.create", "roles/file.editor"),
        ("lustre", "lustre.instances.create", "roles/lustre.admin"),
        (
            "lustre",
            "servicenetworking.services.addPeering",
            "roles/servicenetworking.networksAdmin",
        ),
    ],
)
def test_a_shared_folder_asks_for_the_permission_to_make_it(
    google, project, place, permission, role
):
    google.denied_permissions.add(permission)
    assert all(each.state is State.MET for each in permissions(project))
    found = list(permissions(with_storage(project, place)))
    (missing,) = [each for each in found if each.state is State.MISSING]
    assert missing.name == permission
    assert missing.command.endswith(f"--role={role}")


def with_storage(project: Project, place: str) -> Project:
    """Return the project with a model whose live adapters are in a shared folder."""
    platform = project.plan.platform
    kinds = {
        "filestore": Filestore(),
        "lustre": Lustre(capacity_gib=9000, services_range="10.64.0.0/20"),
    }
    storage = platform.storage.model_copy(update={place: kinds[place]})
    live = LiveAdapters(place=AdapterPlace(place), max_rank=32)
    name, model = next(iter(platform.models.items()))
    models = {**platform.models, name: model.model_copy(update={"live_adapters": live})}
    changed = platform.model_copy(update={"storage": storage, "models": models})
    return replace(project, plan=resolve(changed))
