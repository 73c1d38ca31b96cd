"""Images: where the containers of the platform come from, and what says that they are good."""

from enum import StrEnum

from pydantic import Field

from infra.stack.base.fields import Branch, Digest, Name, SourceRepository, StackModel


class Attestation(StrEnum):
    """What becomes of a pod whose image nobody attested."""

    NONE = "none"
    AUDIT = "audit"
    ENFORCE = "enforce"


class Flaw(StrEnum):
    """How bad a known vulnerability is."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class Source(StackModel):
    """Where the sources of our own images are."""

    repository: SourceRepository
    """A repository that Cloud Build is connected to, as Google names it."""
    branch: Branch = "main"
    """Branch whose pushes are built."""


class ImageBuilds(StackModel):
    """Cloud Build makes our own images when their sources change."""

    source: Source
    """Their sources: a copy of this repository."""
    refuse_severity: Flaw = Flaw.CRITICAL
    """Least severity of a known vulnerability that stops a build."""


class Images(StackModel):
    """A repository of the platform's own in each region, and what is taken from it."""

    repository: Name | None = None
    """Name of the Artifact Registry repository that is made in each region; required where a region
    names no `existing.repository`, and left out where all do."""
    attestation: Attestation = Attestation.NONE
    """Whether clusters look for attestations: `audit` logs what has none, `enforce` refuses it."""
    build: ImageBuilds | None = None
    """Builds of our own images; by default they are built by hand."""
    digests: dict[Name, Digest] = Field(default_factory=dict[str, str])
    """Digest of each image in the repository, by its name there; an image without one is still
    taken from where it comes from. `gke-inference images pin --stack` finds them."""

    @property
    def is_attested(self) -> bool:
        """Whether clusters look for attestations."""
        return self.attestation is not Attestation.NONE
