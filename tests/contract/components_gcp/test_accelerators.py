from math import prod

import pytest

from gke_inference.catalogue import accelerators
from gke_inference.catalogue.accelerators import accelerator, gpu_machine, tpu_slice

TPUS = [name for name in accelerators.accelerator_names() if accelerator(name).kind == "tpu"]
SLICES = [(name, entry) for name in TPUS for entry in accelerator(name).slices]


def test_the_catalogue_has_every_accelerator_the_platform_speaks_of():
    assert accelerators.accelerator_names() == (
        "nvidia-a100-40gb",
        "nvidia-a100-80gb",
        "nvidia-b200",
        "nvidia-h100-80gb",
        "nvidia-h100-mega-80gb",
        "nvidia-h200-141gb",
        "nvidia-l4",
        "nvidia-rtx-pro-6000",
        "tpu-v5e",
        "tpu-v6e",
        "tpu7x",
    )


@pytest.mark.parametrize(("name", "entry"), SLICES, ids=lambda value: str(value)[:40])
def test_the_product_of_a_topology_is_its_chips_and_hosts_times_chips_per_host(name, entry):
    sides = [int(side) for side in entry.topology.split("x")]
    machine = accelerators.machine(name, entry.machine_type)
    assert prod(sides) == entry.chips == entry.hosts * machine.chips
    assert entry.chips_per_host == machine.chips
    assert len(sides) == (3 if name == "tpu7x" else 2)


@pytest.mark.parametrize("name", accelerators.accelerator_names())
def test_every_zone_is_in_the_region_it_is_listed_under(name):
    zones = accelerator(name).zones
    assert zones
    for region, listed in zones.items():
        assert all(accelerators.region_of(zone) == region for zone in listed)


def test_what_is_not_for_everybody_is_not_among_the_zones_of_everybody():
    v6e = accelerator("tpu-v6e")
    everybody = {zone for zones in v6e.zones.values() for zone in zones}
    assert everybody.isdisjoint(v6e.restricted_zones)
    assert v6e.zones_by_provisioning.keys() == {"calendar", "flex-start"}
    assert {zone for zones in v6e.zones_by_provisioning.values() for zone in zones} <= everybody
    assert accelerators.zones_of("tpu-v6e", "us-west1") == ()
    assert accelerators.zones_of("tpu-v6e", "us-west1", "spot") == ("us-west1-c",)
    assert accelerators.zones_of("tpu-v6e", "us-east5", "flex-start") == ("us-east5-a",)
    assert accelerators.zones_of("nvidia-h100-mega-80gb", "us-east5", "spot") is None
    assert accelerators.all_zones("tpu-v5e", "flex-start") == ("us-west4-a",)


def test_chip_memory_is_what_google_publishes():
    memory = {name: accelerator(name).memory_gib for name in accelerators.accelerator_names()}
    assert memory["tpu-v6e"] == 32
    assert memory["tpu-v5e"] == 16
    assert memory["tpu7x"] == 192
    assert memory["nvidia-l4"] == 24
    assert memory["nvidia-h200-141gb"] == 141


def test_a_pod_asks_for_the_resource_of_its_kind_and_selects_by_its_type():
    assert accelerator("tpu-v6e").resource == "google.com/tpu"
    assert accelerator("nvidia-a100-40gb").gke_type == "nvidia-tesla-a100"
    assert accelerator("nvidia-l4").resource == "nvidia.com/gpu"


def test_a_misspelt_accelerator_is_refused_with_the_near_one():
    with pytest.raises(accelerators.UnknownAcceleratorError, match="did you mean 'tpu-v6e'"):
        accelerator("tpu-6ve")


def test_a_2x4_is_one_host_unless_the_smaller_machine_is_asked_for():
    assert tpu_slice("tpu-v6e", "2x4").hosts == 1
    assert tpu_slice("tpu-v6e", "2x4", "ct6e-standard-4t").hosts == 2


def test_a_topology_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(ValueError, match=r"1x1, 2x2, 2x4, .*, got '3x3'"):
        tpu_slice("tpu-v6e", "3x3")


def test_a_machine_that_cannot_make_the_topology_is_refused():
    with pytest.raises(ValueError, match="must be ct6e-standard-4t for tpu-v6e 4x4"):
        tpu_slice("tpu-v6e", "4x4", "ct6e-standard-8t")


def test_a_number_of_gpus_no_node_has_is_refused_with_those_that_exist():
    with pytest.raises(ValueError, match=r"\(1, 2, 4, 8\), got 3"):
        gpu_machine("nvidia-h100-80gb", 3)


def test_the_usual_machine_is_taken_for_one_l4():
    assert gpu_machine("nvidia-l4", 1).name == "g2-standard-12"
    assert gpu_machine("nvidia-l4", 1, "g2-standard-32").vcpus == 32


def test_kinds_are_not_mixed_up():
    with pytest.raises(ValueError, match="which is a GPU"):
        tpu_slice("nvidia-l4", "2x2")
    with pytest.raises(ValueError, match="which is a TPU"):
        gpu_machine("tpu-v6e", 1)


def test_the_catalogue_says_when_it_was_compiled_and_what_it_labels():
    assert accelerators.catalogue_date() == "2026-11-22"
    assert accelerators.catalogue_labels()["compute_class"] == "cloud.google.com/compute-class"
    assert accelerators.catalogue_taints()["gpu"] == {"key": "nvidia.com/gpu", "value": "present"}
