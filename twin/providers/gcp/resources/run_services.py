"""Cloud Run's errors for a service: names, limits, images and GPUs (rule cloud.run.limits)."""

import re
from collections.abc import Iterator
from typing import Any, Final

from gke_inference.catalogue.cloud_run import gpu_names, run_gpu, run_limits
from gke_inference.catalogue.names import KINDS
from gke_inference.catalogue.versions import is_placeholder
from twin.providers.kubernetes.manifests.quantities import amount
from twin.wire.property_values import CloudError, Json, as_list, as_object, get_path, is_unknown

GPU: Final = "nvidia.com/gpu"
_MOST_CHARACTERS: Final = KINDS["run_service"].max_length
_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_HOSTS: Final = re.compile(r"([a-z0-9-]+\.)?gcr\.io|[a-z0-9-]+-docker\.pkg\.dev|docker\.io")
_PLAIN_CPUS: Final = (1.0, 2.0, 4.0, 6.0, 8.0)
_PLAIN_GIB: Final = 32
_PROBES: Final = ("startupProbe", "livenessProbe", "readinessProbe")


def check_service(inputs: Json) -> None:
    """Reject a service that Cloud Run rejects, before an instance of it starts.

    Raises:
        CloudError: the first error. Its wording is from users' reports, or assumed.
    """
    for field, text in _problems(inputs):
        raise CloudError(400, f"Violation in {field}: {text}", "badRequest")


def _problems(inputs: Json) -> Iterator[tuple[str, str]]:
    limits = run_limits()
    name = str(inputs.get("name") or "")
    if name and not is_unknown(name) and not _is_name(name):
        yield (
            "service.name",
            "must use only lowercase alphanumeric characters and dashes, begin with a letter, not "
            f"end with a dash, and have at most {_MOST_CHARACTERS} characters, got {name!r}",
        )
    template = as_object(inputs.get("template")) or {}
    seconds = _seconds(template.get("timeout"))
    if seconds is not None and not 0 < seconds <= limits.timeout_seconds:
        yield "template.timeout", f"must be at most {limits.timeout_seconds}s, got {seconds:g}s"
    most = _number(template.get("maxInstanceRequestConcurrency"))
    if most is not None and not 0 <= most <= limits.concurrency:
        yield (
            "template.max_instance_request_concurrency",
            f"must be between 0 and {limits.concurrency}, got {most:g}",
        )
    yield from _scaling(template)
    containers = [as_object(each) or {} for each in as_list(template.get("containers")) or []]
    for at, container in enumerate(containers):
        yield from _image(f"template.containers[{at}].image", container.get("image"))
        for probe in _PROBES:
            yield from _probe(f"template.containers[{at}].{probe}", container.get(probe))
    yield from _sizes(str(inputs.get("location")), template, containers)


def _is_name(name: str) -> bool:
    return len(name) <= _MOST_CHARACTERS and _NAME.fullmatch(name) is not None


def _scaling(template: Json) -> Iterator[tuple[str, str]]:
    least, most = (
        _number(get_path(template, f"scaling.{field}InstanceCount")) for field in ("min", "max")
    )
    if least is not None and most is not None and least > most:
        yield (
            "template.scaling.min_instance_count",
            f"must not be greater than max_instance_count {most:g}, got {least:g}",
        )


def _image(where: str, image: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(image, str) or is_unknown(image):
        return
    if is_placeholder(image):  # our own program, not built yet: `up` accepts it (agent.image.own)
        return
    host, _, rest = image.partition("/")
    if rest and "." in host and _HOSTS.fullmatch(host) is None:
        yield (
            where,
            "Expected an image path like [host/]repo-path[:tag and/or @digest], where host is one "
            f"of [region.]gcr.io, [region-]docker.pkg.dev or docker.io but obtained {image}",
        )


def _probe(where: str, value: Any) -> Iterator[tuple[str, str]]:
    probe = as_object(value)
    if probe is None:
        return
    most = run_limits().probe_seconds if where.endswith("startupProbe") else 3600
    period = _number(probe.get("periodSeconds")) or 10
    timeout = _number(probe.get("timeoutSeconds")) or 1
    delay = _number(probe.get("initialDelaySeconds")) or 0
    threshold = _number(probe.get("failureThreshold")) or 3
    for field, number in (("initial_delay", delay), ("period", period), ("timeout", timeout)):
        if number > most:
            yield f"{where}.{field}_seconds", f"must be at most {most}, got {number:g}"
    if timeout > period:
        yield (
            f"{where}.timeout_seconds",
            f"must not be greater than period_seconds {period:g}, got {timeout:g}",
        )
    if where.endswith("startupProbe") and threshold * period > most:
        yield (
            f"{where}.failure_threshold",
            f"failure_threshold * period_seconds must be at most {most}, got "
            f"{threshold * period:g}",
        )


def _sizes(location: str, template: Json, containers: list[Json]) -> Iterator[tuple[str, str]]:
    name = get_path(template, "nodeSelector.accelerator")
    with_gpu = [at for at, each in enumerate(containers) if _limit(each, GPU)]
    if not with_gpu:
        if name:
            where = "template.containers[0].resources.limits"
            yield where, f"must have {GPU} when node_selector.accelerator is set"
        for at, container in enumerate(containers):
            yield from _plain(f"template.containers[{at}].resources.limits", container)
        return
    where = f"template.containers[{with_gpu[0]}].resources"
    container = containers[with_gpu[0]]
    if len(with_gpu) > 1 or _limit(container, GPU) != 1:
        yield f"{where}.limits", "an instance can have one GPU, in one container"
    if not name:
        yield "template.node_selector.accelerator", f"must be set with {GPU}"
        return
    if is_unknown(name):
        return
    if name not in gpu_names():
        listed = ", ".join(gpu_names())
        yield "template.node_selector.accelerator", f"must be one of {listed}, got {name!r}"
        return
    gpu = run_gpu(name)
    if location not in gpu.regions:
        yield "template.node_selector.accelerator", f"{name} is not available in {location}"
    cpus, gib = min(gpu.vcpus), gpu.least_gib
    if (found := _limit(container, "cpu")) is None or found < cpus:
        yield f"{where}.limits.cpu", f"must be at least {cpus} with {name}, got {found}"
    memory = _limit(container, "memory")
    if memory is None or memory < gib * 2.0**30:
        yield f"{where}.limits.memory", f"must be at least {gib}Gi with {name}"
    if get_path(container, "resources.cpuIdle") is True:
        yield f"{where}.cpu_idle", f"must be false with {GPU}: CPU is always allocated"


def _plain(where: str, container: Json) -> Iterator[tuple[str, str]]:
    """Yield the problems of an instance without a GPU."""
    cpus, memory = _limit(container, "cpu"), _limit(container, "memory")
    if cpus is not None and cpus >= 1 and cpus not in _PLAIN_CPUS:
        yield f"{where}.cpu", f"must be 1, 2, 4, 6 or 8, or less than 1, got {cpus:g}"
    if memory is not None and memory > _PLAIN_GIB * 2.0**30:
        yield f"{where}.memory", f"must be at most {_PLAIN_GIB}Gi"


def _limit(container: Json, what: str) -> float | None:
    limits = as_object(get_path(container, "resources.limits")) or {}
    found = amount(limits.get(what))
    return None if found is None else float(found)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _seconds(value: Any) -> float | None:
    text = str(value or "")
    return float(text[:-1]) if re.fullmatch(r"\d+(\.\d+)?s", text) else None
