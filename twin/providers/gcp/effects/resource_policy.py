"""Resource policies: a placement policy cannot be deleted while nodes use it."""

from collections.abc import Iterator

from gke_inference.catalogue.accelerators import catalogue_labels
from twin.providers.gcp.effects.base import Effect, World
from twin.providers.gcp.resources.references import CLUSTER
from twin.wire.kube import Kube, KubeError
from twin.wire.property_values import CloudError
from twin.world.store import Record


class ResourcePolicyEffect(Effect):
    """The nodes that GKE creates with a placement policy (rule placement.compact)."""

    def check_delete(self, world: World, record: Record) -> None:
        """Refuse the deletion while a node uses the policy."""
        try:
            user = next(_users(world, record), None)
        except KubeError as error:  # a stopped cluster keeps its nodes
            message = f"The users of '{record.id}' are unknown: {error.message}"
            raise CloudError(503, message, "backendError") from error
        if user is not None:
            raise CloudError(
                400,
                f"The resource_policy resource '{record.id}' is already being used by '{user}'",
                "resourceInUseByAnotherResource",
            )


def _users(world: World, record: Record) -> Iterator[str]:
    """Yield the instances with a policy, of clusters in its project and region."""
    region = str(record.outputs["region"])
    selector = f"{catalogue_labels()['placement_policy']}={record.name}"
    for cluster in world.store.find(CLUSTER):
        location = str(cluster.outputs["location"])
        config = world.paths.cluster(location, cluster.name) / "kubeconfig"
        is_near = location == region or location.startswith(f"{region}-")
        if cluster.project != record.project or not is_near or not config.exists():
            continue
        for node in Kube(config).list("/api/v1/nodes", label_selector=selector):
            zone = node["metadata"]["labels"]["topology.kubernetes.io/zone"]
            yield f"projects/{record.project}/zones/{zone}/instances/{node['metadata']['name']}"
