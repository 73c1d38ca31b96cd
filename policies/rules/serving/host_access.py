"""Pods do not use the network, process or file namespaces of their host."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import at, entries, is_workload, pods
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule
from policies.rules.serving import privileged

REASON = "gke-inference/host-access-because"


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    for pod in pods(resource):
        if pod.annotations.get(REASON) or pod.annotations.get(privileged.REASON):
            continue
        for name in ("hostNetwork", "hostPID", "hostIPC"):
            if at(pod.spec, name) is True:
                yield broken(
                    resource, pod.at(f"spec.{name}"), "True", f"must be off, or annotated {REASON}"
                )
        for volume in entries(pod.spec, "volumes"):
            path = at(volume, "hostPath", "path")
            if path is not None:
                yield broken(
                    resource, pod.at("spec.volumes"), quoted(path), "must not be of the host"
                )


RULE = ResourceRule(
    name="host-access",
    description="Pods do not use host namespaces or host paths without a stated reason.",
    applies=is_workload,
    check=_check,
    cis=("4.2.1",),
    reference="Pod Security Standards, baseline",
)
