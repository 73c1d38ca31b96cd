"""Images: the source of the platform's container images, and their attestation."""

from enum import StrEnum

from pydantic import Field

from infra.stack.base.fields import Branch, Digest, Name, SourceRepository, StackModel


class Attestation(StrEnum):
    """What happens to a pod whose image has no attestation."""

    NONE = "none"
    AUDIT = "audit"
    ENFORCE = "enforce"


class Flaw(StrEnum):
    """Severity of a known vulnerability."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class Source(StackModel):
    """Location of the sources of the platform's images."""

    repository: SourceRepository
    """Repository connected to Cloud Build, by its resource name."""
    branch: Branch = "main"
    """Branch whose pushes trigger a build."""


class ImageBuilds(StackModel):
    """Cloud Build builds the platform's images when their sources change."""

    source: Source
    """Source repository: a copy of this repository."""
    refuse_severity: Flaw = Flaw.CRITICAL
    """Minimum severity of a known vulnerability that fails a build."""


class Images(StackModel):
    """An Artifact Registry repository in each region, and the images pulled from it."""

    repository: Name | None = None
    """Name of the Artifact Registry repository to create in each region. Required if a region has
    no `existing.repository`; omit it if all regions have one."""
    attestation: Attestation = Attestation.NONE
    """Whether clusters check attestations. `audit` logs images without one, `enforce` rejects
    them."""
    build: ImageBuilds | None = None
    """Builds of the platform's images. By default, you build them yourself."""
    digests: dict[Name, Digest] = Field(default_factory=dict[str, str])
    """Digest of each image in the repository, by its name there. A third-party image without a
    digest is pulled from its original registry; `up` is refused while an image that only this
    repository's builds create has none. `gke-inference images pin --stack` looks them up."""

    @property
    def is_attested(self) -> bool:
        """Whether clusters check attestations."""
        return self.attestation is not Attestation.NONE
