"""The stand-in for Apigee behind the twin's gateway: objects of a cluster, apps of the cloud."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from twin.cluster.gateway.translation.apigee import proxies_of
from twin.host import processes
from twin.host.paths import TwinPaths
from twin.providers.gcp.apigee import server
from twin.providers.gcp.apigee.organization import APP, write_proxies
from twin.tests.running.gateway.house import House, ask, called, chain, traffic
from twin.tests.unit.gateway.apigee_objects import GATE, backend, operations, product
from twin.tests.unit.gateway.builders import snapshot
from twin.world.store import Store, new_record

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(120)]
_PARTS = ("Headers", "Body", "Trailers")
EVENTS = [f"{side}{part}" for side in ("Request", "Response") for part in _PARTS]


class Apigee:
    """The stand-in, with apps in the twin's cloud."""

    def __init__(self, folder: Path) -> None:
        self.paths = TwinPaths(folder / "twin")
        self.paths.create()
        self.cluster = self.paths.root / "clusters" / "acme"
        self.cluster.mkdir(parents=True)
        self._store = Store(self.paths.cloud_db)
        for name, products in (("search", ["search"]), ("vectors", ["vectors"])):
            outputs: dict[str, Any] = {
                "orgId": "organizations/acme",
                "apiProducts": products,
                "credentials": [{"consumerKey": f"key-of-{name}"}],
                "status": "approved",
            }
            record = new_record(APP, name, name, "acme", "urn", outputs, outputs)
            self._store.add(record, [])
            self._store.set(APP, name, status="ready")

    def stop(self) -> None:
        """End everything."""
        processes.stop(self.paths, *processes.running(self.paths))


@pytest.fixture(name="apigee")
def an_apigee(house: House, tmp_path: Path) -> Iterator[Apigee]:
    found = Apigee(tmp_path)
    house.engines.text = ""
    house.apigee = lambda: server.endpoint(found.paths)
    yield found
    found.stop()


def gated(house: House, apigee: Apigee, proxy: str = GATE, limit: int = 3) -> None:
    """Put Apigee in front of the models, with a product for text and one for embeddings."""
    item = called(
        "apigee",
        backendRef={"group": "apim.googleapis.com", "kind": "ApigeeBackendService", "name": GATE},
        metadata={"apigee-extension-processor": proxy},
        supportedEvents=EVENTS,
        requestBodySendMode="FullDuplexStreamed",
        responseBodySendMode="FullDuplexStreamed",
        timeout="1s",
    )
    del item["authority"]
    extension = traffic(chain("all", item))
    objects = [
        backend(),
        product("search"),
        product("vectors"),
        operations("search", ["/v1/chat/completions", "/v1/completions"], limit=limit),
        operations("vectors", ["/v1/embeddings"], limit=limit),
    ]
    write_proxies(apigee.cluster, proxies_of(snapshot(extension, *objects), "acme"))
    house.program(extension, *objects)


def key(text: str) -> dict[str, str]:
    return {"x-api-key": text}


def fault_of(found: Any) -> tuple[int, str]:
    return found.status, json.loads(found.text)["fault"]["detail"]["errorcode"]


def test_a_key_of_a_product_that_covers_the_path_is_answered_until_its_quota_is_used_up(
    house, apigee
):
    gated(house, apigee)
    assert fault_of(ask(prompt="hi")) == (401, "steps.raisefault.RaiseFault")
    assert fault_of(ask(headers=key("stolen"), prompt="hi")) == (401, "oauth.v2.InvalidApiKey")
    missing = (401, "oauth.v2.InvalidApiKeyForGivenResource")
    assert fault_of(ask(headers=key("key-of-vectors"), prompt="hi")) == missing
    assert house.engines.seen == []
    found = ask(headers=key("key-of-search"), prompt="x" * 300_000)
    assert (found.status, len(house.engines.seen)) == (200, 1)
    assert ask(headers=key("key-of-search"), prompt="hi", stream=True).status == 200
    assert ask("n", headers=key("key-of-search"), prompt="hi").status == 200
    over = fault_of(ask(headers=key("key-of-search"), prompt="hi"))
    assert over == (429, "policies.ratelimit.QuotaViolation")


def test_a_proxy_of_your_own_counts_the_tokens_of_answers(house, apigee):
    gated(house, apigee, proxy="token-quotas", limit=10)
    house.engines.text = "8 tokens"
    code = "steps.oauth.v2.FailedToResolveAPIKey"
    assert fault_of(ask(prompt="hi")) == (401, code)
    asked = {"headers": key("key-of-search"), "prompt": "hi"}
    assert [ask(**asked).status for _ in range(3)] == [200, 200, 429]
    assert "policies.ratelimit.QuotaViolation" in ask(**asked).text


def test_a_proxy_that_apigee_does_not_have_closes_the_gateway(house, apigee):
    gated(house, apigee)
    (apigee.cluster / "apigee.json").unlink()
    assert ask(headers=key("key-of-search"), prompt="hi").status == 500
