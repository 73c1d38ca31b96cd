"""Secrets of Secret Manager reach engines by reference; only the identity of a model reads them."""

import json

from gke_inference.catalogue.rungs import check_rung
from gke_inference.serving.model_plan import model_plan
from infra.deploy import batch_engines
from infra.deploy.serving_arguments import identity_args, server_args
from infra.plan import resolve
from infra.plan.capacity import rungs
from infra.reading.load import parse
from infra.stack import Platform
from scripts.prerequisites.wanted import engine_secrets
from tests.contract.infra.broken_stacks import edited
from tests.contract.infra.resolved import served_in

MODEL = "llama-3.1-8b"
BUCKETS = {"models": "m", "caches": "c"}
SETTINGS = {"engine_secrets": {"HF_TOKEN": "hf-token", "OTHER": "hf-token"}}


def platform(base: str) -> Platform:
    edit = {"at": ["models", MODEL, "settings"], "value": SETTINGS}
    return parse(json.dumps(edited(base, [edit])))


def test_engines_get_the_names_of_secrets_and_their_objects_no_value() -> None:
    local = platform("local")
    served = served_in(local, MODEL, "us-central1")
    args = server_args(served)
    at = f"projects/{local.project}/secrets/hf-token"
    settings = args.get("settings")
    assert settings is not None
    assert settings.engine_secrets == {"HF_TOKEN": at, "OTHER": at}
    made = model_plan(
        {**args, "rungs": rungs(served.capacity)},
        [check_rung(rung) for rung in rungs(served.capacity)],
    )
    assert {tuple(each.secrets.items()) for each in made.spec.serving.values()} == {
        (("HF_TOKEN", at), ("OTHER", at))
    }


def test_an_identity_is_granted_each_secret_once_in_the_first_region() -> None:
    prod = platform("prod")
    granted = {
        region: identity_args(served_in(prod, MODEL, region), BUCKETS).get("secrets")
        for region in prod.regions_of(prod.models[MODEL])
    }
    first = min(granted)
    assert granted == {region: ["hf-token"] if region == first else None for region in granted}


def test_jobs_of_a_model_may_read_its_secrets_too() -> None:
    local = platform("local")
    served = served_in(local, MODEL, "us-central1")
    args = batch_engines.identity_args(served, BUCKETS, "b")
    assert args.get("secrets") == ["hf-token"]


def test_preflight_looks_for_the_latest_version_of_each_secret() -> None:
    plan = resolve(platform("local"))
    version = f"projects/{plan.platform.project}/secrets/hf-token/versions/latest"
    field = f"models.{MODEL}.settings.engine_secrets.HF_TOKEN"
    assert engine_secrets(plan) == {version: field}
