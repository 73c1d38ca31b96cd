"""`gke-inference up` of a stack whose certificate or DNS zone does not exist."""

import pytest

from infra.plan import resolve
from infra.reading.load import read
from scripts.operate import refusals
from scripts.operate.refusals import refuse_absence
from scripts.terminal.console import CheckFailedError
from twin.host.paths import TwinPaths
from twin.world.capacity import GivenCertificate, World

CERTIFICATE = "models-example-com"


@pytest.fixture
def paths(tmp_path):
    made = TwinPaths(tmp_path)
    made.create()
    return made


@pytest.fixture
def stack(monkeypatch):
    """Return what makes `prod`, with some other words of its gateway, the stack that is started."""

    def changed(**words):
        prod = read("prod")
        gateway = prod.gateway.model_copy(update=words)
        plan = resolve(prod.model_copy(update={"gateway": gateway}))
        monkeypatch.setattr(refusals, "plan_of", lambda _: plan)

    return changed


def refused(paths) -> str:
    with pytest.raises(CheckFailedError) as error:
        refuse_absence("prod", paths)
    return str(error.value)


def test_a_certificate_must_be_there_in_each_region_and_for_the_front(paths, stack):
    stack(issue_certificate=False, dns=None)
    World(certificates=(GivenCertificate(name=CERTIFICATE, region="us-*"),)).save(
        paths.capacity_file
    )
    message = refused(paths)
    assert (
        f"no ACTIVE certificate {CERTIFICATE} in europe-west4, asia-northeast1, global" in message
    )
    entry = f"certificates: [{{name: {CERTIFICATE}, hostname: models.example.com}}]"
    assert f"Add `{entry}` to {paths.capacity_file}" in message
    World(certificates=(GivenCertificate(name=CERTIFICATE),)).save(paths.capacity_file)
    refuse_absence("prod", paths)


def test_a_zone_must_be_there_and_a_certificate_that_is_issued_need_not(paths, stack):
    stack()
    message = refused(paths)
    assert "no zone example-com of Cloud DNS" in message
    assert "certificate" not in message
    World(zones=("example-com",)).save(paths.capacity_file)
    refuse_absence("prod", paths)


def test_a_stack_without_either_is_started(paths, stack):
    stack(certificate=None, issue_certificate=False, dns=None, hostname=None, front=None)
    refuse_absence("prod", paths)


def test_a_scenario_brings_its_own_certificates(paths, stack):
    stack(issue_certificate=False, dns=None)
    refuse_absence("prod", paths, "region-loss")
