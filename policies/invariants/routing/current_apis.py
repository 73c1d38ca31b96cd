"""Objects use API versions that are still served."""

from collections.abc import Iterator

from gke_inference.catalogue.versions import retired
from policies.framework.finding import Finding, broken
from policies.framework.rule import Invariant
from policies.objects.world import World


def _check(world: World) -> Iterator[Finding]:
    gone = retired()
    for each in world.objects:
        version = str(each.body["apiVersion"])
        successor = gone.get((version, each.kind)) or gone.get((version, "*"))
        if successor is not None:
            yield broken(
                each,
                "apiVersion",
                version,
                "this version is no longer served",
                f"write {successor}",
            )


RULE = Invariant(
    name="current-apis",
    description="Every object uses an API version that is still served.",
    reference="gateway-api-inference-extension releases; ai-on-gke guides still have v1alpha2",
    check=_check,
)
