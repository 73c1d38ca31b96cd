"""The identity that deploys a stack has a role for every Google resource that the stack creates."""

import json
import re

import pytest

from infra.bootstrap.ci import deploy_roles
from infra.bootstrap.roles import SECRET_ROLE
from infra.bootstrap.settings import Project
from infra.plan import resolve
from infra.reading.load import STACKS, parse, platform_of
from scripts.bootstrap.command import settings_of
from tests.contract.infra.cloud import Deployed
from tests.shipped_stacks import EXAMPLES

ROLES = {
    "artifactregistry": "artifactregistry.admin",
    "bigquery": "bigquery.dataOwner",
    "billing": "",
    "binaryauthorization": "binaryauthorization.attestorsAdmin",
    "certificatemanager": "certificatemanager.editor",
    "cloudbuild": "cloudbuild.builds.editor",
    "cloudrunv2": "run.admin",
    "compute": "compute.admin",
    "container": "container.admin",
    "containeranalysis": "containeranalysis.admin",
    "dns": "dns.admin",
    "filestore": "file.editor",
    "gkehub": "gkehub.admin",
    "iap": "iap.admin",
    "kms": "cloudkms.admin",
    "lustre": "lustre.admin",
    "memorystore": "memorystore.admin",
    "modelarmor": "modelarmor.admin",
    "monitoring": "monitoring.editor",
    "networkconnectivity": "networkconnectivity.consumerNetworkAdmin",
    "networksecurity": "networksecurity.admin",
    "pubsub": "pubsub.admin",
    "secretmanager": "secretmanager.admin",
    "serviceaccount": "iam.serviceAccountAdmin",
    "servicenetworking": "servicenetworking.networksAdmin",
    "storage": "storage.admin",
}
"""Role for the resources of a module, from the roles pages of Google (docs.cloud.google.com/iam/
docs/roles-permissions); empty if an owner grants it outside the project."""
OF_PROJECTS = {
    "IAMMember": "resourcemanager.projectIamAdmin",
    "Service": "serviceusage.serviceUsageAdmin",
    "ServiceIdentity": "serviceusage.serviceUsageAdmin",
}
FILES = [
    STACKS / "Pulumi.prod.yaml",
    STACKS / "Pulumi.staging.yaml",
    *(
        EXAMPLES / folder / f"Pulumi.{name}.yaml"
        for folder, name in (
            ("backends", "backends"),
            ("client-certificates", "client-certificates"),
            ("guardrails", "guarded"),
            ("lustre-adapters", "lustre-adapters"),
            ("nearest-region", "nearest-region"),
            ("personalized-images", "personalized-images"),
            ("shared-adapters", "shared-adapters"),
            ("streaming", "streaming"),
        )
    ),
]


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_the_deploying_identity_has_a_role_for_each_resource(deployed: Deployed, file) -> None:
    platform = parse(json.dumps(platform_of(file)))
    made = deployed(platform).registrations
    found = {each.type.removeprefix("gcp:") for each in made if each.type.startswith("gcp:")}
    needed = {
        OF_PROJECTS[each.rpartition(":")[2]]
        if each.startswith("projects/")
        else ROLES[each.partition("/")[0]]
        for each in found
    }
    settings = settings_of(resolve(platform), file.stem.partition(".")[2], None, None)
    granted = [*deploy_roles(settings), *([SECRET_ROLE] if settings.has_secrets else [])]
    has = {role.removeprefix("roles/") for role in granted}
    own = Project(platform.project, 1, (settings,)).secret_condition(settings)
    for each in made:
        if each.type == "gcp:secretmanager/secret:Secret":
            (prefix,) = re.findall(r"startsWith\('projects/1/secrets/(.*?)'\)", own)
            assert each.inputs["secretId"].startswith(prefix)
    assert len(needed) > 5
    assert needed - {""} <= has
