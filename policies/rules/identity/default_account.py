"""Pods that may use the API server have an account of their own."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import at, is_kubernetes, is_workload, kept_pods, pods
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule

_IS_CONFIG = is_kubernetes("ConfigMap")


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    for pod in [*pods(resource), *kept_pods(resource)]:
        has_token = at(pod.spec, "automountServiceAccountToken") is not False
        name = at(pod.spec, "serviceAccountName")
        if has_token and name in (None, "", "default"):
            rule = "must be an account of its own, as the pod has its token"
            yield broken(resource, pod.at("spec.serviceAccountName"), quoted(name), rule)


RULE = ResourceRule(
    name="default-account",
    description="Pods with a token do not use the default service account of their namespace.",
    applies=lambda resource: is_workload(resource) or _IS_CONFIG(resource),
    check=_check,
    cis=("4.1.4",),
)
