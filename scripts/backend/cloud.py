"""A Google Cloud project as a backend: Google's APIs, and the API servers of its clusters.

Names are derived from the stack, so only `pulumi()` needs the stack's state.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from infra.plan import Plan, RegionPlan
from scripts.backend.backend import Leftover, Maker, Wanted
from scripts.backend.cloud_leftovers import leftovers, remove
from scripts.backend.cloud_logs import CloudAccessLog
from scripts.backend.drift import Drift
from scripts.backend.recovery import find_in
from scripts.shared.clusters import Cluster, dns_endpoint
from scripts.shared.google_cloud import Cloud, Json, NotFound, ReadOnly
from scripts.shared.pulumi_cli import PulumiCli
from scripts.terminal.console import CommandError, errors
from twin.wire.kube import Kube

_CONTAINER: Final = "container.googleapis.com/v1/projects"
_COMPUTE: Final = "compute.googleapis.com/compute/v1/projects"
_EXPLORER: Final = "https://console.cloud.google.com/monitoring/metrics-explorer"


@dataclass(frozen=True)
class CloudBackend:
    """A stack in its project."""

    plan: Plan
    stack: str
    """Name of the stack's file, for commands."""
    writing: Cloud
    """The project's APIs with the caller's own rights."""
    token: Callable[[], str]
    """Returns an access token of the caller, for API servers."""

    @property
    def cloud(self) -> Cloud:
        """Return the project's APIs, read-only."""
        return replace(self.writing, session=ReadOnly(self.writing.session))

    @property
    def label(self) -> str:
        """Return the project."""
        return f"project {self.cloud.project}"

    def clusters(self) -> list[Cluster]:
        """Return the clusters of the stack that exist.

        Raises:
            CommandError: There is none, or one has no address that the caller may use.
            CloudError: Google refuses.
        """
        shown = {region.name: self._shown(region) for region in self.plan.regions.values()}
        missing = [name for name, found in shown.items() if found is None]
        if len(missing) == len(shown):
            raise CommandError(
                f"--stack: must be up in {self.label}, got {self.stack!r}: there is no cluster"
                f" {', '.join(self.plan.regions[name].cluster_name for name in missing)}"
            )
        for name in missing:
            errors.print(f"warning: there is no cluster {self.plan.regions[name].cluster_name}")
        return [
            Cluster(str(found["name"]), region, self._kube(found))
            for region, found in shown.items()
            if found is not None
        ]

    def _shown(self, region: RegionPlan) -> Json | None:
        where = f"{self.cloud.project}/locations/{region.location}/clusters/{region.cluster_name}"
        try:
            return self.cloud.get(f"{_CONTAINER}/{where}")
        except NotFound:
            return None

    def _kube(self, cluster: Json) -> Kube:
        """Return the API server behind a cluster's DNS endpoint, as the caller."""
        name = str(cluster["name"])
        server = f"{self.cloud.origin}{dns_endpoint(cluster)}"
        return Kube(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": name, "cluster": {"server": server}}],
                "users": [{"name": name, "user": {"token": self.token()}}],
                "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
                "current-context": name,
            }
        )

    def endpoint(self) -> str:
        """Return the URL of the gateway in the stack's first region with an address.

        Raises:
            CommandError: No region has reserved the gateway's address.
            CloudError: Google refuses.
        """
        platform = self.plan.platform
        name = self.plan.names.address()
        for region, planned in self.plan.regions.items():
            if not planned.serves_models:
                continue
            where = f"{self.cloud.project}/regions/{region}/addresses/{name}"
            try:
                found: dict[str, Any] = self.cloud.get(f"{_COMPUTE}/{where}")
            except NotFound:
                continue
            return platform.gateway.endpoint(str(found["address"]))
        raise CommandError(
            f"--stack: must be up in {self.label}, got {self.stack!r}: no region has the address"
            f" {name}"
        )

    def metrics(self) -> Mapping[str, str]:
        """Return the project's Metrics Explorer for each cluster: Google keeps the metrics."""
        url = f"{_EXPLORER}?project={self.cloud.project}"
        return {
            f"{region.location}--{region.cluster_name}": url
            for region in self.plan.regions.values()
        }

    def access_log(self, wanted: Wanted) -> CloudAccessLog:
        """Return the load balancers' logs in Cloud Logging.

        Raises:
            CommandError: A model is asked for, which these logs do not have.
        """
        if wanted.model:
            rule = "must be omitted with --on cloud: the load balancer does not log request bodies"
            raise CommandError(f"--model: {rule}")
        return CloudAccessLog(self.cloud, self.plan.names.network(), wanted)

    def leftovers(self) -> list[Leftover]:
        """Return what is left of the stack in the project.

        Raises:
            CloudError: Google refuses to show something, so the result would be incomplete.
            CommandError: It is a serving stack; its network and clusters belong to the platform.
        """
        platform = self.plan.platform
        if not self.plan.has_clusters:
            rule = "must be a stack with its own clusters"
            note = f"; its platform is {platform.platform}"
            raise CommandError(f"--stack: {rule}, got {self.stack!r}{note}")
        return leftovers(self.cloud, self.plan)

    def remove(self, leftover: Leftover) -> None:
        """Remove a leftover of GKE, and wait until it is gone.

        Raises:
            CommandError: It belongs to the stack.
            CloudError: Google refuses.
        """
        if leftover.maker is not Maker.GKE:
            raise CommandError(f"{leftover}: must be made by GKE; destroy the stack instead")
        remove(self.writing, leftover)

    def drift(self) -> list[Drift]:
        """Return nothing: the state is in the user's backend, and `pulumi refresh` reads it."""
        return []

    def find(self, kind: str, inputs: Mapping[str, Any]) -> str:
        """Return the identifier of a resource in the project.

        Raises:
            CloudError: Google refuses to show it.
        """
        return find_in(self.cloud, kind, inputs)

    def pulumi(self) -> PulumiCli:
        """Return the Pulumi CLI with the user's backend, plugins and credentials."""
        return PulumiCli({})
