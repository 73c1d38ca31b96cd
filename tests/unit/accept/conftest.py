"""A platform in a good state, which a test may spoil."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession

from infra.plan import resolve
from infra.reading.load import read
from infra.stack import Platform
from scripts.accept import deployed
from scripts.accept.deployed import Deployed
from scripts.shared.google_cloud import Cloud, ReadOnly
from tests.unit.accept.fake_platform import Cluster, Gateway, google_resources
from tests.unit.bootstrap.fake_google import FakeGoogle


@dataclass
class Fake:
    """Everything that a deployed stack answers with."""

    gateway: Gateway
    cluster: Cluster
    google: FakeGoogle
    session: Any

    def deployed(self, platform: Platform) -> Deployed:
        """Return a stack of one region, deployed here."""
        own = platform.gateway.model_copy(update={"port": self.gateway.port})
        plan = resolve(platform.model_copy(update={"gateway": own}))
        self.google.resources = google_resources(plan)
        cloud = Cloud(plan.platform.project, ReadOnly(self.session), f"{self.google.address}/")
        clusters = {
            name: deployed.Cluster(
                region, self.cluster, self.cluster.query, self.cluster.history, self.cluster.inside
            )
            for name, region in plan.regions.items()
        }
        return Deployed(plan, "local", "on a fake", cloud, clusters, sleep=lambda _: None)


@pytest.fixture(scope="session")
def local() -> Platform:
    return read("local")


@pytest.fixture
def fake() -> Iterator[Fake]:
    gateway, google = Gateway(), FakeGoogle()
    google.services |= {"container.googleapis.com", "monitoring.googleapis.com"}
    session: Any = AuthorizedSession(AnonymousCredentials())
    yield Fake(gateway, Cluster("127.0.0.1"), google, session)
    session.close()
    google.close()
    gateway.close()


@pytest.fixture
def platform(fake: Fake, local: Platform) -> Deployed:
    return fake.deployed(local)


def with_model(platform: Platform, **changes: Any) -> Platform:
    """Return a stack whose one model has some other settings."""
    ((name, model),) = platform.models.items()
    return platform.model_copy(update={"models": {name: model.model_copy(update=changes)}})
