"""A model that sees images: from where its engine may fetch them, and whether it can."""

import json
import re
from typing import Any

import pytest

from gke_inference.sizing.image_prompts import tokens_of_image
from gke_inference.sizing.shapes import shape_of
from infra.reading.load import parse, platform_of
from tests.contract.infra.cloud import Deployed
from tests.contract.recorder import Records
from tests.shipped_stacks import EXAMPLES

FOLDER = EXAMPLES / "vision-language"
MODEL = "qwen2.5-vl-7b"
_HOSTS = re.compile(r'"media_domains": (\[[^\]]*\])')


@pytest.fixture
def made(deployed: Deployed) -> Records:
    return deployed(parse(json.dumps(platform_of(FOLDER / "Pulumi.vision-language.yaml"))))


def of_kind(made: Records, kind: str) -> list[dict[str, Any]]:
    return [each.inputs for each in made.registrations if each.inputs.get("kind", "") == kind]


def test_the_engine_fetches_from_the_listed_host_alone(made: Records):
    texts = [text for each in of_kind(made, "ConfigMap") for text in each["data"].values()]
    hosts = [json.loads(found) for text in texts for found in _HOSTS.findall(text)]
    assert hosts == [["images.example.com"]]


def test_no_policy_keeps_the_engine_from_the_host(made: Records):
    policies = of_kind(made, "NetworkPolicy")
    assert policies
    assert {tuple(each["spec"]["policyTypes"]) for each in policies} == {("Ingress",)}


def test_nodes_without_external_addresses_have_a_way_out(made: Records):
    assert len(made.all("gcp:compute/routerNat:RouterNat")) == 1


def test_the_page_has_the_tokens_of_an_image():
    text = (FOLDER / "README.md").read_text()
    assert f"{tokens_of_image(shape_of(MODEL), 1024, 1024):,} tokens" in text
    assert f"takes {tokens_of_image(shape_of('gemma-3-4b'), 1024, 1024)} for any image" in text
