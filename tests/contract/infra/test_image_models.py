"""A model that draws: the example stack, its pods, its autoscaler, and what is refused."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from gke_inference.base.inputs import rung_of
from gke_inference.catalogue.load_balancing import MAX_BODY_BYTES
from gke_inference.observability.dashboard_source import dashboards
from gke_inference.observability.dashboards import scope_of
from gke_inference.observability.monitoring import pod_monitoring
from gke_inference.serving.autoscaling import autoscaler
from gke_inference.serving.launcher.spec import NEEDS
from gke_inference.serving.model_objects import deployments
from gke_inference.serving.model_plan import model_plan
from infra.deploy.described import described
from infra.deploy.gateway import routed_models
from infra.deploy.observability import dashboards_args
from infra.deploy.serving_arguments import monitoring_args, scaling_args, server_args
from infra.plan import resolve
from infra.reading.load import parse
from infra.stack.problems import StackError
from tests.contract.infra.resolved import region_of, served_in
from tests.shipped_stacks import EXAMPLES
from workloads.diffusion.__main__ import parser, settings_of
from workloads.diffusion.config import from_dict

EXAMPLE = EXAMPLES / "images" / "Pulumi.images.yaml"
ENVIRONMENT = "images"
MODEL, REGION = "flux-schnell", "us-central1"


MINI = {
    "weights": "flux-mini",
    "size": {"parameters_billion": 5.6, "bits": 16},
    "steps": 20,
    "context": 128,
}
"""A model of 3.2 billion parameters with FLUX.1's encoders, T5 at half the bits."""


def two(**changed):
    """Return changes of the example to two small models on every chip."""
    mini = {name: value for name, value in {**MINI, **changed}.items() if value is not None}
    return {"size": MINI["size"], "images": {"models": {"flux-mini": mini}}}


def server_of(given):
    """Return the container of the model's server."""
    args = server_args(served_in(given, MODEL, REGION))
    rungs = [rung_of(rung, "rung") for rung in args["rungs"]]
    return pod_of(args, rungs)["containers"][0]


def stack(**changed):
    whole = yaml.load(EXAMPLE.read_text(), yaml.CSafeLoader)["config"]["gke-inference:platform"]
    model = {**whole["models"][MODEL], **changed}
    whole["models"][MODEL] = {name: value for name, value in model.items() if value is not None}
    return parse(json.dumps(whole))


def pod_of(args, rungs):
    return deployments(model_plan(args, rungs))["tpu"]["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def container():
    args = server_args(served_in(stack(), MODEL, REGION))
    rungs = [rung_of(rung, "rung") for rung in args["rungs"]]
    return pod_of(args, rungs)["containers"][0]


def test_each_chip_of_a_replica_has_a_process_of_its_own(container):
    assert container["resources"]["limits"] == {"google.com/tpu": "4"}
    assert "--workers=4" in [*container["command"], *container.get("args", [])]


def test_the_server_takes_every_argument_that_its_pod_has(container):
    words = [*container["command"], *container.get("args", [])]
    at = words.index("diffusion")
    given = parser().parse_args(words[at + 1 :])
    assert (given.model, given.steps, given.queue_limit) == (MODEL, 4, 64)
    assert given.max_edit_bytes == MAX_BODY_BYTES
    assert given.size == ["1024x1024", "768x1344"]
    assert given.adapter[0].endswith(f"/{MODEL}/adapters/comic")


def test_a_server_holds_further_models_beside_the_first():
    server = server_of(stack(**two()))
    words = [*server["command"], *server["args"]]
    found = parser().parse_args(words[words.index("diffusion") + 1 :])
    (base,) = from_dict(settings_of(found)).base_models
    assert (base.model, base.steps, base.text_tokens) == ("flux-mini", 20, 128)
    assert base.folder.endswith("/flux-mini")
    mounts = [mount["mountPath"] for mount in server["volumeMounts"]]
    assert any(base.folder.startswith(f"{mount}/") for mount in mounts)


DISK = {
    "size_gib": 40,
    "snapshot": "flux",
    "throughput_mib_per_second": 1200,
    "zones": ["us-central1-b"],
}


def test_a_first_model_on_a_disk_leaves_the_further_ones_in_the_bucket_with_their_own_cache():
    args = server_args(served_in(stack(**two(), disk=DISK), MODEL, REGION))
    pod = pod_of(args, [rung_of(rung, "rung") for rung in args["rungs"]])
    (server,) = pod["containers"]
    words = [*server["command"], *server["args"]]
    found = parser().parse_args(words[words.index("diffusion") + 1 :])
    (base,) = from_dict(settings_of(found)).base_models
    paths = {mount["name"]: mount["mountPath"] for mount in server["volumeMounts"]}
    assert paths["weights"] == "/mnt/weights"
    assert base.folder == f"/mnt/buckets/acme-{ENVIRONMENT}-models-{REGION}/flux-mini"
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["weights"]["persistentVolumeClaim"]["readOnly"] is True
    cache = volumes["gke-gcsfuse-cache"]["emptyDir"]["sizeLimit"]
    assert cache == "14Gi", "1.2 times 10.4 GiB of flux-mini, and a GiB: none for the first model"


OWN_CHIPS = EXAMPLES / "image-models" / "Pulumi.image-models.yaml"
FOUR = ("flux-dev", "flux-schnell", "flux-krea", "sdxl")


def on_own_chips(change=lambda images: None, **changed):
    """Return the example of four models with chips of their own, changed."""
    whole = yaml.load(OWN_CHIPS.read_text(), yaml.CSafeLoader)["config"]["gke-inference:platform"]
    model = {**whole["models"]["flux-dev"], **changed}
    whole["models"]["flux-dev"] = {name: value for name, value in model.items() if value}
    change(model["images"])
    return parse(json.dumps(whole))


def server_of_four():
    """Return the container of the example of four models, and the settings of its server."""
    args = server_args(served_in(on_own_chips(), "flux-dev", REGION))
    rungs = [rung_of(rung, "rung") for rung in args["rungs"]]
    (server,) = pod_of(args, rungs)["containers"]
    words = [*server["command"], *server["args"]]
    found = parser().parse_args(words[words.index("diffusion") + 1 :])
    return server, from_dict(settings_of(found))


def test_each_of_four_models_has_a_process_on_a_chip_of_its_own():
    server, settings = server_of_four()
    assert sorted(settings.held) == sorted((name,) for name in FOUR)
    assert server["resources"]["limits"] == {"google.com/tpu": "4"}
    paths = [settings.bases[name].folder.rpartition("/")[2] for name in FOUR]
    assert paths == ["flux-dev", "flux-schnell", "flux-krea", "sdxl-base-1.0"]


def test_the_autoscaler_follows_the_queue_of_each_model_by_its_share_of_the_chips():
    def more_of_schnell(images):
        del images["models"]["sdxl"]
        images["models"]["flux-schnell"]["chips"] = 2

    given = on_own_chips(more_of_schnell, autoscaling={"queue_depth": 5})
    region, served = region_of(given, REGION), served_in(given, "flux-dev", REGION)
    found = autoscaler(scaling_args(region, served)["flux-dev-tpu"])["spec"]["metrics"]
    name = "prometheus.googleapis.com|diffusion_model_images_waiting|gauge"
    assert [each["pods"]["metric"]["name"] for each in found] == [name] * 3
    targets = {
        each["pods"]["metric"]["selector"]["matchLabels"]["metric.labels.model_name"]: each["pods"][
            "target"
        ]["averageValue"]
        for each in found
    }
    assert targets == {"flux-dev": "1250m", "flux-schnell": "2500m", "flux-krea": "1250m"}


def test_metrics_by_model_are_stored_for_models_with_chips_of_their_own_only():
    server: Any = SimpleNamespace(
        deployments={"tpu": "d"}, labels={"a": "b"}, port=8000, target_kinds={"tpu": "Deployment"}
    )

    def stored(given, model):
        endpoint = pod_monitoring(monitoring_args(served_in(given, model, REGION), server))
        return endpoint["spec"]["endpoints"][0]["metricRelabeling"][0]["regex"].split("|")

    by_model = {"diffusion_model_images_waiting", "diffusion_model_workers"}
    assert by_model <= set(stored(on_own_chips(), "flux-dev"))
    assert not by_model & set(stored(stack(**two()), MODEL))


def test_the_dashboard_of_images_has_a_row_by_model_for_models_with_chips_of_their_own():
    def titles(given):
        args = dashboards_args(resolve(given))
        assert args is not None
        pages = dashboards(scope_of(args["models"], args["namespace"], args))
        (images,) = [page for page in pages if page.name == "images"]
        return [row.title for row in images.rows]

    assert titles(on_own_chips()) == ["Work", "Models with chips of their own", "Time"]
    assert titles(stack(**two())) == ["Work", "Time"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda images: images["models"]["sdxl"].pop("chips"),
            "models.flux-dev.images.models.sdxl.chips must be set, as for flux-dev: either every "
            "model has chips of its own or none",
        ),
        (
            lambda images: images.pop("chips"),
            "models.flux-dev.images.chips must be set, as for flux-schnell: either every model has "
            "chips of its own or none",
        ),
        (
            lambda images: images["models"].pop("sdxl"),
            "models.flux-dev.images.chips must add up to 4 over all models, the chips of "
            "capacity.pictures.rungs[0], got 1 + 1 + 1",
        ),
        (
            lambda images: images["models"].update({"flux-mini": {**MINI, "chips": 1}}),
            "models.flux-dev.images.chips must add up to 4 over all models, the chips of "
            "capacity.pictures.rungs[0], got 1 + 1 + 1 + 1 + 1",
        ),
        (
            lambda images: images["models"]["sdxl"].update(chips=0),
            "models.flux-dev.images.models.sdxl.chips must be 1 to 256, got 0",
        ),
        (
            lambda images: images.pop("models"),
            "models.flux-dev.images.chips must not be set without further models: every chip "
            "holds the only one, got 1",
        ),
        (
            lambda images: images["models"]["flux-krea"].update(weights="flux-dev"),
            "models.flux-dev.images.models.flux-krea.weights must not be those of flux-dev: give "
            "that model more chips, got 'flux-dev'",
        ),
        (
            lambda images: images["models"]["flux-krea"].update(adapters=["comic"]),
            "models.flux-dev.images.models.flux-krea.adapters",
        ),
        (
            lambda images: images["models"]["flux-krea"]["size"].update(parameters_billion=17),
            "needs 33.7 GiB on each chip of flux-krea (31.7 GiB of weights plus 2 GiB), "
            "one of tpu-v6e has 31.2 GiB",
        ),
        (
            lambda images: images["models"]["sdxl"]["size"].update(parameters_billion=15.5),
            "needs 31.9 GiB on each chip of sdxl (28.9 GiB of weights plus 3 GiB), "
            "one of tpu-v6e has 31.2 GiB",
        ),
    ],
)
def test_models_that_do_not_have_the_chips_of_every_rung_are_refused(change, words):
    with pytest.raises(StackError) as refused:
        on_own_chips(change)
    assert words in str(refused.value)


def test_only_the_chip_of_the_first_model_has_room_for_its_adapters():
    with pytest.raises(StackError) as refused:
        on_own_chips(live_adapters={"max_rank": 128, "slots": 8})
    assert "needs 39.3 GiB on each chip of flux-dev (27.0 GiB of weights, 10.3 of adapters" in str(
        refused.value
    )


def test_a_server_is_only_started_once_the_weights_of_every_model_are_there():
    given = stack(**two())
    args = server_args(served_in(given, MODEL, REGION))
    args["has_gate"] = True
    rungs = [rung_of(rung, "rung") for rung in args["rungs"]]
    notes = deployments(model_plan(args, rungs))["tpu"]["metadata"]["annotations"]
    needs = [need.rpartition("/")[2] for need in json.loads(notes[NEEDS])]
    assert needs == [MODEL, "flux-mini", "comic"]


def test_requests_reach_a_further_model_by_its_name():
    region = region_of(stack(**two()), REGION)
    server: Any = SimpleNamespace(labels={"a": "b"}, port=8000)
    (routed,) = routed_models(region, {MODEL: server})
    assert routed.get("further_models") == ["flux-mini"]
    assert routed.get("adapters") == ["comic"]


def test_the_outputs_of_a_stack_name_the_further_models_of_a_server():
    both, one = stack(**two()), stack()
    assert described(resolve(both), MODEL)["further_models"] == ["flux-mini"]
    assert "further_models" not in described(resolve(one), MODEL)


def test_live_adapters_of_a_model_that_draws_need_no_loader():
    given = stack(live_adapters={"max_rank": 32, "slots": 4})
    args = server_args(served_in(given, MODEL, REGION))
    rungs = [rung_of(rung, "rung") for rung in args["rungs"]]
    (server,) = pod_of(args, rungs)["containers"]
    words = [*server["command"], *server.get("args", [])]
    flags = parser().parse_args(words[words.index("diffusion") + 1 :])
    assert flags.live_adapters == f"/mnt/live-adapters/{MODEL}/live-adapters"
    assert (flags.live_rank, flags.adapter_slots) == (32, 4)
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING" not in str(server["env"])


@pytest.mark.parametrize(
    ("images", "flags"),
    [
        ({"step_cache": 0.12, "steps": 28}, ["--steps=28", "--step-cache=0.12"]),
        ({"sigmas": [1, 0.65, 0.3]}, ["--sigma=1", "--sigma=0.65", "--sigma=0.3"]),
    ],
)
def test_what_saves_steps_is_a_flag_of_the_server(images, flags):
    given = stack(images=images)
    args = server_args(served_in(given, MODEL, REGION))
    rungs = [rung_of(rung, "rung") for rung in args["rungs"]]
    (server,) = pod_of(args, rungs)["containers"]
    found = [word for word in server["args"] if word.startswith(("--si", "--st"))]
    assert [word for word in found if not word.startswith("--size")] == flags


def test_what_it_compiles_outlives_the_pod(container):
    cache = next(one for one in container["env"] if one["name"] == "JAX_COMPILATION_CACHE_DIR")
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    assert any(cache["value"].startswith(mount) for mount in mounts)


def test_it_is_scaled_by_its_queue_and_by_nothing_that_it_does_not_export():
    region, served = region_of(stack(), REGION), served_in(stack(), MODEL, REGION)
    scaling = scaling_args(region, served)
    metrics = autoscaler(scaling[f"{MODEL}-tpu"])["spec"]["metrics"]
    names = [metric["pods"]["metric"]["name"] for metric in metrics]
    assert names == ["prometheus.googleapis.com|diffusion_images_waiting|gauge"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"engine": "vllm"}, "engine must be diffusion when task is image, got 'vllm'"),
        ({"task": "generate", "images": None}, "task must be one of image"),
        ({"images": {"sizes": ["1000x1000"]}}, "must be multiples of 16, got 1000x1000"),
        (
            {"images": {"sigmas": [1, 0.5, 0.5]}},
            "images.sigmas must be strictly decreasing numbers in (0, 1], got 1, 0.5, 0.5",
        ),
        (
            {"images": {"sigmas": [1, 0.5], "steps": 2}},
            "images.steps must not be set when sigmas are given: each is one step, got 2",
        ),
        (
            {"images": {"sigmas": [1, 0.5], "step_cache": 0.1}},
            "images.step_cache must not be set when sigmas are given: a distilled schedule has "
            "no steps to skip, got 0.1",
        ),
        (
            {"live_adapters": {"max_rank": 256}},
            "live_adapters.max_rank must be at most 128 when task is image, got 256",
        ),
        (
            {"adapters": ["noir"], "adapter_rank": 256},
            "adapter_rank must be at most 128 when task is image, got 256",
        ),
        (
            {"size": {"parameters_billion": 17, "bits": 16}},
            "needs 33.8 GiB on each chip (31.7 GiB of weights, 0.2 of adapters, 2 free)",
        ),
        (
            {**two(), "size": {"parameters_billion": 14.5, "bits": 16}},
            "needs 39.6 GiB on each chip (37.4 GiB of weights, 0.2 of adapters, 2 free), "
            "one of tpu-v6e has 31.2 GiB",
        ),
        (
            two(sigmas=[1, 0.5]),
            "images.models.flux-mini.steps must not be set when sigmas are given: each is one "
            "step, got 20",
        ),
        (
            two(sigmas=[0.5, 1], steps=None),
            "images.models.flux-mini.sigmas must be strictly decreasing numbers in "
            "(0, 1], got 0.5, 1",
        ),
        (
            two(weights="gs://elsewhere/flux-mini"),
            "images.models.flux-mini.weights must be in the bucket of the first model "
            "(flux-schnell), got 'gs://elsewhere/flux-mini'",
        ),
        (
            two(weights="flux.2-klein-4b"),
            "images.models.flux-mini.weights must be of a model that engine diffusion can run",
        ),
        (
            {"weights": "sdxl-base-1.0"},
            "models.flux-schnell.context must be 77 for flux-schnell: Stable Diffusion XL reads no "
            "longer prompts, got 256",
        ),
        (
            {"weights": "sdxl-turbo", "context": 77, "images": {"step_cache": 0.1}},
            "images.step_cache must not be set for flux-schnell: a UNet has no first block whose "
            "output others reuse, got 0.1",
        ),
        (
            {"weights": "sdxl-turbo", "context": 77, "images": {"sigmas": [1, 0.5]}},
            "images.sigmas must not be set for flux-schnell: its schedule is in its "
            "scheduler_config.json",
        ),
        (
            two(weights="sdxl-lightning"),
            "images.models.flux-mini.context must be 77 for flux-mini: Stable Diffusion XL reads "
            "no longer prompts, got 128",
        ),
        (
            two(weights="sdxl-lightning", context=None, steps=None, sigmas=[1, 0.5]),
            "images.models.flux-mini.sigmas must not be set for flux-mini: its schedule is in",
        ),
        (
            {"size": MINI["size"], "images": {"models": {"comic": MINI}}},
            "models.flux-schnell.images.models.comic must be a unique name, which is "
            "models.flux-schnell.adapters[0] already",
        ),
        (
            {
                "weights": "sdxl-base-1.0",
                "context": 77,
                "size": {"parameters_billion": 15.5, "bits": 16},
            },
            "needs 32.0 GiB on each chip (28.9 GiB of weights, 0.2 of adapters, 3 free)",
        ),
        (
            {"live_adapters": {"max_rank": 128, "slots": 8}},
            "needs 39.3 GiB on each chip (27.0 GiB of weights, 10.3 of adapters, 2 free), "
            "one of tpu-v6e has 31.2 GiB",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused_when_the_stack_is_read(changed, words):
    with pytest.raises(StackError) as refused:
        stack(**changed)
    assert words in str(refused.value)


@pytest.mark.parametrize("weights", ["flux.2-klein-4b", "gs://acme/flux.2-klein-4b"])
def test_weights_that_the_image_server_has_no_pipeline_for_are_refused(weights: str):
    with pytest.raises(StackError) as caught:
        stack(weights=weights)
    assert str(caught.value.problems[0]) == (
        f"models.{MODEL}.weights: must be of a model that engine diffusion can run "
        f"(flux-mini or flux.1-dev or flux.1-krea-dev or flux.1-schnell or sdxl-lightning or "
        f"sdxl-turbo or stable-diffusion-xl), got '{weights}'"
    )
