"""A project in which the stack `prod` is up: its clusters, addresses, pods, logs and leftovers."""

from typing import Any

from infra.plan import Plan
from tests.unit.bootstrap.fake_google import Answer, FakeGoogle, refused

Json = dict[str, Any]

PROJECT = "acme-inference-prod"
NETWORK = "acme-prod-net"
COMPUTE = "compute.googleapis.com/compute/v1"
LINKS = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}"
SERVICES = ("compute", "container", "iam", "logging", "storage")


class DeployedProject(FakeGoogle):
    """Answers as Google's APIs and the API servers of the clusters do."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.services = {f"{name}.googleapis.com" for name in SERVICES}
        self.listed: dict[str, list[Json]] = {}
        """Resources of Compute Engine by collection."""
        self.logs: list[Json] = []
        self.filters: list[str] = []
        self.asked: list[Json] = []
        self.objects: dict[str, Json] = {}
        """Answers of an API server by path, the host's name in front."""
        for region in plan.regions.values():
            self.make_cluster(region.location, region.cluster_name)
            address = f"{COMPUTE}/projects/{PROJECT}/regions/{region.name}/addresses"
            self.resources[f"{address}/acme-prod-gateway"] = {"address": "203.0.113.7"}

    def make_cluster(self, location: str, name: str) -> None:
        """Add a cluster whose API server has no pod."""
        host = f"gke-{location}.{location}.gke.goog"
        where = f"container.googleapis.com/v1/projects/{PROJECT}/locations"
        self.resources[f"{where}/{location}/clusters/{name}"] = {
            "name": name,
            "location": location,
            "network": f"projects/{PROJECT}/global/networks/{NETWORK}",
            "controlPlaneEndpointsConfig": {"dnsEndpointConfig": {"endpoint": host}},
        }
        self.services.add(host)
        for kind in ("nodes", "pods"):
            self.objects[f"{host}/api/v1/{kind}"] = {"items": []}

    def clear(self) -> None:
        """Remove everything that the stack made, as `pulumi destroy` does."""
        self.resources.clear()

    def add(self, kind: str, place: str, name: str, **fields: Any) -> str:
        """Add a resource of Compute Engine; return its link."""
        link = f"{LINKS}/{place}/{kind}/{name}"
        self.listed.setdefault(kind, []).append({"name": name, "selfLink": link, **fields})
        return link

    def answer(self, method: str, path: str, query: dict[str, str], body: Json) -> Answer:
        """Answer lists, logs, operations and API servers here, and the rest as the base does."""
        self.asked.append(body)
        for start, refusal in self.refusals.items():
            if path.startswith(start):
                self.calls.append((method, path))
                return refusal
        own = self._own(method, path, query, body)
        if own is None:
            return super().answer(method, path, query, body)
        self.calls.append((method, path))
        return own

    def _own(self, method: str, path: str, query: dict[str, str], body: Json) -> Answer | None:
        start = f"{COMPUTE}/projects/{PROJECT}"
        found: Json | None = None
        if path in self.objects:
            found = self.objects[path]
        elif "/api/v1/" in path and path.partition("/")[0] in self.services:
            return 404, {"reason": "NotFound", "message": f"{path} not found"}
        elif path.endswith("/locations/-/clusters"):
            names = [name for name in self.resources if "/clusters/" in name]
            found = {"clusters": [self.resources[name] for name in names]}
        elif path == "logging.googleapis.com/v2/entries:list":
            self.filters.append(body["filter"])
            found = {"entries": self.logs}
        elif method == "DELETE":
            return self._delete(path)
        elif "/operations/" in path:
            found = {"status": "DONE"}
        elif path == f"{start}/global/firewalls":
            found = {"items": self.listed.get("firewalls", [])}
        elif path.startswith(f"{start}/aggregated/"):
            found = self._page(path.rpartition("/")[2], query)
        return None if found is None else (200, found)

    def _page(self, kind: str, query: dict[str, str]) -> Json:
        """Return one resource a page: whoever reads the first page only misses the others."""
        at = int(query.get("pageToken", "0"))
        found = self.listed.get(kind, [])
        more = {"nextPageToken": str(at + 1)} if at + 1 < len(found) else {}
        empty = {"zones/us-east1-b": {"warning": {"code": "NO_RESULTS_ON_PAGE"}}}
        return {"items": {**empty, "regions/x": {kind: found[at : at + 1]}}, **more}

    def _delete(self, path: str) -> Answer:
        link = path.replace(COMPUTE, "https://www.googleapis.com/compute/v1")
        for found in self.listed.values():
            for each in found:
                if each["selfLink"] == link:
                    found.remove(each)
                    self_link = f"{LINKS}/global/operations/operation-1"
                    return 200, {"status": "RUNNING", "selfLink": self_link}
        return refused(404, "not found", "NOT_FOUND")


def pod(name: str, node: str) -> Json:
    """Return a ready pod of an engine."""
    labels = {"app.kubernetes.io/name": "llama-3-1-8b"}
    conditions = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"nodeName": node},
        "status": {"conditions": conditions},
    }


def spot_node(name: str, zone: str) -> Json:
    """Return a spot node with one L4."""
    labels = {
        "cloud.google.com/gke-accelerator": "nvidia-l4",
        "cloud.google.com/gke-spot": "true",
        "node.kubernetes.io/instance-type": "g2-standard-12",
        "topology.kubernetes.io/zone": zone,
    }
    return {"metadata": {"name": name, "labels": labels}}
