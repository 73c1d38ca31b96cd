"""Platform for the tests of batches: two replicas on TPUs, and one on a spot machine."""

import pytest

from tests.platform.batch.rig import EXAMPLE
from tests.platform.faults.rig import NO_L4, NO_OTHER_TPU, TPU, Platform


@pytest.fixture(scope="package")
def platform(tmp_path_factory):
    made = Platform(tmp_path_factory.mktemp("batch"), EXAMPLE)
    try:
        made.bring_up(TPU, NO_OTHER_TPU, NO_L4)
        made.settle()
        yield made
    finally:
        made.close()
