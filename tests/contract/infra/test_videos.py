"""A video model: its server's arguments, and what is rejected."""

import json

import pytest
import yaml

from gke_inference.base.inputs import rung_of
from gke_inference.gateway.routes import PATHS_BY_TASK
from gke_inference.serving.autoscaling import autoscaler
from gke_inference.serving.model_objects import deployments
from gke_inference.serving.model_plan import model_plan
from infra.deploy import serving_arguments as assemble_models
from infra.reading.load import parse
from infra.stack.problems import StackError
from tests.contract.infra.resolved import region_of, served_in
from twin.host.paths import REPOSITORY
from workloads.diffusion.__main__ import parser, settings_of
from workloads.diffusion.config import from_dict
from workloads.diffusion.protocol import VIDEOS

EXAMPLE = REPOSITORY / "docs" / "examples" / "video" / "Pulumi.video.yaml"
MODEL, REGION = "wan", "us-central1"


def stack(**changed):
    """Return the example with a changed model."""
    whole = yaml.load(EXAMPLE.read_text(), yaml.CSafeLoader)["config"]["gke-inference:platform"]
    model = {**whole["models"][MODEL], **changed}
    whole["models"][MODEL] = {name: value for name, value in model.items() if value is not None}
    return parse(json.dumps(whole))


def pod_of(given):
    """Return the pod template of the model's server."""
    args = assemble_models.server_args(served_in(given, MODEL, REGION))
    rungs = [rung_of(rung, "rung") for rung in args["rungs"]]
    return deployments(model_plan(args, rungs))["tpu"]["spec"]["template"]["spec"]


def test_a_chip_generates_one_video_at_a_time_in_the_sizes_and_frames_of_the_stack():
    (server,) = pod_of(stack())["containers"]
    words = [*server["command"], *server["args"]]
    given = parser().parse_args(words[words.index("diffusion") + 1 :])
    found = from_dict(settings_of(given))
    assert (found.sizes, found.frames) == (((832, 480), (480, 832)), (81, 33))
    assert (found.max_batch, found.workers, found.steps, found.queue_limit) == (1, 4, 50, 8)
    assert (found.text_tokens, found.text_encoder_bits) == (512, 8)


def test_live_adapters_of_people_are_on_the_server_of_videos_as_many_as_a_request_may_name():
    live = {"place": "bucket", "max_rank": 16, "slots": 8}
    pod = pod_of(stack(live_adapters=live, videos={"max_adapters": 3}))
    (server,) = pod["containers"]
    assert {"--max-adapters=3", "--live-rank=16", "--adapter-slots=8"} <= set(server["args"])
    folder = next(each for each in server["args"] if each.startswith("--live-adapters="))
    assert folder == "--live-adapters=/mnt/live-adapters/wan2.1-t2v-1.3b/live-adapters"
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING" not in [each["name"] for each in server["env"]]


def test_a_video_may_take_the_whole_timeout_of_the_model_also_while_its_pod_ends():
    pod = pod_of(stack(timeout_seconds=500))
    (server,) = pod["containers"]
    assert {"--timeout-seconds=500", "--drain-seconds=500"} <= set(server["args"])
    assert pod["terminationGracePeriodSeconds"] > 500


def test_a_video_model_is_scaled_by_the_videos_that_wait():
    region, served = region_of(stack(), REGION), served_in(stack(), MODEL, REGION)
    scaling = assemble_models.scaling_args(region, served)
    (metric,) = autoscaler(scaling[f"{MODEL}-tpu"])["spec"]["metrics"]
    name = "prometheus.googleapis.com|diffusion_images_waiting|gauge"
    assert metric["pods"]["metric"]["name"] == name
    assert metric["pods"]["target"]["averageValue"] == "2"


def test_the_path_of_the_gateway_is_that_of_the_server():
    assert PATHS_BY_TASK["video"] == (VIDEOS,)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"engine": "vllm"}, "models.wan.engine must be diffusion when task is video, got 'vllm'"),
        (
            {"task": "image", "videos": None},
            "models.wan.weights must be of a model that engine diffusion can run (flux-mini or ",
        ),
        (
            {"weights": "flux-schnell"},
            "models.wan.weights must be of a model that engine diffusion can run (wan-2.1-1.3b), "
            "got 'flux-schnell'",
        ),
        ({"task": "image"}, "models.wan.videos must not be set when task is image"),
        (
            {"images": {"sizes": ["832x480"]}},
            "models.wan.images must not be set when task is video",
        ),
        (
            {"videos": {"frames": [81, 80]}},
            "models.wan.videos.frames[1] must be a multiple of 4 plus 1, such as 81, got 80",
        ),
        ({"videos": {"frames": [-3]}}, "videos.frames[0] must be a multiple of 4 plus 1"),
        (
            {"videos": {"sizes": ["832x484"]}},
            "models.wan.videos.sizes[0] must be multiples of 16, got 832x484",
        ),
        (
            {"settings": {"max_batch": 2}},
            "models.wan.settings.max_batch must be 1 when task is video: a chip generates one "
            "video at a time, got 2",
        ),
        (
            {"videos": {"max_adapters": 2}},
            "models.wan.videos.max_adapters must not be set without adapters or live_adapters, "
            "got 2",
        ),
        (
            {"videos": {"max_adapters": 5}, "live_adapters": {"max_rank": 32}},
            "models.wan.videos.max_adapters must be at most 4 for adapters of rank 32, got 5",
        ),
        (
            {"live_adapters": {"max_rank": 256}},
            "models.wan.live_adapters.max_rank must be at most 128 when task is video, got 256",
        ),
        ({"live_adapters": {"slots": 64}}, "one of tpu-v6e has 31.2 GiB"),
        ({"videos": {"step_cache": 0.1}}, "models.wan.videos.step_cache"),
        ({"videos": {"models": {}}}, "models.wan.videos.models"),
        (
            {"context": 513},
            "models.wan.context must be at most 512 for wan: Wan 2.1 reads no longer prompts, "
            "got 513",
        ),
        (
            {"videos": {"sizes": ["1280x720"], "frames": [161]}},
            "one of tpu-v6e has 31.2 GiB",
        ),
        (
            {"size": {"parameters_billion": 19.9, "bits": 16}},  # Wan 2.1 of 14 billion parameters
            "one of tpu-v6e has 31.2 GiB",
        ),
    ],
)
def test_what_no_server_can_generate_is_rejected_when_the_stack_is_read(changed, words):
    with pytest.raises(StackError) as refused:
        stack(**changed)
    assert words in str(refused.value)
