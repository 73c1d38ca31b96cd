"""Apigee on the twin: which extensions call it, and what it answers to which requests."""

import pytest

from twin.cluster.gateway.translation.apigee import proxies_of
from twin.cluster.gateway.translation.model import Endpoint
from twin.cluster.gateway.translation.translate import translate
from twin.providers.gcp.apigee import decision
from twin.providers.gcp.apigee.decision import Counters, Grant, decide
from twin.providers.gcp.apigee.organization import App
from twin.tests.unit.gateway.apigee_objects import GATE, GROUP, backend, operations, product
from twin.tests.unit.gateway.builders import conditions, gateway, snapshot, traffic_extension

GW = ("ns", "gw")
CHAT, EMBED = "/v1/chat/completions", "/v1/embeddings"
KEY = "a-key"


def extension(proxy: str = GATE):
    ref = {"group": GROUP, "kind": "ApigeeBackendService", "name": GATE}
    return traffic_extension(backendRef=ref, metadata={"apigee-extension-processor": proxy})[0]


def translated(*objects, **lookups):
    lookups = {"apigee": lambda: ("127.0.0.1", 7), **lookups}
    return translate(snapshot(gateway(), *objects, **lookups))


def test_an_extension_that_names_an_apigee_backend_calls_apigee():
    found = translated(extension(), backend())
    (chain,) = found.gateways[GW].traffic_chains
    (processor,) = chain.processors
    assert (processor.endpoints, processor.tls) == ((Endpoint("127.0.0.1", 7),), False)
    assert processor.metadata == (("apigee-extension-processor", GATE),)
    assert conditions(found, "GCPTrafficExtension", "guard") == {"Accepted": "Accepted"}


def test_without_its_backend_an_extension_is_called_in_vain():
    found = translated(extension())
    (chain,) = found.gateways[GW].traffic_chains
    assert chain.processors[0].endpoints == ()
    reasons = conditions(found, "GCPTrafficExtension", "guard")
    assert reasons == {"Accepted": "!BackendNotFound"}


@pytest.mark.parametrize(
    ("changed", "lookups"), [(extension(""), {}), (extension(), {"apigee": lambda: None})]
)
def test_an_extension_without_a_proxy_or_an_apigee_closes_its_gateway(changed, lookups):
    found = translated(changed, backend(), **lookups)
    reasons = conditions(found, "GCPTrafficExtension", "guard")
    assert reasons == {"Accepted": "!UnsupportedValue"}


def proxy(*objects, name: str = GATE):
    found = {each.name: each for each in proxies_of(snapshot(backend(), *objects), "acme")}
    return found[name]


def test_a_proxy_has_the_products_that_name_its_backend():
    mine = [product("search"), operations("search", [CHAT], limit=5, interval=2, unit="hour")]
    (found,) = proxy(*mine, product("other", gate="elsewhere")).products
    assert (found.name, found.is_automatic) == ("search", True)
    (each,) = found.operations
    assert (each.limit, each.seconds) == (5, 7200)
    assert proxy(*mine, extension("tokens"), name="tokens").counts == "tokens"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def asked(found, counters, path=CHAT, key: str | None = KEY, method="POST", products=("search",)):
    app = App("app", KEY, tuple(products))
    known = {KEY: app}
    answer = decide(found, known.get, counters, method, path, key)
    return "passed" if isinstance(answer, Grant) else (answer.status, answer.code)


def test_a_key_passes_on_the_paths_and_methods_of_its_products():
    found = proxy(
        product("search"),
        operations("search", [CHAT, "/v1/files/*"]),
        product("trial", "manual"),
        operations("trial", [EMBED]),
    )
    counters = Counters()
    uncovered = (401, decision.NOT_COVERED.code)
    assert asked(found, counters) == "passed"
    assert asked(found, counters, "/v1/files/a") == "passed"
    assert asked(found, counters, "/v1/files/a/b") == uncovered
    assert asked(found, counters, method="GET") == uncovered
    assert asked(found, counters, EMBED, products=["search", "trial"]) == uncovered, "pending"
    assert asked(found, counters, products=["gone"]) == uncovered
    assert asked(found, counters, key="other") == (401, "oauth.v2.InvalidApiKey")
    assert asked(found, counters, key=None) == (401, "steps.raisefault.RaiseFault")


def test_a_quota_begins_again_when_its_interval_ends():
    found = proxy(product("search"), operations("search", [CHAT], limit=2, interval=3))
    clock = Clock()
    counters = Counters(clock)
    over = (429, "policies.ratelimit.QuotaViolation")
    assert [asked(found, counters) for _ in range(3)] == ["passed", "passed", over]
    clock.now = 179.0
    assert asked(found, counters) == over
    clock.now = 180.0
    assert asked(found, counters) == "passed"


def test_the_body_of_a_fault_has_its_text_and_its_code():
    body = decision.UNKNOWN_KEY.body.decode()
    detail = '"detail":{"errorcode":"oauth.v2.InvalidApiKey"}'
    assert body == '{"fault":{"faultstring":"Invalid ApiKey",' + detail + "}}"
