"""What is prepared in a project: names of the shared resources, and the settings of each stack."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

KEY_RING: Final = "gke-inference"
POOL: Final = "gke-inference-ci"
_LONGEST_ACCOUNT: Final = 30


class SettingsError(ValueError):
    """A setting that cannot be used: field, rule and value in one line."""


@dataclass(frozen=True)
class Issuer:
    """The signer of a CI system's tokens, and the names of its claims."""

    name: str
    uri: str
    repository: str
    reference: str
    main: str

    @property
    def mapping(self) -> dict[str, str]:
        """Attributes of an identity provider, as expressions over the claims of a token."""
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
    """The repository whose jobs may act without a key."""

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
        """The signer of the repository's tokens."""
        return ISSUERS[self.system]

    @property
    def deploying_reference(self) -> str:
        """Repository and branch, as the attribute `repository_ref` of a token has them."""
        return f"{self.repository}@{self.issuer.main.format(branch=self.branch)}"


@dataclass(frozen=True)
class StackSettings:
    """What one stack needs of its project."""

    stack: str
    prefix: str
    location: str
    """Region of the stack's key; the state bucket is in that of the first stack."""
    ci: Ci | None = None
    has_armor: bool = False
    """Whether the stack calls Model Armor, or sets its floor."""
    has_backends: bool = False
    """Whether models of the stack run elsewhere."""
    has_clients: bool = False
    """Whether the stack tells clients apart, by keys."""
    has_filestore: bool = False
    """Whether adapters of the stack are on Filestore."""
    has_config_sync: bool = False
    """Whether clusters of the stack join the fleet, for Config Sync."""
    has_images: bool = False
    """Whether the stack builds and delivers container images of its own."""
    has_records: bool = False
    """Whether the stack makes the records of its host name."""
    has_streams: bool = False
    """Whether the stack has streams of Pub/Sub."""
    has_tables: bool = False
    """Whether answers of a stream are rows of BigQuery."""
    layer: str = "all"
    """`all`, `platform` or `serving`."""
    platform: str = ""
    """Of a serving stack, the platform's `stack`, if that is prepared in the same project."""
    pulumi_stack: str = ""
    """Of a serving stack, its name for Pulumi: its identities write no other stack's state."""

    def account_id(self, role: str) -> str:
        """Return the id of a CI service account: `deploy` or `preview`.

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
        """Return the settings as an output of the program keeps them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "StackSettings":
        """Return the settings that `as_dict` wrote."""
        ci = None if values["ci"] is None else Ci(**values["ci"])
        others = {key: value for key, value in values.items() if key != "ci"}
        return cls(**others, ci=ci)


@dataclass(frozen=True)
class Project:
    """A project, the names in it, and the stacks that it is prepared for."""

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
        """Return the name by which a CI job refers to its provider: it has the project's number."""
        return self.provider(ci).replace(self.id, str(self.number), 1)

    def principals(self, attribute: str, value: str) -> str:
        """Return the member of an IAM policy for the pool's identities with an attribute."""
        pool = self.pool.replace(self.id, str(self.number), 1)
        return f"principalSet://iam.googleapis.com/{pool}/attribute.{attribute}/{value}"

    def account(self, settings: StackSettings, role: str) -> str:
        """Return the email of a CI service account: `deploy` or `preview`."""
        return f"{settings.account_id(role)}@{self.id}.iam.gserviceaccount.com"
