"""What the things of a platform are called in the cloud and in the cluster."""

from dataclasses import dataclass

from gke_inference.catalogue.names import physical_name
from infra.stack import Platform

NAMESPACE = "models"
"""Namespace of the gateway, the pools and the model servers: a pool selects only in its own."""


@dataclass(frozen=True)
class Names:
    """The physical names of one platform. Each raises ValueError when it breaks Google's rules."""

    platform: Platform

    def network(self) -> str:
        """Return the name of the VPC."""
        return self._name("compute", "net")

    def cluster(self, region: str) -> str:
        """Return the name of a region's cluster."""
        return self._name("cluster", region)

    def node_account(self, region: str) -> str:
        """Return the account id of a region's nodes."""
        return self._name("service_account", region)

    def gateway(self) -> str:
        """Return the name of the Gateway, the same in every cluster."""
        return self._name("compute", "gateway")

    def bucket(self, role: str, region: str) -> str:
        """Return the global name of a region's bucket: role `models` or `caches`."""
        return self._name("bucket", f"{role}-{region}")

    def address(self) -> str:
        """Return the name of the gateway's address, the same in every region."""
        return self._name("compute", "gateway")

    def disk(self, model: str, region: str) -> str:
        """Return the name of a model's disks in a region."""
        return self._name("compute", f"{object_name(model)}-{region}")

    def weights(self, path: str, region: str) -> str:
        """Return `gs://BUCKET/PATH` of weights as a region reads them."""
        path = path.rstrip("/")
        return path if path.startswith("gs://") else f"gs://{self.bucket('models', region)}/{path}"

    def image_builder(self) -> str:
        """Return the account id of the builds of images."""
        return self._name("service_account", "images")

    def attestor(self) -> str:
        """Return the name of the attestor of images, and of its note."""
        return self._name("compute", "images")

    def _name(self, kind: str, role: str) -> str:
        return physical_name(kind, self.platform.prefix, self.platform.environment, role)


def object_name(model: str) -> str:
    """Return a model's name as Kubernetes objects carry it: `llama-3-1-8b` for `llama-3.1-8b`."""
    return model.replace(".", "-").replace("_", "-")


def version_name(name: str, version: str) -> str:
    """Return what the second version of a model is called: `NAME-VERSION`."""
    return f"{name}-{version}"


def claim_name(model: str) -> str:
    """Return the claim of a model's disks."""
    return f"{object_name(model)}-weights"


def pool_name(capacity: str, at: int) -> str:
    """Return the name of the node pool of a capacity's rung, numbered as in the stack."""
    return f"{capacity}-{at}"
