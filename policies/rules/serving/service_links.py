"""Services of a namespace give its pods no variables."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import at, is_kubernetes, is_workload, kept_pods, pods
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule

_IS_CONFIG = is_kubernetes("ConfigMap")


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    for pod in [*pods(resource), *kept_pods(resource)]:
        links = at(pod.spec, "enableServiceLinks")
        if links is not False:
            field = pod.at("spec.enableServiceLinks")
            yield broken(resource, field, quoted(links), "must be false")


RULE = ResourceRule(
    name="service-links",
    description="Services of the namespace add no variables to its pods.",
    applies=lambda resource: is_workload(resource) or _IS_CONFIG(resource),
    check=_check,
    reference="docs.vllm.ai/en/stable/usage/env_vars.html (VLLM_PORT of a Service called vllm)",
)
