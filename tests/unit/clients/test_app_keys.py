"""Keys of apps in Apigee, with which commands ask the models of a stack on the twin."""

import json

import pytest

from infra.plan import Plan, resolve
from infra.reading.load import parse, platform_of
from scripts.client_keys.apps import app_keys, check_apps
from scripts.shared.model_client import headers_with, refusal
from scripts.terminal.console import CommandError
from tests.shipped_stacks import EXAMPLES
from twin.host.paths import TwinPaths
from twin.providers.gcp.apigee.organization import APP
from twin.world.store import Store, new_record

MODELS = ("qwen3-0.6b", "bge-base")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return resolve(parse(json.dumps(platform_of(EXAMPLES / "apigee" / "Pulumi.apigee.yaml"))))


def with_apps(paths: TwinPaths, *names: str) -> None:
    store = Store(paths.cloud_db)
    for name in names:
        outputs = {
            "orgId": "organizations/acme-inference-local",
            "apiProducts": [],
            "credentials": [{"consumerKey": f"key-of-{name}"}],
            "status": "approved",
        }
        store.add(new_record(APP, name, name, "acme-inference-local", "urn", outputs, outputs), [])
        store.set(APP, name, status="ready")


def test_each_model_is_asked_with_the_first_app_that_has_a_product_for_its_task(plan, tmp_path):
    paths = TwinPaths(tmp_path)
    with_apps(paths, "acme-dev-indexer", "acme-dev-site")
    found = app_keys(plan, MODELS, paths)
    expected = {"qwen3-0.6b": "key-of-acme-dev-site", "bge-base": "key-of-acme-dev-indexer"}
    assert found == expected


def test_a_stack_with_a_model_that_no_app_may_ask_is_refused(plan):
    check_apps(plan, MODELS)
    found = platform_of(EXAMPLES / "apigee" / "Pulumi.apigee.yaml")
    del found["clients"]["apigee"]["apps"]["site"]
    with pytest.raises(CommandError, match=r"clients\.apigee\.apps: .* covers qwen3-0\.6b$"):
        check_apps(resolve(parse(json.dumps(found))), MODELS)


def test_a_key_is_sent_in_the_header_of_openai_and_in_that_of_apigee():
    assert headers_with("k") == {"authorization": "Bearer k", "x-api-key": "k"}
    assert headers_with(None) == {}


def test_the_text_of_a_fault_is_the_reason_of_a_refusal():
    assert refusal(b'{"fault":{"faultstring":"Invalid ApiKey","detail":{}}}') == "Invalid ApiKey"
