"""A server that answers like Google for a project in which everything a stack needs is there."""

import base64
import json

from infra.estimate.quota_needs import needs
from infra.plan import Plan
from scripts.images.registry import RegistryError
from tests.unit.bootstrap.fake_google import Answer, FakeGoogle, Json, refused
from workloads.engine.weights_manifest import Current, FileEntry, Manifest, split

COMPUTE = "compute.googleapis.com/compute/v1"
STORAGE = "storage.googleapis.com/storage/v1"
CRC32C = base64.b64encode(b"\0\1\2\3").decode()
FILES = (
    FileEntry("config.json", 700, CRC32C, "a" * 64),
    FileEntry("model.safetensors", 16_000_000_000, CRC32C, "b" * 64),
)
HOSTS = (
    "artifactregistry", "certificatemanager", "cloudbilling", "cloudbuild", "cloudquotas",
    "cloudresourcemanager", "compute", "dns", "orgpolicy", "serviceusage", "storage",
)  # fmt: skip


class ReadyProject(FakeGoogle):
    """Google, as a project sees it that has everything a stack needs."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan
        self.id = plan.platform.project
        self.services = {f"{host}.googleapis.com" for host in HOSTS}
        self.enabled = list(plan.project.services)
        self.denied_permissions: set[str] = set()
        self.policies: dict[str, list[Json]] = {}
        """Rules of an organization policy, by constraint; others allow all."""
        self.odds: dict[str, float | None] = {}
        """Obtainability by machine type; 0.9 by default."""
        self.asked_odds: list[Json] = []
        self.asked_weeks: list[Json] = []
        self.week: Json = {"location": "zones/us-central1-b", "startTime": "2026-12-01T00:00:00Z"}
        """What Compute Engine advises for calendar mode."""
        self.objects: dict[str, dict[str, str | int]] = {}
        """Text of an object, or its size, by its name, by bucket."""
        self._fill()

    def answer(self, method: str, path: str, query: dict[str, str], body: Json) -> Answer:
        """Return the status and the body of the answer to one call."""
        for start, refusal in self.refusals.items():
            if path.startswith(start):
                self.calls.append((method, path))
                return refusal
        own = self._own(path, query, body)
        if own is None:
            return super().answer(method, path, query, body)
        self.calls.append((method, path))
        return 200, own

    def _own(self, path: str, query: dict[str, str], body: Json) -> Json | None:
        if path.partition("/")[0] not in self.services:
            return None
        if path == f"serviceusage.googleapis.com/v1/projects/{self.id}/services":
            assert query["filter"] == "state:ENABLED"
            return self._services(query)
        if path.endswith("testIamPermissions"):
            wanted: list[str] = body["permissions"]
            return {"permissions": [e for e in wanted if e not in self.denied_permissions]}
        if path.endswith(":getEffectivePolicy"):
            constraint = path.rpartition("/")[2].partition(":")[0]
            return {"spec": {"rules": self.policies.get(constraint, [{"allowAll": True}])}}
        if "/advice/" in path:
            return self._odds(body) if path.endswith("/capacity") else self._week(path, body)
        return self._object(path, query) if path.startswith(f"{STORAGE}/b/") else None

    def _services(self, query: dict[str, str]) -> Json:
        """Return the enabled APIs, on two pages."""
        names = [f"projects/1/services/{each}" for each in self.enabled]
        half = len(names) // 2
        if query.get("pageToken") == "second":
            return {"services": [{"name": each} for each in names[half:]]}
        return {"services": [{"name": each} for each in names[:half]], "nextPageToken": "second"}

    def _odds(self, body: Json) -> Json:
        self.asked_odds.append(body)
        (chosen,) = body["instanceFlexibilityPolicy"]["instanceSelections"].values()
        odds = self.odds.get(chosen["machineTypes"][0], 0.9)
        zone = body["distributionPolicy"]["zones"][0]["zone"]
        scores = {} if odds is None else {"obtainability": odds, "estimatedUptime": "600s"}
        return {"recommendations": [{"scores": scores, "shards": [{"zone": zone}]}]}

    def _week(self, path: str, body: Json) -> Json:
        assert path.endswith("/calendarMode")
        self.asked_weeks.append(body)
        return {"recommendations": [{"recommendationsPerSpec": {"rung": self.week}}]}

    def _object(self, path: str, query: dict[str, str]) -> Json | None:
        bucket, _, name = path.removeprefix(f"{STORAGE}/b/").partition("/o")
        if bucket not in self.objects:
            return None
        has = self.objects[bucket]
        if not name:
            if "prefix" not in query:
                return {"name": bucket}
            named = [each for each in sorted(has) if each.startswith(query["prefix"])]
            return {"items": [_item(each, has[each]) for each in named]}
        found = has.get(name.lstrip("/").replace("%2F", "/"))
        return json.loads(found) if isinstance(found, str) else None

    def _fill(self) -> None:
        plan, platform = self.plan, self.plan.platform
        project = f"{COMPUTE}/projects/{self.id}"
        self.resources[project] = {"quotas": []}
        for region in plan.regions:
            self.resources[f"{project}/regions/{region}"] = {"quotas": []}
            certificate = f"locations/{region}/certificates/{platform.gateway.certificate}"
            url = f"certificatemanager.googleapis.com/v1/projects/{self.id}/{certificate}"
            self.resources[url] = {
                "managed": {"state": "ACTIVE", "domains": [platform.gateway.hostname]},
                "sanDnsnames": [platform.gateway.hostname],
                "expireTime": "2099-01-01T00:00:00Z",
            }
        infos = [
            {"quotaId": each.metric.id, "dimensionsInfos": [{"details": {"value": "-1"}}]}
            for each in needs(plan)
        ]
        where = f"projects/{self.id}/locations/global/services/compute.googleapis.com/quotaInfos"
        self.resources[f"cloudquotas.googleapis.com/v1/{where}"] = {"quotaInfos": infos}
        self._reserve()
        if platform.images is not None and platform.images.source is not None:
            repository = platform.images.source.repository
            build = f"cloudbuild.googleapis.com/v2/{repository}"
            self.resources[build] = {"name": repository}
            connection = build.partition("/repositories/")[0]
            self.resources[connection] = {"installationState": {"stage": "COMPLETE"}}
        self._make_disks()
        self._push()

    def _reserve(self) -> None:
        for region in self.plan.regions.values():
            for capacity in region.used_capacity:
                for at, rung in capacity.rungs.items():
                    for zone in capacity.zones[at] if rung.reservation else ():
                        where = f"projects/{self.id}/zones/{zone}/reservations/{rung.reservation}"
                        self.resources[f"{COMPUTE}/{where}"] = {
                            "zone": f"https://www.googleapis.com/compute/v1/zones/{zone}",
                            "status": "READY",
                            **(tpus() if rung.kind == "tpu" else machines(rung.machine_type)),
                        }

    def _make_disks(self) -> None:
        for model in self.plan.platform.models.values():
            if model.disk is not None:
                ready = {"status": "READY", "diskSizeGb": "150"}
                self.resources[f"{COMPUTE}/{model.disk.snapshot}"] = ready
        cache = self.plan.platform.storage.image_cache
        if cache is not None:
            image = f"{COMPUTE}/projects/{cache.project or self.id}/global/images/{cache.name}"
            self.resources[image] = {"status": "READY", "diskSizeGb": "50"}

    def _push(self) -> None:
        for every in self.plan.models.values():
            for served in every:
                path, _ = split(served.weights.removeprefix("gs://"))
                bucket, _, folder = path.partition("/")
                has = self.objects.setdefault(bucket, {})
                manifest = Manifest(folder, "v1", "2026-11-22T00:00:00Z", FILES)
                has[f"{folder}/_CURRENT.json"] = Current("v1").dump()
                has[f"{folder}/v1/_MANIFEST.json"] = manifest.dump()
                has |= {f"{folder}/v1/{file.name}": file.size for file in FILES}
                for adapter in served.settings.adapters:
                    has[f"{folder}/adapters/{adapter}/adapter_config.json"] = 500


def tpus(chips: int = 96, used: int = 0, family: str = "CT6E") -> Json:
    """Return what a reservation of TPU chips has."""
    held, taken = ([{"accelerator": {"acceleratorCount": n}}] for n in (chips, used))
    return {
        "aggregateReservation": {
            "vmFamily": f"VM_FAMILY_CLOUD_TPU_LITE_POD_SLICE_{family}",
            "reservedResources": held,
            "inUseResources": taken,
        }
    }


def machines(machine_type: str, count: int = 8, used: int = 0) -> Json:
    """Return what a reservation of machines has; 64-bit numbers come as strings."""
    return {
        "specificReservation": {
            "count": str(count),
            "inUseCount": str(used),
            "instanceProperties": {"machineType": machine_type},
        }
    }


def _item(name: str, content: str | int) -> Json:
    size = content if isinstance(content, int) else len(content)
    return {"name": name, "size": str(size), "crc32c": CRC32C}


class AnswersForAll:
    """Stands in for the registries: it has every image but some."""

    def __init__(self) -> None:
        self.errors: dict[str, str] = {}
        """Errors by the start of a reference."""

    def digest(self, reference: str) -> str:
        """Return a digest.

        Raises:
            RegistryError: The image is one of the errors.
        """
        for start, error in self.errors.items():
            if reference.startswith(start):
                raise RegistryError(f"{reference}: {error}")
        return f"sha256:{'1' * 64}"


__all__ = ["AnswersForAll", "ReadyProject", "refused"]
