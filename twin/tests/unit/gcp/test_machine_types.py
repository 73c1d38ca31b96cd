"""Machine types the twin takes for real."""

import pytest

from twin.providers.gcp.resources.machine_types import check_boot_disk, is_machine_type
from twin.wire.property_values import CloudError


@pytest.mark.parametrize(
    "name",
    [
        "ct6e-standard-4t",
        "g2-standard-8",
        "a3-highgpu-8g",
        "e2-standard-4",
        "n2-custom-4-8192",
        "c4-standard-4-lssd",
    ],
)
def test_a_machine_type_that_exists_is_taken(name: str) -> None:
    assert is_machine_type(name)


@pytest.mark.parametrize(
    "name",
    [
        "ct6e-standard-3t",
        "g2-standard-5",
        "a3-highgpu-9g",
        "e2-standrad-4",
        "n4-standard-5",
        "c4-custom-4-8192",
        "big",
        "",
    ],
)
def test_a_machine_type_that_does_not_exist_is_not_taken(name: str) -> None:
    assert not is_machine_type(name)


@pytest.mark.parametrize(
    ("machine", "disk"),
    [
        ("n4-standard-4", "pd-balanced"),
        ("c4a-standard-4", "pd-ssd"),
        ("e2-standard-4", "hyperdisk-balanced"),
        ("g2-standard-4", "pd-standard"),
    ],
)
def test_a_pool_with_a_boot_disk_that_its_machines_do_not_have_is_refused(
    machine: str, disk: str
) -> None:
    with pytest.raises(CloudError) as refused:
        check_boot_disk({"nodeConfig": {"diskType": disk, "machineType": machine}}, machine)
    assert f"[{disk}, {machine}] features are not compatible" in str(refused.value)


@pytest.mark.parametrize(
    ("machine", "disk"),
    [
        ("n4-standard-4", "hyperdisk-balanced"),
        ("e2-standard-4", "pd-balanced"),
        ("n4-highmem-2", ""),
    ],
)
def test_a_pool_with_a_boot_disk_of_its_machines_or_with_the_default_is_taken(
    machine: str, disk: str
) -> None:
    check_boot_disk({"nodeConfig": {"diskType": disk, "machineType": machine}}, machine)
