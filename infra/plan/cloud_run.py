"""Models on Cloud Run: the services that a stack creates for targets of its backends."""

from collections.abc import Iterator
from dataclasses import dataclass

from gke_inference.catalogue.cloud_run import service_url
from infra.plan.names import Names, run_role
from infra.stack import CloudRunDeployment, Platform


@dataclass(frozen=True)
class RunService:
    """One service: a target of a backend, in one region."""

    backend: str
    """Name of the backend."""
    at: int
    """Number of the target in the backend."""
    region: str
    served_name: str
    """Name of the model at the service."""
    settings: CloudRunDeployment
    timeout_seconds: int
    """Maximum time of a request."""
    name: str
    """Name of the service."""
    account_id: str
    """ID of its service account."""
    weights: str
    """`gs://BUCKET/PATH@VERSION`, as read in the region."""
    project: str
    url: str

    @property
    def id(self) -> str:
        """`projects/P/locations/L/services/S`."""
        return f"projects/{self.project}/locations/{self.region}/services/{self.name}"

    @property
    def role(self) -> str:
        """Name of the service without the prefix of the stack."""
        return run_role(self.backend, self.at)

    @property
    def title(self) -> str:
        """Name in costs and quotas: of the backend, with the number of a further target."""
        return f"{self.backend}/targets/{self.at}" if self.at else self.backend


def deployment_regions(platform: Platform, deployed: CloudRunDeployment) -> tuple[str, ...]:
    """Return the regions of a deployment, in stack order: those with a gateway by default."""
    wanted = platform.regions_with_gateway() if deployed.regions is None else deployed.regions
    return tuple(name for name in platform.regions if name in wanted)


def deployments(platform: Platform) -> Iterator[tuple[str, int, CloudRunDeployment, str]]:
    """Yield each target that the stack deploys: backend, number, settings and served name."""
    for name, backend in platform.backends.items():
        for at, target in enumerate(backend.places):
            if target.deploy is not None:
                yield name, at, target.deploy, target.model


def resolve_cloud_run(platform: Platform, names: Names) -> tuple[RunService, ...]:
    """Return the services of a stack, in the order of its backends and regions."""
    return tuple(
        RunService(
            account_id=names.run_account(name, at, region),
            at=at,
            backend=name,
            name=names.run_service(name, at),
            project=platform.project,
            region=region,
            served_name=served,
            settings=deployed,
            timeout_seconds=platform.backends[name].timeout_seconds,
            url=service_url(names.run_service(name, at), platform.project_number, region),
            weights=names.weights(deployed.weights, region),
        )
        for name, at, deployed, served in deployments(platform)
        for region in deployment_regions(platform, deployed)
    )
