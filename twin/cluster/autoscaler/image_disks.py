"""Disk images that the nodes of a compute class attach as secondary boot disks."""

from twin.cluster.base.fields import part, parts
from twin.host.paths import TwinPaths
from twin.wire.kube import JsonObject
from twin.world.capacity import Answer, World
from twin.world.store import list_resources

_IMAGE = "gcp:compute/image:Image"


def missing_image(paths: TwinPaths, project: str, rule: JsonObject) -> Answer | None:
    """Return the response to a request for nodes whose disk image does not exist, if so.

    Rule: cloud.given.

    Args:
        paths: Paths of the twin.
        project: Project of the cluster, for images whose disk names none.
        rule: Rule of the compute class.
    """
    for disk in parts(part(rule, "storage"), "secondaryBootDisks"):
        path = f"projects/{disk.get('project') or project}/global/images/{disk['diskImageName']}"
        if World.load(paths.capacity_file).gives(path):
            continue
        if not any(each.id == path for each in list_resources(paths, (_IMAGE,))):
            return Answer("not-found", "NOT_FOUND", f"The resource '{path}' was not found")
    return None
