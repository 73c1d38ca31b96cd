"""The steps that install an operator: kinds, namespace, other objects, then its Deployment."""

from collections.abc import Mapping

import pulumi

from gke_inference.base.inputs import under
from gke_inference.base.manifests import Manifest, register
from gke_inference.namespace.serving_namespace import namespace_object


def install(
    component: pulumi.ComponentResource,
    name: str,
    namespace: str,
    *,
    definitions: Mapping[str, Manifest],
    objects: Mapping[str, Manifest],
    server: Manifest,
    after: Mapping[str, Manifest] | None = None,
) -> list[pulumi.Resource]:
    """Register the objects of an operator in order, and return those of its kinds.

    Args:
        component: Parent of all objects.
        name: Name of the component, and the start of each object's logical name.
        namespace: Namespace of the operator.
        definitions: CustomResourceDefinitions by role.
        objects: Objects that the operator needs before it starts, by role. They include its
            webhooks: an operator is ready once it has written its CA into them.
        server: Deployment of the operator.
        after: Objects that are created one after the other, by role. Default: none.
    """
    kinds: list[pulumi.Resource] = [
        register(f"{name}-{role}", definition, under(component))
        for role, definition in definitions.items()
    ]
    space = register(
        f"{name}-namespace", namespace_object(namespace, "restricted"), under(component)
    )
    inside = under(component, depends_on=[space])
    needed = [register(f"{name}-{role}", obj, inside) for role, obj in objects.items()]
    before = [*kinds, space, *needed]
    register(f"{name}-server", server, under(component, depends_on=before))
    made: list[pulumi.Resource] = [space]
    for role, obj in (after or {}).items():
        made.append(register(f"{name}-{role}", obj, under(component, depends_on=list(made))))
    return kinds
