"""Billing labels on clusters, buckets and disks, and cost allocation in the clusters."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from gke_inference.catalogue.labels import MANAGED_BY
from infra.stack import Layer, Platform
from scripts.accept.deployed import Deployed, Object, seen
from scripts.accept.row import Row, Subject
from scripts.shared.google_cloud import NotFound

_CONTAINER: Final = "container.googleapis.com/v1"
_STORAGE: Final = "storage.googleapis.com/storage/v1/b"
_COMPUTE: Final = "compute.googleapis.com/compute/v1"


def labels(deployed: Deployed) -> Iterator[Row]:
    """Yield whether each billed resource has the labels of the stack."""
    platform = deployed.plan.platform
    wanted = {"env": platform.environment, "managed-by": MANAGED_BY}
    predicted = ", ".join(f"{key}={value}" for key, value in wanted.items())

    def row(kind: str, name: str, url: str, judge: Callable[[Subject, Object], Row]) -> Row:
        subject = Subject("cost labels", f"{kind} {name}", predicted)

        def look() -> Row:
            try:
                found = deployed.cloud.get(url)
            except NotFound:
                return subject.not_met("there is none")
            return judge(subject, found)

        return seen(subject, look)

    for region in deployed.plan.regions.values():
        path = f"projects/{platform.project}/locations/{region.location}"
        url = f"{_CONTAINER}/{path}/clusters/{region.cluster_name}"
        yield row("cluster", region.cluster_name, url, lambda s, f: judged_cluster(s, f, wanted))
        names = region.names
        buckets = [names.bucket("models", region.name)]
        if region.served:
            buckets.append(names.bucket("caches", region.name))
        buckets += [names.bucket("caches", region.name, team) for team in _teams(platform)]
        for bucket in buckets:
            yield row(
                "bucket", bucket, f"{_STORAGE}/{bucket}",
                lambda s, f: judged_labels(s, f.get("labels"), wanted),
            )  # fmt: skip
        for served in region.served:
            for zone in served.disk_zones or ():
                disk = names.disk(served.name, region.name)
                url = f"{_COMPUTE}/projects/{platform.project}/zones/{zone}/disks/{disk}"
                yield row(
                    "disk", f"{disk} in {zone}", url,
                    lambda s, f: judged_labels(s, f.get("labels"), wanted),
                )  # fmt: skip


def _teams(platform: Platform) -> list[str]:
    """Return the teams whose buckets the stack creates."""
    return list(platform.teams) if platform.layer is Layer.PLATFORM else []


def judged_cluster(subject: Subject, found: Object, wanted: Mapping[str, str]) -> Row:
    """Return whether a cluster has the labels, and splits its cost by namespace and label.

    GKE puts a cluster's labels on its nodes and disks
    (docs.cloud.google.com/kubernetes-engine/docs/how-to/creating-managing-labels, 2026-11-22).
    """
    row = judged_labels(subject, found.get("resourceLabels"), wanted)
    if not row.is_failure and not found.get("costManagementConfig", {}).get("enabled"):
        return subject.not_met(f"{row.measured}; cost allocation is off")
    return row


def judged_labels(
    subject: Subject, found: Mapping[str, str] | None, wanted: Mapping[str, str]
) -> Row:
    """Return whether a resource has the labels."""
    has = found or {}
    shown = ", ".join(f"{key}={has[key]}" for key in wanted if key in has)
    return subject.judged(
        shown or "no such label", is_met=all(has.get(key) == wanted[key] for key in wanted)
    )
