"""The stack `prod`, and a project that has everything it needs."""

from collections.abc import Iterator
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession

from infra.plan import Plan, resolve
from infra.reading.load import read
from scripts.prerequisites.finding import Project
from scripts.shared.google_cloud import Cloud, ReadOnly
from scripts.shared.quota_limits import CloudLimits
from tests.unit.prerequisites.ready_project import AnswersForAll, ReadyProject


@pytest.fixture(scope="session")
def prod() -> Plan:
    """Give prod with a gateway in each region, once the image of its own registry was built."""
    platform = read("prod")
    assert platform.images is not None
    built = dict.fromkeys(("body-router", "callout"), f"sha256:{'1' * 64}")
    digests = {**platform.images.digests, **built}
    images = platform.images.model_copy(update={"digests": digests})
    plain = {"front": None, "issue_certificate": False, "dns": None}
    gateway = platform.gateway.model_copy(update=plain)
    return resolve(platform.model_copy(update={"images": images, "gateway": gateway}))


@pytest.fixture
def google(prod: Plan) -> Iterator[ReadyProject]:
    """Give a project with everything that prod needs."""
    fake = ReadyProject(prod)
    yield fake
    fake.close()


@pytest.fixture
def project(google: ReadyProject) -> Iterator[Project]:
    """Give prod and its project, as the command reads it."""
    session: Any = AuthorizedSession(AnonymousCredentials())
    cloud = Cloud(google.id, ReadOnly(session), f"{google.address}/")
    registry: Any = AnswersForAll()
    limits = lambda: CloudLimits(cloud, list(google.plan.regions))  # noqa: E731 - one line
    yield Project(google.plan, "prod", cloud, registry, lambda _: frozenset(), limits)
    session.close()
