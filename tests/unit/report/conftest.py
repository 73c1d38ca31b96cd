"""A stack of tests, changed here and there, and a folder as `render` leaves it."""

import copy
import json
from typing import Any

import pytest

from infra.reading.load import STACKS, parse, platform_of
from scripts.check.render import write
from tests.shipped_stacks import EXAMPLES

CLUSTER = "urn:pulumi:local::gke-inference::gcp:container/cluster:Cluster::us-central1"
PROVIDER = "urn:pulumi:local::gke-inference::pulumi:providers:kubernetes::us-central1"
NAME = "acme-local-us-central1"


@pytest.fixture
def stack():
    """Makes the stack `local`, or another, after a change of its plain data."""

    def made(change=None, name="local"):
        files = (*STACKS.glob(f"Pulumi.{name}.yaml"), *EXAMPLES.rglob(f"Pulumi.{name}.yaml"))
        data: Any = copy.deepcopy(platform_of(files[0]))
        if change is not None:
            change(data)
        return parse(json.dumps(data))

    return made


def cluster(**inputs):
    """Return the state of a cluster."""
    return {"urn": CLUSTER, "type": CLUSTER.split("::")[2], "inputs": {"name": NAME, **inputs}}


def provider():
    """Return the state of the provider that reaches it."""
    depends = {"kubeconfig": [CLUSTER]}
    kind = "pulumi:providers:kubernetes"
    return {"urn": PROVIDER, "type": kind, "inputs": {}, "propertyDependencies": depends}


def state(api_version, kind, name, spec):
    """Return the state of a Kubernetes object."""
    token = f"kubernetes:{api_version}:{kind}"
    return {
        "urn": f"urn:pulumi:local::gke-inference::{token}::{name}",
        "type": token,
        "provider": f"{PROVIDER}::id",
        "inputs": {
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {"name": name, "namespace": "models"},
            "spec": spec,
        },
    }


def route(name, backends, **match):
    """Return the state of a route of one match, by headers."""
    headers = [{"name": key.replace("_", "-"), "value": value} for key, value in match.items()]
    rule = {
        "backendRefs": [
            {"kind": "InferencePool", "name": pool, "weight": weight}
            for pool, weight in backends.items()
        ],
        "matches": [{"headers": headers, "path": {"type": "PathPrefix", "value": "/v1"}}],
    }
    spec = {"hostnames": ["models.example.com"], "rules": [rule]}
    return state("gateway.networking.k8s.io/v1", "HTTPRoute", name, spec)


@pytest.fixture
def rendered(tmp_path):
    """Writes states as `render` does, and returns the folder."""

    def made(*states):
        folder = tmp_path / "rendered"
        folder.mkdir(exist_ok=True)
        write([cluster(), provider(), *states], folder)
        return folder

    return made
