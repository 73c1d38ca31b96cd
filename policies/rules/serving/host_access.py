"""Pods stay in their own namespaces of network, processes and files."""

from collections.abc import Iterator

from policies.reading import at, entries, is_workload, pods
from policies.rule import Config, Resource, Rule
from policies.rules.serving import privileged

REASON = "gke-inference/host-access-because"


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    for pod in pods(resource):
        if pod.annotations.get(REASON) or pod.annotations.get(privileged.REASON):
            continue
        for name in ("hostNetwork", "hostPID", "hostIPC"):
            if at(pod.spec, name) is True:
                yield f"{pod.at(f'spec.{name}')}: must be off, or annotated {REASON}, got True"
        for volume in entries(pod.spec, "volumes"):
            path = at(volume, "hostPath", "path")
            if path is not None:
                yield f"{pod.at('spec.volumes')}: must not be of the host, got {path!r}"


RULE = Rule(
    name="host-access",
    description="Pods use no network, processes or files of their node without a reason.",
    applies=is_workload,
    check=_check,
    reference="CIS GKE Benchmark 4.2.1 (Pod Security Standards, baseline)",
)
