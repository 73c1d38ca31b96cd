"""The stack `prod`, up in a project that a local server plays."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from google.auth.transport.requests import AuthorizedSession
from google.oauth2.credentials import Credentials

from infra.plan import Plan, resolve
from infra.reading.load import read
from scripts.shared import google_clients
from scripts.shared.google_cloud import Cloud
from tests.unit.backend.deployed_project import PROJECT, DeployedProject


@pytest.fixture(scope="session")
def prod() -> Plan:
    """Give prod, resolved: nothing can change it."""
    return resolve(read("prod"))


@pytest.fixture
def google(prod: Plan, monkeypatch: pytest.MonkeyPatch) -> Iterator[DeployedProject]:
    """Give a project with prod, and let commands reach it."""
    fake = DeployedProject(prod)
    untyped: Any = Credentials
    session: Any = AuthorizedSession(untyped(token="token"))
    waits = SimpleNamespace(sleep=lambda _: None)
    cloud = Cloud(PROJECT, session, f"{fake.address}/", waits.sleep)
    monkeypatch.setattr(google_clients, "connect", lambda _: cloud)
    yield fake
    session.close()
    fake.close()
