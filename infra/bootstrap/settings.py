"""Settings of a prepared project: names of shared resources, and the needs of each stack."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from gke_inference.catalogue.names import service_account_email

KEY_RING: Final = "gke-inference"
POOL: Final = "gke-inference-ci"
_LONGEST_ACCOUNT: Final = 30


class SettingsError(ValueError):
    """An invalid setting: field, rule and value in one line."""


@dataclass(frozen=True)
class Issuer:
    """The token issuer of a CI system, and the names of its claims."""

    name: str
    uri: str
    repository: str
    reference: str
    main: str

    @property
    def mapping(self) -> dict[str, str]:
        """Attribute mapping of an identity provider: expressions over token claims."""
        return {
            "google.subject": "assertion.sub",
            "attribute.repository": self.repository,
            "attribute.repository_ref": f"{self.repository} + '@' + {self.reference}",
        }


ISSUERS: Final = {
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
    """The repository whose jobs may authenticate without a key."""

    system: str
    """Key of `ISSUERS`."""
    repository: str
    branch: str

    @classmethod
    def parse(cls, text: str) -> "Ci":
        """Return the repository named by `github:OWNER/REPO` or `gitlab:GROUP/PROJECT@BRANCH`.

        Raises:
            SettingsError: The text has another form.
        """
        match = re.fullmatch(r"(github|gitlab):([\w.-]+(?:/[\w.-]+)+)(?:@([\w./-]+))?", text)
        if match is None:
            raise SettingsError(
                f"--ci: must be github:OWNER/REPO or gitlab:GROUP/PROJECT, got {text!r}"
            )
        system, repository, branch = match.groups()
        return cls(system, repository, branch or "main")

    @property
    def issuer(self) -> Issuer:
        """The token issuer of the repository's CI system."""
        return ISSUERS[self.system]

    @property
    def deploying_reference(self) -> str:
        """Repository and branch, as in the token attribute `repository_ref`."""
        return f"{self.repository}@{self.issuer.main.format(branch=self.branch)}"


@dataclass(frozen=True)
class StackSettings:
    """Needs of one stack in its project."""

    stack: str
    prefix: str
    location: str
    """Region of the stack's key. The first stack's region is also that of the state bucket."""
    ci: Ci | None = None
    has_apigee_apps: bool = False
    """Whether the stack creates developers and apps in Apigee."""
    has_armor: bool = False
    """Whether the stack calls Model Armor, or sets its floor."""
    has_backends: bool = False
    """Whether the stack has backends."""
    has_certificates: bool = False
    """Whether clients of the stack have certificates."""
    has_clients: bool = False
    """Whether the stack has client teams."""
    has_front_router: bool = False
    """Whether the stack has a router at its front."""
    has_filestore: bool = False
    """Whether the stack has a Filestore instance."""
    has_lustre: bool = False
    """Whether the stack has a Managed Lustre instance."""
    has_fleet: bool = False
    """Whether clusters of the stack join the fleet, for Config Sync or a gateway over them."""
    has_front: bool = False
    """Whether the stack has a global front."""
    has_images: bool = False
    """Whether the stack has image repositories or builds."""
    has_people: bool = False
    """Whether people sign in with Google."""
    has_personal_images: bool = False
    """Whether the stack has personalized images."""
    has_records: bool = False
    """Whether the stack creates the DNS records of its hostname."""
    has_streams: bool = False
    """Whether the stack has Pub/Sub streams."""
    has_pipelines: bool = False
    """Whether the stack has pipelines on Dataflow."""
    has_tables: bool = False
    """Whether a stream writes answers to BigQuery."""
    layer: str = "all"
    """`all`, `platform` or `serving`."""
    platform: str = ""
    """For a serving stack, the `stack` of its platform, if prepared in the same project."""
    services: tuple[str, ...] = ()
    """APIs that the stack calls."""
    upstream_secrets: tuple[str, ...] = ()
    """IDs of the project's existing secrets that the stack grants access to: credentials of
    registries that images are pulled through, and keys of pipelines."""
    pulumi_stack: str = ""
    """For a serving stack, its Pulumi name: its identities write no other stack's state."""

    @property
    def has_secrets(self) -> bool:
        """Whether the stack creates secrets: for client keys, or API keys of backends."""
        return self.layer != "serving" and (self.has_clients or self.has_backends)

    def account_id(self, role: str) -> str:
        """Return the ID of a CI service account: `deploy` or `preview`.

        Raises:
            SettingsError: The id is longer than Google allows.
        """
        name = f"{self.prefix}-{self.stack}-ci-{role}"
        if len(name) > _LONGEST_ACCOUNT:
            raise SettingsError(
                f"prefix: must leave the account id at most {_LONGEST_ACCOUNT} characters,"
                f" got {name!r}"
            )
        return name

    def as_dict(self) -> dict[str, Any]:
        """Return the settings for the program's output."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "StackSettings":
        """Return the settings from `as_dict` output, perhaps of another version."""
        names = {each.name for each in fields(cls)}
        chosen = {key: value for key, value in values.items() if key in names}
        chosen["ci"] = None if values["ci"] is None else Ci(**values["ci"])
        for key in ("services", "upstream_secrets"):
            chosen[key] = tuple(values.get(key, ()))
        return cls(**chosen)


@dataclass(frozen=True)
class Project:
    """A project, its names, and the stacks that it is prepared for."""

    id: str
    number: int
    stacks: tuple[StackSettings, ...]

    @property
    def bucket(self) -> str:
        """Global name of the state bucket."""
        return f"{self.id}-pulumi-state"

    def key_ring(self, location: str) -> str:
        """Return the resource name of the key ring in a region."""
        return f"projects/{self.id}/locations/{location}/keyRings/{KEY_RING}"

    def key(self, settings: StackSettings) -> str:
        """Return the resource name of the key that encrypts a stack's secrets."""
        return f"{self.key_ring(settings.location)}/cryptoKeys/stack-{settings.stack}"

    @property
    def pool(self) -> str:
        """Resource name of the identity pool."""
        return f"projects/{self.id}/locations/global/workloadIdentityPools/{POOL}"

    def provider(self, ci: Ci) -> str:
        """Return the resource name of an identity provider."""
        return f"{self.pool}/providers/{ci.system}"

    def provider_for_jobs(self, ci: Ci) -> str:
        """Return the provider's name for CI jobs, which contains the project number."""
        return self.provider(ci).replace(self.id, str(self.number), 1)

    def principals(self, attribute: str, value: str) -> str:
        """Return the IAM member for the pool's identities with an attribute."""
        pool = self.pool.replace(self.id, str(self.number), 1)
        return f"principalSet://iam.googleapis.com/{pool}/attribute.{attribute}/{value}"

    def secret_condition(self, settings: StackSettings) -> str:
        """Return the IAM condition for the secrets of a stack; empty if it has none.

        Names of secrets have the project's number (docs.cloud.google.com/iam/docs/
        conditions-resource-attributes, 2026-11-26). `secretmanager.secrets.create` is a permission
        on the project (docs.cloud.google.com/secret-manager/docs/reference/rest/v1/
        projects.secrets/create). A condition has at most 12 logical operators
        (docs.cloud.google.com/iam/quotas), so the stack's own secrets share a prefix.
        """
        place = f"projects/{self.number}/secrets"
        parts: list[str] = []
        if settings.has_secrets:
            own = f"{place}/{settings.prefix}-{settings.stack}-"
            parts.append("resource.type == 'cloudresourcemanager.googleapis.com/Project'")
            parts.append(f"resource.name.startsWith('{own}')")
        parts += [f"resource.name == '{place}/{each}'" for each in settings.upstream_secrets]
        return " || ".join(parts)

    def account(self, settings: StackSettings, role: str) -> str:
        """Return the email of a CI service account: `deploy` or `preview`."""
        return service_account_email(settings.account_id(role), self.id)
