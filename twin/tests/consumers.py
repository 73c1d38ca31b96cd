"""A published gateway, and endpoints of other projects, made through the provider."""

from typing import Any

from twin.providers.gcp.resources.references import ATTACHMENT, FORWARDING_RULE
from twin.tests.unit.gcp.conftest import PROJECT, Cloud, Made
from twin.world.store import new_record

REGION = "us-central1"


class Consumers:
    """A cloud with a service attachment and the projects that connect to it."""

    def __init__(self, cloud: Cloud, gateway: str = "127.32.251.1", port: int = 8080) -> None:
        self.cloud = cloud
        self._made: Made | None = None
        self._networks: set[str] = set()
        self.create(PROJECT, "compute/network:Network", "net", autoCreateSubnetworks=False)
        self.rule = f"projects/{PROJECT}/regions/{REGION}/forwardingRules/gkegw1"
        outputs = {
            "allowGlobalAccess": False,
            "ipAddress": gateway,
            "loadBalancingScheme": "INTERNAL_MANAGED",
            "name": "gkegw1",
            "portRange": f"{port}-{port}",
        }
        store = cloud.world.store
        store.add(new_record(FORWARDING_RULE, self.rule, "gkegw1", PROJECT, "", {}, outputs), [])
        store.set(FORWARDING_RULE, self.rule, status="ready")

    def create(self, project: str, kind: str, name: str, **inputs: Any) -> Made:
        """Create a resource of a project."""
        given = {key: value for key, value in inputs.items() if value is not None}
        return self.cloud.create(
            f"gcp:{kind}", f"{project}-{name}", {"name": name, "project": project, **given}
        )

    def publish(self, limits: dict[str, int], cidr: str = "10.3.0.0/24", **more: Any) -> Made:
        """Publish the gateway to projects with a limit each, or change that."""
        inputs: dict[str, Any] = {
            "connectionPreference": "ACCEPT_MANUAL",
            "consumerAcceptLists": [
                {"projectIdOrNum": name, "connectionLimit": limit} for name, limit in limits.items()
            ],
            "enableProxyProtocol": False,
            "name": "published",
            "natSubnets": ["published"],
            "project": PROJECT,
            "reconcileConnections": True,
            "region": REGION,
            "targetService": self.rule,
            **more,
        }
        if not self.cloud.world.store.find("gcp:compute/subnetwork:Subnetwork", "published"):
            self.create(
                PROJECT,
                "compute/subnetwork:Subnetwork",
                "published",
                ipCidrRange=cidr,
                network="net",
                purpose="PRIVATE_SERVICE_CONNECT",
                region=REGION,
            )
        if self.cloud.world.store.find(ATTACHMENT) and self._made is not None:
            self.cloud.update(self._made, inputs)
        else:
            token = "gcp:compute/serviceAttachment:ServiceAttachment"
            self._made = self.cloud.create(token, "published", inputs)
        return self._made

    def connected(self) -> list[dict[str, Any]]:
        """Return the connections that the producer sees."""
        found = self.cloud.world.store.find(ATTACHMENT)
        return [] if not found else list(found[0].outputs.get("connectedEndpoints", []))

    def outputs(self, made: Made) -> dict[str, Any]:
        """Return the present outputs of a resource."""
        record = self.cloud.world.store.get(made.token, made.id)
        return {} if record is None else record.outputs

    def network(self, project: str) -> str:
        """Return the network of a project, which has a subnetwork of its name."""
        if project not in self._networks:
            self._networks.add(project)
            self.create(project, "compute/network:Network", project, autoCreateSubnetworks=False)
            self.create(
                project,
                "compute/subnetwork:Subnetwork",
                project,
                ipCidrRange="10.9.0.0/24",
                network=project,
                region=REGION,
            )
        return f"projects/{project}/global/networks/{project}"

    def address(self, project: str, name: str) -> Made:
        """Reserve an internal address in a project's subnetwork."""
        self.network(project)
        kind = "compute/address:Address"
        return self.create(
            project, kind, name, addressType="INTERNAL", region=REGION, subnetwork=project
        )

    def endpoint(self, project: str, name: str, **change: Any) -> Made:
        """Create an endpoint of a project for the published gateway."""
        if "ipAddress" not in change:
            change["ipAddress"] = self.address(project, name).id
        inputs = {
            "loadBalancingScheme": "",
            "network": self.network(project),
            "region": REGION,
            "target": f"projects/{PROJECT}/regions/{REGION}/serviceAttachments/published",
            **change,
        }
        return self.create(project, "compute/forwardingRule:ForwardingRule", name, **inputs)
