"""Platform of the tests here: two replicas on TPUs, one on a spot machine, and Ray clusters."""

import pytest

from tests.platform.batch.rig import MODEL, stack
from tests.platform.faults.rig import NO_L4, NO_OTHER_TPU, TPU, Platform


@pytest.fixture(scope="package")
def whole(tmp_path_factory):
    file = stack(tmp_path_factory.mktemp("stack"))
    made = Platform(tmp_path_factory.mktemp("batch"), file, None)
    try:
        made.bring_up(TPU, NO_OTHER_TPU, NO_L4)
        yield made
    finally:
        made.close()


@pytest.fixture(scope="package")
def platform(whole):
    made = whole.of(MODEL)
    made.settle()
    return made
