"""Quotas by their real names."""

import pytest

from gke_inference.catalogue.accelerators import PROVISIONING, accelerator, accelerator_names
from gke_inference.catalogue.quotas import (
    accelerator_metric,
    boot_disk,
    cpu_metric,
    disk_metric,
    made_by_google,
    metric,
    vcpus_of,
)
from gke_inference.settings.fields import BootDisk


@pytest.mark.parametrize(
    ("name", "provisioning", "label", "quota_id"),
    [
        ("nvidia-l4", "on-demand", "NVIDIA_L4_GPUS", "NVIDIA-L4-GPUS-per-project-region"),
        ("nvidia-l4", "spot", "PREEMPTIBLE_NVIDIA_L4_GPUS",
         "PREEMPTIBLE-NVIDIA-L4-GPUS-per-project-region"),
        ("nvidia-h100-80gb", "reservation", "GPUS_PER_GPU_FAMILY NVIDIA_H100",
         "GPUS-PER-GPU-FAMILY-per-project-region"),
        ("nvidia-h100-80gb", "flex-start", "PREEMPTIBLE_NVIDIA_H100_GPUS",
         "PREEMPTIBLE-NVIDIA-H100-GPUS-per-project-region"),
        ("tpu-v6e", "on-demand", "TPUS_PER_TPU_FAMILY CT6E",
         "TPUS-PER-TPU-FAMILY-per-project-region"),
        ("tpu-v6e", "flex-start", "PREEMPTIBLE_TPU_V6E", "PREEMPTIBLE-TPU-V6E-per-project-region"),
        ("tpu-v5e", "on-demand", "TPU_LITE_PODSLICE_V5", "TPU-LITE-PODSLICE-V5-per-project-region"),
    ],
)  # fmt: skip
def test_chips_count_against_the_quota_of_how_they_are_bought(name, provisioning, label, quota_id):
    found = accelerator_metric(name, provisioning)
    assert found is not None
    assert (found.label, found.id, found.scope) == (label, quota_id, "region")


def test_what_calendar_mode_reserves_counts_against_none():
    assert accelerator_metric("nvidia-h100-80gb", "calendar") is None


@pytest.mark.parametrize("name", accelerator_names())
def test_every_accelerator_has_a_quota_for_every_way_to_buy_it(name):
    ways = [way for way in PROVISIONING if way != "calendar"]
    found = [accelerator_metric(name, way) for way in ways]
    assert len({each.label for each in found if each}) == 2
    units = "chips" if accelerator(name).kind == "tpu" else "GPUs"
    assert {each.unit for each in found if each} == {units}


def test_an_unknown_way_to_buy_is_refused():
    with pytest.raises(ValueError, match=r"must be one of reservation, .*, got 'gift'"):
        accelerator_metric("nvidia-l4", "gift")


@pytest.mark.parametrize(
    ("family", "label"),
    [("e2", "CPUS"), ("n2d", "N2D_CPUS"), ("c4", "CPUS_PER_VM_FAMILY C4"), ("g2", None),
     ("a3", None), ("ct6e", None)],
)  # fmt: skip
def test_cpus_count_by_family_and_those_beside_accelerators_do_not(family, label):
    found = cpu_metric(family)
    assert (found.label if found else None) == label


@pytest.mark.parametrize(
    ("machine_type", "vcpus"),
    [("e2-standard-8", 8), ("e2-medium", 2), ("custom-4-8192", 4), ("n2-custom-6-20480", 6),
     ("c3-standard-22-lssd", 22)],
)  # fmt: skip
def test_vcpus_stand_in_the_name_of_a_machine_type(machine_type, vcpus):
    assert vcpus_of(machine_type) == vcpus


def test_a_quota_of_the_project_has_no_region_in_its_id():
    assert metric("NETWORKS").id == "NETWORKS-per-project"
    rule = metric("REGIONAL_EXTERNAL_MANAGED_FORWARDING_RULES_PER_REGION_PER_NETWORK")
    assert rule.id.endswith("-PER-NETWORK")


def test_boot_disks_of_new_families_are_hyperdisks():
    assert boot_disk("g2-standard-12") == ("pd-balanced", 100)
    assert boot_disk("ct6e-standard-4t") == ("hyperdisk-balanced", 100)
    assert boot_disk("a3-highgpu-8g") == boot_disk("a3-megagpu-8g") == ("pd-balanced", 100)
    assert boot_disk("a3-ultragpu-8g") == ("hyperdisk-balanced", 100)
    assert disk_metric("hyperdisk-balanced").name == "HDB_TOTAL_GB"
    assert made_by_google("surge_nodes_per_upgrade") == 1


@pytest.mark.parametrize("disk", BootDisk)
def test_every_boot_disk_that_a_stack_can_ask_for_counts_against_a_quota(disk: BootDisk) -> None:
    assert disk_metric(disk.value).unit == "GB"
