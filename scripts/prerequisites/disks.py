"""Snapshots and disk images for disks and nodes."""

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from scripts.prerequisites.finding import Finding, Project, State, judged
from scripts.prerequisites.wanted import disk_image, snapshots
from scripts.shared.google_cloud import NotFound

_COMPUTE: Final = "compute.googleapis.com/compute/v1"
_STORAGE: Final = "storage.googleapis.com/storage/v1"
_USE: Final = {
    "images": ("compute.images.useReadOnly", "roles/compute.imageUser"),
    "snapshots": ("compute.snapshots.useReadOnly", "roles/compute.storageAdmin"),
}
"""Permission for creating a disk from each source, and a role that has it
(docs.cloud.google.com/iam/docs/roles-permissions/compute, 2026-11-22)."""


def disks(project: Project) -> Iterator[Finding]:
    """Yield whether every snapshot and the disk image exist and may be used."""
    yield from _snapshots(project)
    cache = project.plan.storage.image_cache
    if cache is not None and cache.archive is not None:
        yield _archive(project, cache.archive)
    path = disk_image(project.plan)
    if path is None:
        return
    owner, name = path.split("/")[1], path.rpartition("/")[2]
    command = (
        f"gcloud compute images create {name} --project={owner} --source-disk=DISK"
        " --source-disk-zone=ZONE"
    )
    role = _USE["images"][1]
    note = "" if owner == project.id else f"; GKE's service agent must have {role} there"
    yield _source(project, "disk image", path, command, note=note)


def _snapshots(project: Project) -> Iterator[Finding]:
    for path, (name, size_gib) in snapshots(project.plan).items():
        owner, short = path.split("/")[1], path.rpartition("/")[2]
        command = (
            f"gcloud compute snapshots create {short} --project={owner} --source-disk=DISK"
            f" --source-disk-zone=ZONE"
        )
        if owner == project.id:
            command = (
                f"gke-inference models push --stack {project.stack}{project.where.option}"
                f" --model {name} --in-cluster --from-hub ORGANIZATION/MODEL --snapshot {short}"
            )
        yield _source(project, "snapshot", path, command, size_gib=size_gib, note=f"; {name}")


def _source(
    project: Project,
    subject: str,
    path: str,
    command: str,
    *,
    size_gib: int | None = None,
    note: str = "",
) -> Finding:
    """Return whether a snapshot or an image is READY, small enough, and may be used.

    Args:
        project: The project.
        subject: Kind of source.
        path: `projects/P/global/KIND/NAME`.
        command: Command that creates it.
        size_gib: Size of the disk that is created from it; None for any size.
        note: Note on a met requirement.
    """
    which = _which(path)

    def look() -> Finding:
        try:
            found = project.cloud.get(f"{_COMPUTE}/{path}")
        except NotFound:
            return Finding(subject, which, State.MISSING, "there is none", command)
        status = str(found.get("status", ""))
        if status != "READY":
            return Finding(subject, which, State.MISSING, f"is {status}; must be READY")
        has = int(found.get("diskSizeGb", 0))
        if size_gib is not None and has > size_gib:
            says = f"is for a disk of {has} GiB; must be at most {size_gib}, the disk's size_gib"
            return Finding(subject, which, State.MISSING, says)
        return _usable(project, subject, path, f"READY, {has} GiB{note}")

    return judged(project, subject, which, look)


def _which(path: str) -> str:
    """Return `NAME of PROJECT` for a path."""
    return f"{path.rpartition('/')[2]} of {path.split('/')[1]}"


def _usable(project: Project, subject: str, path: str, says: str) -> Finding:
    """Return whether the caller may create a disk from it; read access is not enough."""
    kind, name = path.split("/")[3:5]
    permission, role = _USE[kind]
    answer = project.cloud.query(
        f"{_COMPUTE}/{path}/testIamPermissions", {"permissions": [permission]}
    )
    if permission in answer.get("permissions", []):
        return Finding(subject, _which(path), State.MET, says)
    command = (
        f"gcloud compute {kind} add-iam-policy-binding {name} --project={path.split('/')[1]}"
        f" --member=MEMBER --role={role}"
    )
    return Finding(
        subject, _which(path), State.MISSING, f"these credentials lack {permission}", command
    )


def _archive(project: Project, archive: str) -> Finding:
    """Return whether the archive exists from which `up` creates the disk image."""
    bucket, _, name = archive.removeprefix("gs://").partition("/")

    def look() -> Finding:
        try:
            project.cloud.get(f"{_STORAGE}/b/{bucket}/o/{quote(name, safe='')}")
        except NotFound:
            command = f"gcloud storage cp {name.rpartition('/')[2]} {archive}"
            return Finding("disk image", archive, State.MISSING, "there is none", command)
        return Finding("disk image", archive, State.MET, "`up` makes the image from it")

    return judged(project, "disk image", archive, look)
