"""A model that draws: the example stack, its pods, its autoscaler, and what is refused."""

import json

import pytest
import yaml

from gke_inference.catalogue.rungs import checked_input
from gke_inference.serving.autoscaling import autoscaler
from gke_inference.serving.model_objects import deployments
from gke_inference.serving.model_plan import model_plan
from infra.arguments import models as assemble_models
from infra.reading.load import parse
from infra.stack.problems import StackError
from tests.contract.infra.resolved import region_of, served_in
from twin.host.paths import REPOSITORY
from workloads.diffusion.__main__ import parser

EXAMPLE = REPOSITORY / "docs" / "examples" / "pictures" / "Pulumi.pictures.yaml"
MODEL, REGION = "flux-schnell", "us-central1"


def stack(**changed):
    whole = yaml.safe_load(EXAMPLE.read_text())["config"]["gke-inference:platform"]
    model = {**whole["models"][MODEL], **changed}
    whole["models"][MODEL] = {name: value for name, value in model.items() if value is not None}
    return parse(json.dumps(whole))


@pytest.fixture(scope="module")
def container():
    args = assemble_models.server_args(stack(), served_in(stack(), MODEL, REGION))
    rungs = [checked_input(rung, "rung") for rung in args["rungs"]]
    made = deployments(model_plan(args, rungs))
    return made["tpu"]["spec"]["template"]["spec"]["containers"][0]


def test_each_chip_of_a_replica_has_a_process_of_its_own(container):
    assert container["resources"]["limits"] == {"google.com/tpu": "4"}
    assert "--workers=4" in [*container["command"], *container.get("args", [])]


def test_the_server_takes_every_argument_that_its_pod_has(container):
    words = [*container["command"], *container.get("args", [])]
    at = words.index("diffusion")
    given = parser().parse_args(words[at + 1 :])
    assert (given.model, given.steps, given.queue_limit) == (MODEL, 4, 64)
    assert given.size == ["1024x1024", "768x1344"]
    assert given.adapter[0].endswith(f"/{MODEL}/adapters/comic")


def test_what_it_compiles_outlives_the_pod(container):
    cache = next(one for one in container["env"] if one["name"] == "JAX_COMPILATION_CACHE_DIR")
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    assert any(cache["value"].startswith(mount) for mount in mounts)


def test_it_is_scaled_by_its_queue_and_by_nothing_that_it_does_not_export():
    region, served = region_of(stack(), REGION), served_in(stack(), MODEL, REGION)
    scaling = assemble_models.scaling_args(region, served)
    metrics = autoscaler(scaling[f"{MODEL}-tpu"])["spec"]["metrics"]
    names = [metric["pods"]["metric"]["name"] for metric in metrics]
    assert names == ["prometheus.googleapis.com|diffusion_pictures_waiting|gauge"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"engine": "vllm"}, "engine must be diffusion where task is image, got 'vllm'"),
        ({"task": "generate", "pictures": None}, "task must be one of image"),
        ({"pictures": {"sizes": ["1000x1000"]}}, "must be multiples of 16, got 1000x1000"),
        (
            {"size": {"parameters_billion": 17, "bits": 16}},
            "needs 33.7 GiB on each chip (31.7 GiB of weights",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused_when_the_stack_is_read(changed, words):
    with pytest.raises(StackError) as refused:
        stack(**changed)
    assert words in str(refused.value)
