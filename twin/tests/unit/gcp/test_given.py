"""Snapshots, disk images, connections and service accounts that a stack names but does not make."""

from typing import Any

import pytest

from twin.tests.unit.gcp.conftest import Cloud, Refused
from twin.world.capacity import World

DISK = "gcp:compute/disk:Disk"
IMAGE = "gcp:compute/image:Image"
SNAPSHOT = "gcp:compute/snapshot:Snapshot"
TRIGGER = "gcp:cloudbuild/trigger:Trigger"
GIVEN = "projects/acme-images/global/snapshots/llama"
ENGINES = "projects/acme-images/global/images/engines"
REPOSITORY = "projects/acme/locations/us-central1/connections/forge/repositories/platform"
ZONE = "us-central1-a"
CALLER = "app@acme-apps.iam.gserviceaccount.com"


def disk(cloud: Cloud, name: str = "llama", **more: Any) -> Any:
    inputs = {"name": name, "size": 100, "type": "hyperdisk-ml", "zone": ZONE, **more}
    return cloud.create(DISK, name, inputs)


def trigger(cloud: Cloud) -> Any:
    inputs = {
        "build": {"steps": [{"name": "docker"}]},
        "location": "us-central1",
        "name": "build",
        "repositoryEventConfig": {"push": {"branch": "main"}, "repository": REPOSITORY},
    }
    return cloud.create(TRIGGER, "build", inputs)


def grant(cloud: Cloud, email: str) -> Any:
    inputs = {"project": "acme", "role": "roles/viewer", "member": f"serviceAccount:{email}"}
    return cloud.create("gcp:projects/iAMMember:IAMMember", "viewer", inputs)


def test_a_disk_of_a_snapshot_that_nobody_made_is_refused(cloud: Cloud) -> None:
    with pytest.raises(Refused, match=f"The resource '{GIVEN}' was not found"):
        disk(cloud, snapshot=GIVEN)
    World(snapshots=(GIVEN,)).save(cloud.paths.capacity_file)
    assert disk(cloud, snapshot=GIVEN).outputs["snapshot"] == GIVEN


@pytest.mark.parametrize("name", ["mine", "global/snapshots/mine"])
def test_a_snapshot_without_a_project_is_one_of_the_disks_project(cloud: Cloud, name: str) -> None:
    with pytest.raises(Refused, match="mine' was not found"):
        disk(cloud, snapshot=name)
    World(snapshots=("projects/acme/global/snapshots/mine",)).save(cloud.paths.capacity_file)
    disk(cloud, snapshot=name)


def test_a_snapshot_and_an_image_that_a_stack_made_are_there(cloud: Cloud) -> None:
    disk(cloud, "source")
    made = cloud.create(SNAPSHOT, "mine", {"name": "mine", "sourceDisk": "source", "zone": ZONE})
    disk(cloud, snapshot=made.id)
    image = cloud.create(IMAGE, "engines", {"name": "engines", "sourceDisk": "source"})
    disk(cloud, "other", image=image.id)


def test_a_disk_of_an_image_that_nobody_made_is_refused(cloud: Cloud) -> None:
    with pytest.raises(Refused, match=f"The resource '{ENGINES}' was not found"):
        disk(cloud, image=ENGINES)
    World(images=(ENGINES,)).save(cloud.paths.capacity_file)
    disk(cloud, image=ENGINES)


@pytest.mark.parametrize("image", ["debian-cloud/debian-12", "projects/cos-cloud/global/images/c"])
def test_images_that_google_publishes_are_there(cloud: Cloud, image: str) -> None:
    disk(cloud, image=image)


@pytest.mark.parametrize(
    "image", ["engines", "projects/acme-cloud/global/images/engines", "acme-cloud/engines"]
)
def test_other_names_and_projects_are_not_published(cloud: Cloud, image: str) -> None:
    with pytest.raises(Refused, match="was not found"):
        disk(cloud, image=image)


def test_a_trigger_of_a_repository_that_nobody_linked_is_refused(cloud: Cloud) -> None:
    with pytest.raises(Refused, match="connections/forge/repositories/platform"):
        trigger(cloud)
    World(build_repositories=(REPOSITORY,)).save(cloud.paths.capacity_file)
    trigger(cloud)


def test_a_role_for_an_account_that_nobody_made_is_refused_in_each_project(cloud: Cloud) -> None:
    with pytest.raises(Refused, match=f"Service account {CALLER} does not exist"):
        grant(cloud, CALLER)
    World(service_accounts=(CALLER,)).save(cloud.paths.capacity_file)
    grant(cloud, CALLER)
    with pytest.raises(Refused, match="does not exist"):
        grant(cloud, f"other-{CALLER}")
