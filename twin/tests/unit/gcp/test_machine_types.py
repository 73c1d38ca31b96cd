"""Machine types the twin takes for real."""

import pytest

from twin.providers.gcp.resources.machine_types import is_machine_type


@pytest.mark.parametrize(
    "name",
    ["ct6e-standard-4t", "g2-standard-8", "a3-highgpu-8g", "e2-standard-4", "n2-custom-4-8192"],
)
def test_a_machine_type_that_exists_is_taken(name: str) -> None:
    assert is_machine_type(name)


@pytest.mark.parametrize(
    "name", ["ct6e-standard-3t", "g2-standard-5", "a3-highgpu-9g", "e2-standrad-4", "big", ""]
)
def test_a_machine_type_that_does_not_exist_is_not_taken(name: str) -> None:
    assert not is_machine_type(name)
