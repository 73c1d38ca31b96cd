"""What a project needs before the first `pulumi up`: names, APIs, roles, and the steps to them."""

import re
from dataclasses import dataclass
from typing import Any, Final

from scripts.bootstrap_cloud import Cloud
from scripts.bootstrap_policy import Grant, in_bucket
from scripts.bootstrap_steps import Resource, Step, bucket_step, grants_step, services_step

KEY_RING: Final = "gke-inference"
POOL: Final = "gke-inference-ci"

SERVICES: Final = (
    "artifactregistry.googleapis.com",
    "certificatemanager.googleapis.com",
    "cloudkms.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "compute.googleapis.com",
    "container.googleapis.com",
    "containerfilesystem.googleapis.com",
    "iam.googleapis.com",
    "iamcredentials.googleapis.com",
    "logging.googleapis.com",
    "monitoring.googleapis.com",
    "networkservices.googleapis.com",
    "serviceusage.googleapis.com",
    "storage.googleapis.com",
    "sts.googleapis.com",
)
_DEPLOY_ROLES: Final = (
    "roles/cloudkms.viewer",
    "roles/compute.admin",
    "roles/container.admin",
    "roles/iam.serviceAccountAdmin",
    "roles/iam.serviceAccountUser",
    "roles/monitoring.editor",
    "roles/resourcemanager.projectIamAdmin",
    "roles/serviceusage.serviceUsageAdmin",
    "roles/storage.admin",
)
_IMAGE_ROLES: Final = (
    "roles/artifactregistry.admin",
    "roles/binaryauthorization.attestorsAdmin",
    "roles/binaryauthorization.policyAdmin",
    "roles/cloudbuild.builds.editor",
    "roles/cloudkms.admin",
    "roles/containeranalysis.admin",
)
_PREVIEW_ROLES: Final = (
    "roles/container.viewer",
    "roles/iam.securityReviewer",
    "roles/viewer",
)


class SettingsError(ValueError):
    """An option of bootstrap that cannot be used."""


@dataclass(frozen=True)
class Issuer:
    """Who signs the tokens of a CI system, and what its claims are called."""

    name: str
    uri: str
    repository: str
    reference: str
    main: str

    def mapping(self) -> dict[str, str]:
        """Return the attributes of a provider, as expressions over the claims of a token."""
        return {
            "google.subject": "assertion.sub",
            "attribute.repository": self.repository,
            "attribute.repository_ref": f"{self.repository} + '@' + {self.reference}",
        }


_ISSUERS: Final = {
    "github": Issuer(
        name="github",
        uri="https://token.actions.githubusercontent.com",
        repository="assertion.repository",
        reference="assertion.ref",
        main="refs/heads/{branch}",
    ),
    "gitlab": Issuer(
        name="gitlab",
        uri="https://gitlab.com",
        repository="assertion.project_path",
        reference="assertion.ref_type + '/' + assertion.ref",
        main="branch/{branch}",
    ),
}


@dataclass(frozen=True)
class Ci:
    """The repository whose jobs may act without a key."""

    issuer: Issuer
    repository: str
    branch: str

    @classmethod
    def parse(cls, text: str) -> "Ci":
        """Return what `github:OWNER/REPO` or `gitlab:GROUP/PROJECT@BRANCH` says; main by default.

        Raises:
            SettingsError: It says something else.
        """
        match = re.fullmatch(r"(github|gitlab):([\w.-]+(?:/[\w.-]+)+)(?:@([\w./-]+))?", text)
        if match is None:
            raise SettingsError(
                f"--ci: must be github:OWNER/REPO or gitlab:GROUP/PROJECT, got {text!r}"
            )
        issuer, repository, branch = match.groups()
        return cls(_ISSUERS[issuer], repository, branch or "main")


@dataclass(frozen=True)
class Settings:
    """What bootstrap prepares, for one stack."""

    stack: str
    project: str
    project_number: int
    prefix: str
    location: str
    ci: Ci | None
    has_images: bool = False
    """Whether the stack delivers images of its own."""

    @property
    def bucket(self) -> str:
        """Global name of the state bucket."""
        return f"{self.project}-pulumi-state"

    @property
    def key(self) -> str:
        """Resource name of the key of the stack's secrets."""
        return f"{self.key_ring}/cryptoKeys/stack-{self.stack}"

    @property
    def key_ring(self) -> str:
        """Resource name of the key ring."""
        return f"projects/{self.project}/locations/{self.location}/keyRings/{KEY_RING}"

    @property
    def pool(self) -> str:
        """Resource name of the identity pool."""
        return f"projects/{self.project}/locations/global/workloadIdentityPools/{POOL}"

    @property
    def provider(self) -> str:
        """Name by which a CI job refers to the provider; it has the project's number."""
        issuer = self.ci.issuer.name if self.ci is not None else "none"
        pool = self.pool.replace(self.project, str(self.project_number), 1)
        return f"{pool}/providers/{issuer}"

    def account(self, role: str) -> str:
        """Return the email of a service account: `deploy` or `preview`."""
        return f"{self.account_id(role)}@{self.project}.iam.gserviceaccount.com"

    def account_id(self, role: str) -> str:
        """Return the id of a service account.

        Raises:
            SettingsError: It is longer than the 30 characters that Google allows.
        """
        name = f"{self.prefix}-{self.stack}-ci-{role}"
        if len(name) > 30:
            raise SettingsError(f"the account {name!r} must have at most 30 characters")
        return name


def steps(settings: Settings, cloud: Cloud, storage: Any) -> list[Step]:
    """Return the steps in the order in which they must be done."""
    common = [
        services_step(cloud, SERVICES),
        bucket_step(storage, settings.project, settings.bucket, settings.location),
        *(resource.step(cloud) for resource in _key_resources(settings)),
    ]
    return common if settings.ci is None else [*common, *_ci_steps(settings, settings.ci, cloud)]


def _key_resources(settings: Settings) -> list[Resource]:
    host = "cloudkms.googleapis.com"
    ring = settings.key_ring
    return [
        Resource("key ring", host, ring, ring.rpartition("/")[0], "keyRingId", {}),
        Resource(
            "key of the stack's secrets",
            host,
            settings.key,
            f"{ring}/cryptoKeys",
            "cryptoKeyId",
            {"purpose": "ENCRYPT_DECRYPT"},
        ),
    ]


def _ci_steps(settings: Settings, ci: Ci, cloud: Cloud) -> list[Step]:
    pool = f"principalSet://iam.googleapis.com/{settings.provider.rpartition('/providers/')[0]}"
    at_branch = f"{ci.repository}@{ci.issuer.main.format(branch=ci.branch)}"
    trusted = {
        "deploy": f"{pool}/attribute.repository_ref/{at_branch}",
        "preview": f"{pool}/attribute.repository/{ci.repository}",
    }
    # A preview locks the state. Elsewhere it must not write: any branch of the repository runs it.
    locks = {"deploy": (), "preview": (in_bucket(settings.bucket),)}
    made: list[Step] = [resource.step(cloud) for resource in _identity_resources(settings, ci)]
    deploy = (*_DEPLOY_ROLES, *(_IMAGE_ROLES if settings.has_images else ()))
    for role, roles in (("deploy", deploy), ("preview", _PREVIEW_ROLES)):
        email = settings.account(role)
        account = f"projects/{settings.project}/serviceAccounts/{email}"
        member = f"serviceAccount:{email}"
        made += [
            Resource(
                f"account {settings.account_id(role)}",
                "iam.googleapis.com",
                account,
                f"projects/{settings.project}/serviceAccounts",
                "",
                {
                    "accountId": settings.account_id(role),
                    "serviceAccount": {"displayName": f"CI: {role} of stack {settings.stack}"},
                },
            ).step(cloud),
            grants_step(
                cloud,
                f"{role}: project",
                f"cloudresourcemanager.googleapis.com/v3/projects/{settings.project}",
                (
                    *(Grant(name, member) for name in roles),
                    *(Grant("roles/storage.objectUser", member, where) for where in locks[role]),
                ),
            ),
            grants_step(
                cloud,
                f"{role}: key",
                f"cloudkms.googleapis.com/v1/{settings.key}",
                (Grant("roles/cloudkms.cryptoKeyEncrypterDecrypter", member),),
            ),
            grants_step(
                cloud,
                f"{role}: who may act as it",
                f"iam.googleapis.com/v1/{account}",
                (Grant("roles/iam.workloadIdentityUser", trusted[role]),),
            ),
        ]
    return made


def _identity_resources(settings: Settings, ci: Ci) -> list[Resource]:
    host = "iam.googleapis.com"
    provider = {
        "attributeCondition": f"{ci.issuer.repository} == '{ci.repository}'",
        "attributeMapping": ci.issuer.mapping(),
        "oidc": {"issuerUri": ci.issuer.uri},
    }
    return [
        Resource(
            "identity pool",
            host,
            settings.pool,
            settings.pool.rpartition("/")[0],
            "workloadIdentityPoolId",
            {"displayName": "CI of gke-inference"},
            undelete=True,
        ),
        Resource(
            f"identity provider {ci.issuer.name}",
            host,
            f"{settings.pool}/providers/{ci.issuer.name}",
            f"{settings.pool}/providers",
            "workloadIdentityPoolProviderId",
            provider,
            wanted=provider,
            undelete=True,
        ),
    ]
