"""Images: the source of the platform's container images, and their attestation."""

from enum import StrEnum

from pydantic import Field

from gke_inference.images.settings import (
    DEFAULT_BRANCH,
    KEEP_DAYS,
    KeepDays,
    UpstreamCredentials,
    VulnerabilitySeverity,
)
from gke_inference.settings import Settings
from gke_inference.settings.fields import (
    Branch,
    Digest,
    Hostname,
    ImageName,
    Name,
    SourceRepository,
)


class Attestation(StrEnum):
    """What happens to a pod whose image has no attestation."""

    NONE = "none"
    AUDIT = "audit"
    ENFORCE = "enforce"


class Source(Settings):
    """Location of the sources of the platform's images."""

    repository: SourceRepository
    """Repository connected to Cloud Build, by its resource name."""
    branch: Branch = DEFAULT_BRANCH
    """Branch whose pushes trigger a build."""


class ImageBuilds(Settings):
    """Cloud Build builds the platform's images."""

    source: Source | None = None
    """Source repository: a copy of this repository, whose pushes trigger builds. By default,
    `gke-inference images build` uploads a commit of this checkout, and nothing needs to be
    connected."""
    refuse_severity: VulnerabilitySeverity = VulnerabilitySeverity.CRITICAL
    """Minimum severity of a known vulnerability that fails a build."""


class PullThrough(Settings):
    """Remote repositories of Artifact Registry, which cache third-party images in each region."""

    name: Name
    """Prefix of the repositories' names: NAME-docker-io for images from docker.io."""
    credentials: dict[Hostname, UpstreamCredentials] = Field(
        default_factory=dict[str, UpstreamCredentials]
    )
    """Credentials by registry. By default, images are pulled anonymously, which Docker Hub
    limits."""
    keep_days: KeepDays = KEEP_DAYS
    """Days that an image is cached. The last three versions of each image are always kept."""


class Images(Settings):
    """An Artifact Registry repository in each region, and the images pulled from it."""

    repository: Name | None = None
    """Name of the Artifact Registry repository to create in each region. Required if a region has
    no `existing.repository`; omit it if all regions have one."""
    attestation: Attestation = Attestation.NONE
    """Whether clusters check attestations. `audit` logs images without one, `enforce` rejects
    them."""
    build: ImageBuilds | None = None
    """Builds of the platform's images. By default, you build them yourself."""
    pull_through: PullThrough | None = None
    """Caches for third-party images that have no digest in `digests`. By default, nodes pull these
    from their original registries."""
    digests: dict[ImageName, Digest] = Field(default_factory=dict[str, str])
    """Digest of each image in the repository, by its name there. A third-party image without a
    digest is pulled through `pull_through`, or from its original registry; `up` is refused while
    an image that only this repository's builds create has none. `gke-inference images pin --stack`
    looks them up."""

    @property
    def upstream_credentials(self) -> dict[str, UpstreamCredentials]:
        """Credentials by registry that images are pulled through, possibly none."""
        return {} if self.pull_through is None else self.pull_through.credentials

    @property
    def source(self) -> Source | None:
        """The connected repository of builds, if they have one."""
        return None if self.build is None else self.build.source

    @property
    def is_attested(self) -> bool:
        """Whether clusters check attestations."""
        return self.attestation is not Attestation.NONE
