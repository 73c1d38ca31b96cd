"""Models on the Cloud Run services of a twin: what their instances run, from the resources."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from twin.wire.property_values import Json, as_list, as_object, get_path
from twin.world.run_services import SERVICE
from twin.world.store import Record, Store

_BUCKET_MEMBER: Final = "gcp:storage/bucketIAMMember:BucketIAMMember"
_READS: Final = ("roles/storage.objectViewer", "roles/storage.objectUser")
_IMAGE: Final = re.compile(r"(^|/)[^/]*vllm[^/]*$")
_WEIGHTS: Final = re.compile(r"gs://([^/]+)/(.+)")
_CONCURRENCY: Final = 80
"""Cloud Run's default of an instance with at least one CPU."""
_MOST: Final = 100
"""Cloud Run's default maximum of instances."""


@dataclass(frozen=True)
class RunModel:
    """A revision of a service whose container is vLLM."""

    service_id: str
    name: str
    location: str
    revision: str
    """Hash of the template."""
    arguments: tuple[str, ...]
    """Arguments of `vllm serve`."""
    variables: tuple[tuple[str, str], ...]
    accelerator: str
    concurrency: int
    least: int
    """Minimum number of instances."""
    most: int
    """Maximum number of instances."""
    timeout_seconds: float
    """Maximum duration of a request."""
    startup_seconds: float
    """Maximum duration of a start."""
    account: str
    """Address of the service account of its instances."""

    @property
    def weights(self) -> tuple[str, str] | None:
        """Bucket and folder of the weights, or None if they are in no bucket."""
        found = _WEIGHTS.fullmatch(self.arguments[0]) if self.arguments else None
        return None if found is None else (found[1], found[2])

    def has_host(self, host: str) -> bool:
        """Return whether a host name is that of the service: `NAME-NUMBER.REGION.run.app`."""
        pattern = rf"{re.escape(self.name)}-[0-9]+\.{re.escape(self.location)}\.run\.app"
        return re.fullmatch(pattern, host) is not None


def run_models(store: Store) -> Iterator[RunModel]:
    """Yield the models on the services of a twin's cloud."""
    for record in store.find(SERVICE):
        found = _model(record) if record.status == "ready" else None
        if found is not None:
            yield found


def may_read(store: Store, account: str, bucket: str) -> bool:
    """Return whether a service account may read the objects of a bucket."""
    member = f"serviceAccount:{account}"
    return any(
        each.inputs.get("member") == member
        and each.inputs.get("bucket") == bucket
        and each.inputs.get("role") in _READS
        for each in store.find(_BUCKET_MEMBER)
    )


def _model(record: Record) -> RunModel | None:
    template = as_object(record.inputs.get("template")) or {}
    containers = as_list(template.get("containers")) or []
    container = as_object(containers[0]) if containers else None
    if container is None or _IMAGE.search(str(container.get("image"))) is None:
        return None
    scaling = as_object(template.get("scaling")) or {}
    probe = as_object(container.get("startupProbe")) or {}
    text = json.dumps(template, sort_keys=True)
    return RunModel(
        accelerator=str(get_path(template, "nodeSelector.accelerator") or "cpu"),
        account=str(template.get("serviceAccount") or ""),
        arguments=tuple(str(word) for word in as_list(container.get("args")) or []),
        concurrency=int(template.get("maxInstanceRequestConcurrency") or _CONCURRENCY),
        least=int(scaling.get("minInstanceCount") or 0),
        location=str(record.inputs.get("location")),
        most=int(scaling.get("maxInstanceCount") or _MOST),
        name=record.name,
        revision=hashlib.sha256(text.encode()).hexdigest()[:8],
        service_id=record.id,
        startup_seconds=_startup(probe),
        timeout_seconds=float(str(template.get("timeout") or "300s").removesuffix("s")),
        variables=tuple(_variables(container)),
    )


def _startup(probe: Json) -> float:
    delay, period = probe.get("initialDelaySeconds") or 0, probe.get("periodSeconds") or 10
    return float(delay + period * (probe.get("failureThreshold") or 3))


def _variables(container: Json) -> Iterator[tuple[str, str]]:
    for each in as_list(container.get("envs")) or []:
        entry: dict[str, Any] = as_object(each) or {}
        yield str(entry.get("name")), str(entry.get("value") or "")
