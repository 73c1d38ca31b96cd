"""Resources that the twin's world lists: they exist although no stack made them."""

from twin.providers.gcp.checks.suppress import relative_path
from twin.providers.gcp.resources.references import ZONE, Link
from twin.wire.property_values import last_segment
from twin.world.capacity import World


def is_given(link: Link, project: str, world: World) -> bool:
    """Return whether the world lists the target of a reference (rule cloud.given)."""
    if ZONE in link.reference.targets:
        return link.value in world.zones
    path = relative_path(link.value)
    collection = link.reference.targets[0].rpartition(":")[2].lower() + "s"
    if "/" not in path:
        path = f"global/{collection}/{last_segment(path)}"
    return world.gives(path if path.startswith("projects/") else f"projects/{project}/{path}")
