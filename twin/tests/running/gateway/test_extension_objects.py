"""Traffic extensions as objects: rejection by the API server, and status."""

from typing import Any

import pytest

from twin.tests.running.gateway.client import ask
from twin.tests.running.gateway.cluster import BLOCK, Cluster
from twin.tests.running.gateway.manifests import service
from twin.tests.running.gateway.processors import Processor, go_on, refuse
from twin.wire.kube import KubeError

pytestmark = pytest.mark.needs_tools
API = "networking.gke.io/v1"


def extension(name: str = "guard", chains: int = 1, count: int = 1, **fields: Any) -> Any:
    item = {
        "authority": "guard.example.com",
        "timeout": "1s",
        "supportedEvents": ["RequestHeaders"],
        "backendRef": {"group": "", "kind": "Service", "name": "guard", "port": 9010},
        **fields,
    }
    found = [
        {"name": f"c{n}", "extensions": [{"name": f"e{m}", **item} for m in range(count)]}
        for n in range(chains)
    ]
    target = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "models"}
    return {
        "apiVersion": API,
        "kind": "GCPTrafficExtension",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"targetRefs": [target], "extensionChains": found},
    }


@pytest.fixture(scope="module", name="guard")
def a_guard(cluster: Cluster, models: Any):
    """A program behind a Service of the cluster."""
    del models
    found = Processor("guard", f"127.48.{BLOCK}.3", 9010)
    cluster.pod("guard", {"app": "guard"}, found.address)
    svc = service("guard", {"app": "guard"}, 9010)
    svc["spec"]["ports"][0]["appProtocol"] = "kubernetes.io/h2c"
    cluster.apply(svc)
    yield found
    found.stop()


def condition(cluster: Cluster, name: str = "guard") -> dict[str, Any]:
    (ancestor,) = cluster.status(API, "GCPTrafficExtension", name)["ancestors"]
    (found,) = ancestor["conditions"]
    return found


def test_an_accepted_extension_is_called_until_it_is_deleted(cluster, guard, eventually):
    told = '{"error": {"message": "no key"}}'
    guard.answers = lambda *_: [refuse(401, told, {"content-type": "application/json"})]
    cluster.apply(extension())
    eventually(lambda: ask("llama-8b")[0] == 401, 20)
    assert ask("llama-8b")[2] == {"error": {"message": "no key"}}
    # a gateway may ask the extension before its status is written
    eventually(lambda: cluster.status(API, "GCPTrafficExtension", "guard").get("ancestors"))
    assert (condition(cluster)["status"], condition(cluster)["reason"]) == ("True", "Accepted")
    guard.answers = lambda *_: [go_on("request_headers", {"x-tenant": "acme"})]
    assert ask("llama-8b")[0] == 200
    assert cluster.engines.headers[-1]["x-tenant"] == "acme"
    guard.answers = lambda *_: [refuse(401, told)]
    cluster.delete(API, "GCPTrafficExtension", "guard")
    eventually(lambda: ask("llama-8b")[0] == 200, 20)


def test_an_extension_to_model_armor_elsewhere_closes_the_gateway_and_says_so(
    cluster, guard, eventually
):
    del guard
    name = "modelarmor.antarctica1.rep.googleapis.com"
    fields = {"backendRef": None, "authority": None, "googleAPIServiceName": name}
    wanted = extension("armor", **fields)
    item = wanted["spec"]["extensionChains"][0]["extensions"][0]
    for key in ("backendRef", "authority"):
        item.pop(key)
    cluster.apply(wanted)
    try:
        found = eventually(lambda: condition(cluster, "armor"), 20)
        assert (found["status"], found["reason"]) == ("False", "UnsupportedValue")
        text = "the twin calls Services, and Model Armor of the Gateway's own region"
        closed = "the Gateway rejects every request"
        assert found["message"] == f"extension e0: {text}, got {name}; {closed}"
        eventually(lambda: ask("llama-8b")[0] == 500, 20)
    finally:
        cluster.delete(API, "GCPTrafficExtension", "armor")
    eventually(lambda: ask("llama-8b")[0] == 200, 20)


def authorization(name: str, **spec: Any) -> dict[str, Any]:
    """Return an authorization policy of the Gateway."""
    found = extension(name) | {"kind": "GCPAuthzPolicy"}
    target = found["spec"]["targetRefs"]
    return found | {"spec": {"enforcementLevel": "L7", "targetRefs": target, **spec}}


def test_authorization_policies_reject_requests_with_403(cluster, guard, eventually):
    del guard
    paths = [{"type": "Prefix", "value": "/v1/comp"}]
    headers = [{"name": "X-Team", "type": "Exact", "value": "b"}]
    allow = [{"to": {"operations": [{"paths": paths, "methods": ["POST"]}]}}]
    deny = [{"to": {"operations": [{"headers": headers}]}}]
    policies = [
        authorization("nobody", action="DENY_BY_DEFAULT"),
        authorization("prompts", action="ALLOW", rules=allow),
        authorization("not-b", action="DENY", rules=deny),
    ]
    try:
        cluster.apply(policies[0])
        eventually(lambda: ask("llama-8b")[0] == 403, 20)
        cluster.apply(policies[1])
        eventually(lambda: ask("llama-8b")[0] == 200, 20)
        cluster.apply(policies[2])
        eventually(lambda: ask("llama-8b", headers={"x-team": "b"})[0] == 403, 20)
        assert ask("llama-8b", headers={"x-team": "a"})[0] == 200
    finally:
        for policy in policies:
            cluster.delete(API, "GCPAuthzPolicy", policy["metadata"]["name"])
    eventually(lambda: ask("llama-8b", headers={"x-team": "b"})[0] == 200, 20)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"chains": 6}, "must have at most 5 items"),
        ({"count": 4}, "must have at most 3 items"),
        ({"timeout": "5ms"}, "timeout must be between 10-10000 milliseconds"),
        ({"metadata": {f"k{n}": "v" for n in range(17)}}, "must have at most 16"),
        ({"supportedEvents": ["RequestHeaders", "Everything"]}, "Unsupported value"),
        ({"requestBodySendMode": "FullDuplexStreamed"}, "must contain at least both"),
    ],
)
def test_the_api_server_refuses_what_gkes_definition_does(cluster, fields, message):
    with pytest.raises(KubeError, match=message):
        cluster.apply(extension("refused", **fields))
