"""`gke-inference plan --stack`: quotas, budgets, rungs and files that bind a plan."""

from collections.abc import Callable
from typing import Any

import pytest

from gke_inference.catalogue.accelerators import accelerator_names, zones_of
from infra.estimate.quota_needs import needs
from infra.plan import resolve
from infra.reading.load import platform_of, read
from scripts.terminal.console import CheckFailedError, CommandError
from tests.unit.scripts.stack_plans import Plans, amounts

MODEL, REGION = "llama-3.1-8b", "us-central1"
ONE_TPU = {"rungs": [{"accelerator": "tpu-v6e", "topology": "1x1", "provisioning": "on-demand"}]}
RESERVED = {
    "rungs": [
        {"accelerator": "tpu-v6e", "topology": "1x1", "provisioning": "on-demand"},
        *(
            {
                "accelerator": "tpu-v6e",
                "topology": "1x1",
                "provisioning": "reservation",
                "reservation": name,
                "reservation_zones": ["us-central1-b"],
            }
            for name in ("first", "second")
        ),
    ]
}


def single(**settings: Any) -> dict[str, Any]:
    return {
        "weights": MODEL,
        "capacity": "interactive",
        "size": {"parameters_billion": 8.03},
        "context": 8192,
        "replicas": {"min": 1, "max": 4},
        **settings,
    }


def without(found: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key not in keys}


@pytest.fixture
def plans(tmp_path, monkeypatch) -> Plans:
    return Plans(tmp_path, monkeypatch)


@pytest.fixture
def one_model(plans) -> Callable[..., Plans]:
    """A stack with one model on TPUs."""

    def made(capacity: Any = ONE_TPU, **settings: Any) -> Plans:
        models = {MODEL: single(**settings)}
        plans.stack("one", "local", ("capacity/interactive", capacity), ("models", models))
        return plans

    return made


ONE = ("--stack", "one", "--load", f"{MODEL}=10")
PROD = (
    "--stack", "prod", "--load", "llama-3.1-8b=40", "--load", "gemma-3-27b=20", "--load",
    "qwen3-32b=10",
)  # fmt: skip
PATIENT = ("models/qwen3-32b/slo", {"tpot_p95_ms": 90})
"""No GPUs of its regions that a standby can use generate its tokens in the usual 50 ms."""


def assert_counts(plans: Plans, options: tuple[str, ...]) -> None:
    """Compare the quotas of a plan with those of the stack that it writes."""
    expected = {
        key: amount
        for key, amount in amounts(plans.proposed(*options)).items()
        if amount and not key[1].startswith("auto_provisioning_limits")
    }
    stack = options[1]
    answer = plans.run(*options, "--write", stack)
    assert answer.exit_code == 0, answer.exception
    found = {
        (need.region, need.metric.label): need.amount
        for need in needs(resolve(read(stack, plans.folder)))
    }
    assert {key: found.get(key) for key in expected} == expected


def test_what_the_plan_counts_is_what_quota_counts_once_it_is_written(plans):
    plans.stack("prod", "prod", PATIENT)
    assert_counts(plans, PROD)


def test_buffers_and_reservations_of_other_projects_are_counted_as_quota_does(plans):
    elsewhere = RESERVED["rungs"][1] | {"reservation_project": "acme-reserved"}
    rungs = [elsewhere, {"accelerator": "nvidia-l4", "count": 1, "provisioning": "on-demand"}]
    replicas = {"min": 1, "max": 4, "buffer": 2}
    plans.stack(
        "one", "local", ("capacity/interactive", {"rungs": rungs}),
        ("models", {MODEL: single(replicas=replicas)}),
    )  # fmt: skip
    assert plans.proposed(*ONE)["models"][MODEL]["rungs"][0] == "reservation"
    assert_counts(plans, ONE)


def test_a_quota_that_binds_moves_the_plan_to_other_hardware(one_model):
    plans = one_model()
    free = plans.proposed(*ONE)
    assert free["models"][MODEL]["hardware"] == "tpu-v6e 1x1"
    used = amounts(free)[REGION, "TPUS_PER_TPU_FAMILY CT6E"]
    plans.limit({"region": REGION, "accelerator": "tpu-v6e", "chips": used})
    assert plans.proposed(*ONE)["models"][MODEL]["hardware"] == "tpu-v6e 1x1"
    plans.limit({"region": REGION, "accelerator": "tpu-v6e", "chips": used - 1})
    bound = plans.proposed(*ONE)
    assert bound["models"][MODEL] != free["models"][MODEL]
    assert amounts(bound).get((REGION, "TPUS_PER_TPU_FAMILY CT6E"), 0) < used


def test_without_preemptible_quota_rungs_that_need_it_are_left_out(one_model):
    plans = one_model()
    assert plans.proposed(*ONE)["models"][MODEL]["rungs"] == ["on-demand", "spot"]
    plans.limit({"region": REGION, "accelerator": "tpu-v6e", "kind": "preemptible", "chips": 0})
    made = plans.proposed(*ONE)["models"][MODEL]
    assert (made["hardware"], made["rungs"]) == ("tpu-v6e 1x1", ["on-demand"])


def test_machines_and_disks_have_quotas_as_well(one_model):
    plans = one_model()
    free = amounts(plans.proposed(*ONE))
    plans.limit({"metric": "INSTANCES", "region": REGION, "limit": free[REGION, "INSTANCES"] - 1})
    bound = amounts(plans.proposed(*ONE))
    assert bound[REGION, "INSTANCES"] < free[REGION, "INSTANCES"]


def test_hardware_that_no_zone_of_the_cluster_has_is_not_proposed(one_model):
    plans = one_model()
    zones = {"zones": ["us-central1-a"], "cluster": "zonal"}
    region = platform_of(plans.folder / "Pulumi.one.yaml")["regions"][REGION] | zones
    models = {MODEL: single(capacity="gpus")}
    gpus = {"rungs": [{"accelerator": "nvidia-l4", "count": 1, "provisioning": "on-demand"}]}
    plans.stack(
        "one", "local", ("capacity", {"gpus": gpus}), ("models", models),
        (f"regions/{REGION}", region),
    )  # fmt: skip
    assert zones_of("tpu-v6e", REGION, "on-demand") == ("us-central1-b",)
    assert not plans.proposed(*ONE)["models"][MODEL]["hardware"].startswith("tpu-v6e")


def test_limits_of_auto_provisioning_bind_as_quotas_do(one_model):
    plans = one_model()
    limits = {"cpu": 256, "memory": 1024, "tpu-v6e-slice": 2}
    models = {MODEL: single()}
    plans.stack(
        "one", "local", ("capacity/interactive", ONE_TPU), ("models", models),
        (f"regions/{REGION}/auto_provisioning_limits", limits),
    )  # fmt: skip
    assert not plans.proposed(*ONE)["models"][MODEL]["hardware"].startswith("tpu-v6e")


def test_models_that_stay_use_quota_and_budget(plans):
    other = single(task="embed", weights="qwen3-embedding-0.6b", capacity="small")
    other |= {"size": {"parameters_billion": 0.6}, "replicas": {"min": 1, "max": 3}}
    small = {"rungs": [{"accelerator": "nvidia-l4", "count": 1, "provisioning": "on-demand"}]}
    models = {MODEL: single(), "qwen3-embedding-0.6b": other}
    plans.stack(
        "two", "local", ("capacity/interactive", ONE_TPU), ("capacity/small", small),
        ("models", models),
    )  # fmt: skip
    two = ("--stack", "two", "--load", f"{MODEL}=10")
    found = plans.found(*two)
    assert found["kept"] == {"qwen3-embedding-0.6b": "its task is embed"}
    best = found["frontier"][0]
    kept = found["kept_usd_per_hour"]["qwen3-embedding-0.6b"]
    own = best["models"][MODEL]["usd_per_hour"]["value"]
    assert best["usd_per_hour"]["value"] == pytest.approx(own + kept)
    assert kept > 0
    # three replicas, one that an update adds, and the node of an upgrade
    assert amounts(best)[REGION, "NVIDIA_L4_GPUS"] == 5
    plans.limit({"region": REGION, "accelerator": "nvidia-l4", "chips": 4})
    answer = plans.run(*two)
    assert isinstance(answer.exception, CheckFailedError)
    assert str(answer.exception) == (
        "--stack: must fit the quotas, got no hardware for all models of two; what stays as it is"
        " exceeds NVIDIA_L4_GPUS in us-central1: 5 of 4"
    )


def test_a_reservation_is_used_before_what_costs_more(one_model):
    made = one_model(RESERVED).found(*ONE)
    rungs = [one["models"][MODEL]["rungs"] for one in made["frontier"]]
    assert all(one[0] == "reservation" for one in rungs if "reservation" in one)
    assert rungs[0][0] == "reservation"


def test_every_reservation_of_the_hardware_is_kept(one_model):
    plans = one_model(RESERVED)
    answer = plans.run(*ONE, "--write", "one")
    assert answer.exit_code == 0, answer.exception
    rungs = read("one", plans.folder).capacity["llama-3-1-8b-plan"].rungs
    assert [(rung.provisioning.value, rung.reservation) for rung in rungs[:3]] == [
        ("reservation", "first"),
        ("reservation", "second"),
        ("on-demand", None),
    ]


def test_a_reservation_that_the_proposal_does_not_use_is_named(plans):
    plans.stack("local", "local")
    plans.limit({"region": REGION, "metric": "INSTANCES", "limit": 64})
    found = plans.found("--stack", "local", "--load", f"{MODEL}=40")
    assert found["frontier"][0]["models"][MODEL]["hardware"] == "tpu-v6e 1x1"
    assert found["notes"] == [
        f"{MODEL} no longer uses reservation v6e-local, which is paid all the same"
    ]


def test_flex_start_is_not_always_on(plans):
    plans.stack("prod", "prod", PATIENT)
    found = plans.found(*PROD)
    for one in found["frontier"]:
        standby = [made for made in one["models"].values() if made["is_standby"]]
        assert len(standby) == 3
        assert all(made["rungs"][0] in ("on-demand", "reservation") for made in standby)
        temporary = [
            made["rungs"][0] in ("spot", "flex-start")
            for made in one["models"].values()
            if not made["is_standby"]
        ]
        assert one["temporary_share"] == 0 if not any(temporary) else one["temporary_share"] > 0


def test_warm_replicas_stay_as_many_as_the_stack_has(plans):
    plans.stack("local", "local", (f"models/{MODEL}/replicas", {"min": 1, "max": 4, "standby": 0}))
    standby = plans.proposed("--stack", "local", "--load", f"{MODEL}=10")["models"][
        f"{MODEL} standby"
    ]
    assert (standby["replicas"], standby["usd_per_hour"]["value"]) == (0, 0)


def test_minimum_replicas_never_fall(one_model):
    plans = one_model(replicas={"min": 7, "max": 9})
    made = plans.proposed("--stack", "one", "--load", f"{MODEL}=0.1")["models"][MODEL]
    assert (made["min_replicas"], made["replicas"], made["most_replicas"]) == (7, 7, 7)


def test_a_plan_changes_only_the_hardware_of_a_model(plans):
    model = platform_models(plans)[MODEL] | single(
        regions=["us-central1", "europe-west4"],
        slo={"tpot_p95_ms": 40},
        size={"parameters_billion": 8.5},
        settings={"max_batch": 64},
    )
    models = {**platform_models(plans), MODEL: model}
    plans.stack("prod", "prod", ("models", models))
    before = platform_of(plans.folder / "Pulumi.prod.yaml")
    answer = plans.run(*PROD, "--write", "prod")
    assert answer.exit_code == 0, answer.exception
    after = platform_of(plans.folder / "Pulumi.prod.yaml")
    old, new = before["models"][MODEL], after["models"][MODEL]
    of_hardware = ("capacity", "replicas")
    assert without(new, *of_hardware) == without(old, *of_hardware)
    assert without(after, "models", "capacity") == without(before, "models", "capacity")


def platform_models(plans: Plans) -> dict[str, Any]:
    return platform_of(plans.stack("prod", "prod", PATIENT))["models"]


@pytest.mark.parametrize(
    ("settings", "capacity", "reason"),
    [
        ({"size": {"parameters_billion": 8.03, "bits": 6}}, ONE_TPU, "bits: must be one of 4, 8, "),
        ({}, ONE_TPU | {"node_pools": {"max_nodes": 4}}, "its capacity has node_pools, which"),
    ],
)
def test_a_model_that_cannot_be_planned_is_kept_with_the_reason(
    one_model, settings, capacity, reason
):
    answer = one_model(capacity, **settings).run("--stack", "one")
    assert f"{MODEL}: {reason}" in str(answer.exception)


def test_a_model_with_a_canary_stays_and_so_does_the_canary(plans):
    models = platform_models(plans)
    models["qwen3-32b"] |= {"canary": {"version": "next", "weights": "qwen3-32b-next"}}
    plans.stack("prod", "prod", ("models", models))
    kept = plans.found("--stack", "prod")["kept"]
    assert kept["qwen3-32b"] == "it has canary"
    assert kept["qwen3-32b-next"] == "it is the canary of qwen3-32b"


def test_json_stays_json_when_a_stack_is_written(one_model):
    plans = one_model()
    found = plans.found(*ONE, "--write", "one")
    assert MODEL in found["loads"]
    assert read("one", plans.folder).models[MODEL].capacity == "llama-3-1-8b-plan"


def test_a_model_with_many_adapters_is_planned_for_those_of_a_batch(one_model):
    few = one_model(adapters=[f"a{at}" for at in range(8)]).proposed(*ONE)
    many = one_model(adapters=[f"a{at}" for at in range(100)]).proposed(*ONE)
    assert many["models"] == few["models"]
    none = one_model().proposed(*ONE)
    assert none["models"] != few["models"]


LARGE = "llama-3.3-70b"
H200 = {
    "accelerator": "nvidia-h200-141gb",
    "count": 8,
    "provisioning": "reservation",
    "reservation": "h200",
    "reservation_zones": ["us-central1-b"],
}


def large(plans: Plans, **settings: Any) -> tuple[str, ...]:
    """A stack with a large model; returns the options that plan it."""
    model = {
        "weights": "llama-3.3-70b-instruct",
        "capacity": "interactive",
        "size": {"parameters_billion": 70.6},
        "context": 16384,
        "replicas": {"min": 1, "max": 4},
        "slo": {"ttft_p95_ms": 3000, "tpot_p95_ms": 25},
        **settings,
    }
    edits = (("capacity/interactive", {"rungs": [H200]}), ("models", {LARGE: model}))
    plans.stack("large", "local", *edits)
    return ("--stack", "large", "--load", f"{LARGE}=20,8000,300")


def test_what_the_settings_of_a_model_exclude_is_not_proposed(plans):
    def written(**settings: Any) -> str:
        options = large(plans, **settings)
        hardware = plans.proposed(*options)["models"][LARGE]["hardware"]
        answer = plans.run(*options, "--write", "large")
        assert answer.exit_code == 0, answer.exception
        return hardware

    tight = {"ttft_p95_ms": 2000, "tpot_p95_ms": 20}
    assert written(slo=tight) == "tpu-v6e 4x4"  # several hosts
    assert written(slo=tight, live_adapters={"slots": 4}) == "tpu7x 2x2x1"


def test_roles_are_written_as_they_are_proposed(plans):
    options = large(plans, replicas={"min": 2, "max": 4})
    others = set(accelerator_names()) - {"nvidia-h200-141gb"}
    plans.limit(*({"region": REGION, "accelerator": name, "chips": 0} for name in sorted(others)))
    made = plans.proposed(*options)["models"][LARGE]
    assert made["prefill_replicas"] > made["replicas"]
    assert made["rungs"] == ["reservation", "flex-start", "spot"]
    assert_counts(plans, options)
    platform = read("large", plans.folder)
    model = platform.models[LARGE]
    assert model.disaggregated is not None
    prefill = model.disaggregated.prefill.replicas
    assert (model.replicas.min, model.replicas.max) == (2, made["most_replicas"])
    assert (prefill.min, prefill.max) == (2, made["most_prefill_replicas"])
    rungs = platform.capacity[model.capacity].rungs
    assert [rung.provisioning.value for rung in rungs] == made["rungs"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--adapters", "8"), "--adapters: must be omitted with --stack, got 8"),
        (("--batch",), "--batch: must be omitted with --stack"),
        (("--kv-bits", "16"), "--kv-bits: must be omitted with --stack, got 16"),
        (("--region", REGION), f"--region: must be omitted with --stack, got '{REGION}'"),
        (("--utilization", "2"), "--utilization: must be above 0 and at most 1, got 2"),
        (("--input", "0"), "--input: must be a number above 0, got 0"),
    ],
)
def test_an_option_without_effect_on_a_stack_is_refused(plans, options, message):
    plans.stack("local", "local")
    assert str(plans.run("--stack", "local", *options).exception) == message


def test_a_stack_without_its_capacity_is_refused(plans):
    plans.stack("platform", "teams/shared")
    answer = plans.run("--stack", "platform")
    assert isinstance(answer.exception, CommandError)
    assert str(answer.exception).startswith("--stack: must have layer all: ")


def test_a_file_with_anchors_is_refused_before_it_changes(plans):
    file = plans.stack("local", "local")
    text = file.read_text().replace("standby: 0", "standby: &warm 0")
    file.write_text(text)
    answer = plans.run("--stack", "local", "--load", f"{MODEL}=10", "--write", "local")
    assert str(answer.exception).startswith(
        "--write: local is unchanged: Pulumi.local.yaml must be without YAML anchors"
    )
    assert file.read_text() == text
