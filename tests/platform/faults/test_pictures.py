"""Stacks that draw: files through the real gateway, and adapters of people and their jobs."""

import io
import json
import shutil
import time
import urllib.request
from base64 import b64decode, b64encode
from typing import Any

import openai
import pytest
import requests
import yaml
from PIL import Image

from gke_inference.storage.model_disk import STORAGE_CLASS
from scripts.shared.model_client import generate_images, generate_video, models, open_client
from scripts.terminal.console import CommandError
from tests.diffusion.personal.pictures import pictures
from tests.platform.batch.rig import client as openai_client
from tests.platform.faults.app import Backend
from tests.platform.faults.app import receiver as receiver_of
from tests.platform.faults.rig import Platform, together, wait_for
from tests.running.batch.world import jsonl, over, read, submit
from tests.shipped_stacks import EXAMPLES
from tests.unit.diffusion.images import file, mask, url
from twin.engines.image_pipeline import DIFFUSION
from twin.providers.gcp.effects import gcs
from twin.world.rules import DEFAULT_SPEED
from twin.world.run_services import SERVICE
from twin.world.store import list_resources
from workloads.personal.callback import verify

pytestmark = pytest.mark.needs_tools

EXAMPLE = EXAMPLES / "personalized-images"
PICTURES = EXAMPLES / "images" / "Pulumi.images.yaml"
VIDEO = EXAMPLES / "video" / "Pulumi.video.yaml"
MODEL, NAMESPACE = "flux-dev", "jobs-images"
FAST, MINI, WAN = "flux-schnell", "flux-mini", "wan"
EDITS = "/v1/images/edits"
SNAPSHOT = "projects/acme-images/global/snapshots/flux-schnell"
DISK_ZONES = ("us-east5-a", "us-east5-b")
OWN_SNAPSHOT = f"projects/acme-inference-images/global/snapshots/{MODEL}"
SMALL = {"parameters_billion": 5.6, "bits": 16}
"""A size of which a chip holds two."""
CALLER = "app@acme-inference-images.iam.gserviceaccount.com"
HEADERS = {"Content-Type": "application/json", "X-Gateway-Base-Model-Name": MODEL}


@pytest.fixture(scope="module")
def platform(tmp_path_factory):
    own, folder = EXAMPLE / "Pulumi.personalized-images.yaml", tmp_path_factory.mktemp("stack")
    stack = together(folder, own, with_further(folder), "batches", "capacity", "models")
    stack = together(folder, stack, VIDEO, "capacity", "models")
    made = Platform(tmp_path_factory.mktemp("images"), stack, "{min: 1, max: 2}", DEFAULT_SPEED)
    try:
        made.bring_up(accounts=(CALLER,), snapshots=(SNAPSHOT, OWN_SNAPSHOT))
        wait_for(lambda: image_of(made, MODEL) is not None, 120, made.states)
        wait_for(lambda: draws(made), 120, made.states)
        yield made
    finally:
        made.close()


def with_further(folder):
    """Write the example with a second model on each chip, and return the file."""
    whole = yaml.safe_load(PICTURES.read_text())
    model = whole["config"]["gke-inference:platform"]["models"][FAST]
    model["size"] = SMALL
    whole["config"]["gke-inference:platform"]["batches"] = {"models": [FAST]}
    model["adapters"] = ["comic", "noir"]
    model["images"]["max_adapters"] = 2
    model["images"]["models"] = {MINI: {"weights": MINI, "size": SMALL, "steps": 20}}
    model["disk"] = {
        "size_gib": 40,
        "snapshot": SNAPSHOT,
        "throughput_mib_per_second": 1200,
        "zones": ["us-east5-b"],
    }
    made = folder / PICTURES.name
    made.write_text(yaml.safe_dump(whole))
    return made


def draws(platform):
    """Return whether the model of `pictures` draws."""
    try:
        return bool(generate_images(platform.url, FAST, "x", timeout=20))  # `wait_for` asks again
    except CommandError:
        return False


def image_of(platform, name, prompt="x", seed=7):
    """Return the image of an adapter or the model, or None if there is no such name."""
    body = json.dumps({"model": name, "prompt": prompt, "seed": seed}).encode()
    url = platform.url + "/v1/images/generations"
    request = urllib.request.Request(url, body, HEADERS)  # noqa: S310 - the gateway of this test
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=120) as answer:
            return json.load(answer)["data"][0]["b64_json"]
    except OSError:
        return None


def test_the_base_model_is_read_from_a_disk_of_the_zone_of_its_replica(platform):
    where = "/api/v1/persistentvolumeclaims"
    claims = {each["metadata"]["name"]: each["spec"] for each in platform.kube.list(where)}
    pods = platform.kube.list("/api/v1/namespaces/models/pods")
    (pod,) = [each for each in pods if each["metadata"]["name"].startswith(f"{MODEL}-tpu")]
    (claim,) = [
        name
        for volume in pod["spec"]["volumes"]
        if (name := volume.get("persistentVolumeClaim", {}).get("claimName")) in claims
        and claims[name]["storageClassName"] == STORAGE_CLASS
    ]
    assert claims[claim]["accessModes"] == ["ReadOnlyMany"]
    node = platform.kube.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")
    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] in DISK_ZONES


@pytest.fixture(scope="module")
def folder(platform):
    """The shared folder, as a job of the team has it."""
    (found,) = (platform.paths.root / "filestore").glob("*/shared")
    return found


def test_an_adapter_is_served_through_the_gateway_until_its_owner_deletes_it(platform, folder):
    base = image_of(platform, MODEL)
    assert image_of(platform, "alice") is None
    live = folder / MODEL / "live-adapters" / "alice"
    live.mkdir(parents=True)
    (live / "pytorch_lora_weights.safetensors").write_bytes(b"alice")
    assert image_of(platform, "alice") not in (None, base)
    shutil.rmtree(live)
    assert image_of(platform, "alice") is None
    assert image_of(platform, MODEL) == base


@pytest.mark.soak  # tests/diffusion/personal trains with the real programs, outside a cluster
def test_the_training_job_of_the_example_writes_an_adapter_that_is_served(platform, folder):
    gcs.create_bucket(platform.paths, "users", "acme")
    for number, picture in enumerate(pictures()):
        name = f"users/alice/images/{number}.png"
        gcs.upload(platform.paths, "users", name, picture, "image/png")
    text = (EXAMPLE / "train.yaml").read_text().replace("BUCKET-OF-IMAGES", "users")
    settings, job = yaml.safe_load_all(text)
    platform.kube.post(f"/api/v1/namespaces/{NAMESPACE}/configmaps", settings)
    platform.kube.post(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", job)
    where = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/train-alice"
    until = time.monotonic() + 300
    while not (found := platform.kube.get(where)).get("status", {}).get("succeeded"):
        assert time.monotonic() < until, found
        time.sleep(0.2)
    assert found["spec"]["suspend"] is False
    assert (folder / MODEL / "live-adapters" / "alice").is_dir()
    assert image_of(platform, "alice") not in (None, image_of(platform, MODEL))


@pytest.fixture
def receiver(platform, tmp_path):
    """The receiver of the app's callbacks."""
    made = receiver_of(platform.paths, "app.example.com", tmp_path)
    yield made
    made.stop()


@pytest.mark.soak  # the same, with a killed worker
def test_a_users_pictures_become_images_and_a_callback_though_a_pod_is_deleted_in_training(
    platform, folder, receiver, record_property
):
    secret = b"the secret of the app's callbacks"
    held = {"metadata": {"name": "callbacks"}, "data": {"secret": b64encode(secret).decode()}}
    platform.kube.post(f"/api/v1/namespaces/{NAMESPACE}/secrets", held)
    (made,) = [each for each in list_resources(platform.paths) if each.type == SERVICE]
    service = str(made.outputs["uri"])
    one, prompts = "/v1/users/alice/sets/one", ["sks bicycle", "sks bicycle on the moon"]
    assert Backend(platform.paths, service, None).call("GET", one).status_code == 401
    other = Backend(platform.paths, service, "other@acme.iam.gserviceaccount.com")
    assert other.call("GET", one).status_code == 403

    backend = Backend(platform.paths, service, CALLER)
    backend.upload(one, "https://app.example.com/done", prompts)
    progress = folder / "work" / "alice-one" / "progress.json"
    wait_for(progress.exists, 300, lambda: backend.call("GET", one).text)
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    of_job = [
        pod["metadata"]["name"]
        for pod in platform.kube.list(pods)
        if pod["metadata"].get("labels", {}).get("job-name") == "train-alice-one"
    ]
    platform.kube.delete(f"{pods}/{of_job[0]}", {})
    ended = {"done", "failed"}
    wait_for(
        lambda: backend.call("GET", one).json()["stage"] in ended,
        600,
        lambda: backend.call("GET", one).text,
    )

    shown = backend.call("GET", one).json()
    assert (shown["stage"], shown["error"], shown["callback"]) == ("done", "", "delivered")
    stages = ["uploading", "waiting", "training", "drawing", "archiving", "calling"]
    assert list(shown["seconds"]) == stages
    record_property("seconds", shown["seconds"])
    (file,) = (folder / MODEL / "live-adapters" / "alice-one").iterdir()
    assert requests.get(shown["adapter"], timeout=60).content == file.read_bytes()
    for seed, (address, prompt) in enumerate(zip(shown["images"], prompts, strict=True)):
        image = b64encode(requests.get(address, timeout=60).content).decode()
        assert image == image_of(platform, "alice-one", prompt, seed)
        assert image != image_of(platform, MODEL, prompt, seed)
    ((headers, body),) = receiver.called
    verify(secret, headers, body, time.time())
    assert json.loads(body)["images"] == len(prompts)
    logs = platform.cluster / "logs" / "pods"
    lines = [file.read_text() for file in logs.glob(f"{NAMESPACE}_train-alice-one-*_train.log")]
    assert len(lines) == 2
    if DIFFUSION.is_installed:
        assert any("a checkpoint is there" in each for each in lines)
    jobs = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
    assert "train-alice-one" not in [each["metadata"]["name"] for each in platform.kube.list(jobs)]


def sides(picture):
    found = Image.open(io.BytesIO(picture.file))
    assert found.format == "PNG"
    return found.size


def test_the_gateway_gives_as_many_pictures_as_were_asked_for_of_one_seed_each(platform):
    pictures = generate_images(platform.url, FAST, "a red bicycle", count=4, seed=7)
    assert [picture.seed for picture in pictures] == [7, 8, 9, 10]
    assert {sides(picture) for picture in pictures} == {(1024, 1024)}
    assert len({picture.file for picture in pictures}) == 4
    assert generate_images(platform.url, FAST, "a red bicycle", seed=9)[0].file == pictures[2].file


def test_an_adapter_is_routed_by_its_name_in_the_body(platform):
    ours = generate_images(platform.url, "comic", "a red bicycle", seed=7)[0]
    assert ours.file != generate_images(platform.url, FAST, "a red bicycle", seed=7)[0].file


def test_two_adapters_of_a_request_change_the_image_by_their_weights(platform):
    def drawn(**more):
        with openai_client(platform.url) as client:
            body = {"seed": 7, **more}
            images = client.images.generate(model=FAST, prompt="x", extra_body=body).data
            return tuple(image.b64_json for image in images or ())

    both = {"adapter_names": ["comic", "noir"]}
    strong = drawn(**both, adapter_weights=[0.9, 0.1])
    assert len({strong, drawn(**both, adapter_weights=[0.1, 0.9]), drawn(**both), drawn()}) == 4
    assert strong == drawn(**both, adapter_weights=[0.9, 0.1])
    with pytest.raises(openai.NotFoundError, match="adapter 'nobody' does not exist"):
        drawn(adapter_names=["nobody"])


def test_another_size_of_the_stack_is_drawn_and_one_that_is_not_is_refused(platform):
    assert sides(generate_images(platform.url, FAST, "x", size="768x1344")[0]) == (768, 1344)
    with pytest.raises(CommandError, match=r"HTTP 400 .*size: must be one of"):
        generate_images(platform.url, FAST, "x", size="512x512")


def test_a_model_on_a_disk_runs_in_the_zone_of_the_disk(platform):
    pods = platform.kube.list("/api/v1/namespaces/models/pods")
    nodes = {
        pod["spec"]["nodeName"]
        for pod in pods
        if any("persistentVolumeClaim" in each for each in pod["spec"].get("volumes", []))
        and pod["metadata"]["name"].startswith(FAST)
        and pod["spec"].get("nodeName")
    }
    assert nodes
    for name in nodes:
        node = platform.kube.get(f"/api/v1/nodes/{name}")
        assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "us-east5-b"


def test_a_further_model_is_listed_and_drawn_by_its_name(platform):
    assert {FAST, MINI, "comic"} <= set(models(platform.url))
    ours = generate_images(platform.url, MINI, "a red bicycle", seed=7)[0]
    assert sides(ours) == (1024, 1024)
    assert ours.file != generate_images(platform.url, FAST, "a red bicycle", seed=7)[0].file


@pytest.fixture(scope="module")
def edit(platform):
    """Sends an edit with OpenAI's client, as a form."""
    with openai_client(platform.url) as client:
        given: dict[str, Any] = {"model": FAST, "image": file(), "prompt": "x"}
        given["extra_body"] = {"seed": 7}
        yield lambda **more: client.images.edit(**given | more)


def test_an_edit_reaches_the_model_as_a_form_and_as_json_and_its_mask_is_kept(platform, edit):
    whole, part = edit(), edit(mask=mask())
    assert [image.seed for image in edit(n=2).data] == [7, 8]
    red = Image.open(io.BytesIO(b64decode(part.data[0].b64_json))).getpixel((1023, 512))
    assert red == (255, 0, 0)  # where the mask is opaque, the image is the client's
    body = {"model": FAST, "prompt": "x", "seed": 7, "images": [url(file())]}
    answer = requests.post(platform.url + EDITS, json=body, timeout=60).json()
    assert answer["data"][0]["b64_json"] == whole.data[0].b64_json
    assert edit(model="comic").data[0].b64_json != whole.data[0].b64_json


@pytest.mark.parametrize(
    ("more", "field"),
    [
        pytest.param({"image": ("a.gif", file(form="GIF"), "image/gif")}, "image", id="type"),
        pytest.param({"size": "512x512"}, "size", id="size"),
        pytest.param({"mask": mask(size=(32, 32))}, "mask", id="size of the mask"),
        pytest.param({"mask": file()}, "mask", id="mask without alpha"),
    ],
)
def test_a_wrong_edit_is_refused_through_the_gateway_in_openais_form(edit, more, field):
    with pytest.raises(openai.BadRequestError) as refused:
        edit(**more)
    assert (refused.value.param, refused.value.type) == (field, "invalid_request_error")


def test_an_edit_over_the_limit_of_bodies_is_refused(edit):
    with pytest.raises(openai.APIStatusError) as refused:
        edit(image=file() + bytes(8 * 2**20))
    assert refused.value.status_code == 413


def test_edits_of_a_batch_are_those_of_single_requests_and_a_wrong_one_has_an_error(platform, edit):
    bodies = [{"images": [url(file())]}, {"images": [url(file())], "mask": url(mask())}, {}]
    lines = [
        {
            "custom_id": f"r{at}",
            "method": "POST",
            "url": EDITS,
            "body": {"model": FAST, "prompt": "x", "seed": 7, **body},
        }
        for at, body in enumerate(bodies)
    ]
    with openai_client(platform.url) as api:
        done = over(api, submit(api, jsonl(lines), EDITS), 120)
        assert done.request_counts.to_dict() == {"total": 3, "completed": 2, "failed": 1}
        images = [
            each["response"]["body"]["data"][0]["b64_json"]
            for each in read(api, done.output_file_id)
        ]
        (wrong,) = read(api, done.error_file_id)
    assert images == [edit().data[0].b64_json, edit(mask=mask()).data[0].b64_json]
    error = wrong["response"]["body"]["error"]
    assert (wrong["custom_id"], wrong["response"]["status_code"]) == ("r2", 400)
    assert (error["param"], error["type"]) == ("images", "invalid_request_error")


def test_a_video_reaches_the_client_through_the_gateway_and_images_are_another_models(platform):
    def is_served():
        try:
            return bool(generate_video(platform.url, WAN, "x", timeout=60))
        except CommandError:
            return False

    wait_for(is_served, 120, platform.states)
    video = generate_video(platform.url, WAN, "a red bicycle", size="480x832", seed=7)
    assert video[4:8] == b"ftyp"
    assert video == generate_video(platform.url, WAN, "a red bicycle", size="480x832", seed=7)
    with pytest.raises(
        CommandError, match=r"HTTP 400 .*generates videos: use POST /v1/videos/sync"
    ):
        generate_images(platform.url, WAN, "x")
    with pytest.raises(CommandError, match=r"HTTP 400 .*use POST /v1/images/generations"):
        generate_video(platform.url, FAST, "x")


def stream(platform, model, seed, count):
    """Yield the events of a request with previews; it ends when the generator is closed."""
    more = {"num_inference_steps": 100, "seed": seed}
    with (
        open_client(platform.url, model) as client,
        client.images.generate(
            model=model, prompt="x", n=count, stream=True, partial_images=3, extra_body=more
        ) as found,
    ):
        yield from found


def test_previews_of_every_model_reach_the_client_through_the_gateway(platform):
    for model in (FAST, MINI):
        found = list(stream(platform, model, 7, 1))
        assert [getattr(each, "partial_image_index", None) for each in found] == [0, 1, 2, None]
        assert len({each.b64_json for each in found}) == 4
        whole = generate_images(platform.url, model, "x", seed=7)[0]
        assert b64decode(found[-1].b64_json) == whole.file


def test_a_stream_that_is_closed_after_a_preview_ends_the_work_behind_the_gateway(platform):
    def lines():
        files = (platform.cluster / "logs" / "pods").glob(f"*{FAST}*")
        return [line for file in files for line in file.read_text().splitlines()]

    def is_cancelled():
        found = stream(platform, FAST, 4242, 8)
        assert next(found).type == "image_generation.partial_image"
        found.close()  # a gateway that holds events back gives the first when all is drawn
        return any('"seed": 4242' in each and '"cancelled"' in each for each in lines())

    wait_for(is_cancelled, 60, lambda: "\n".join(lines()[-5:]))


def test_what_the_tests_of_alerts_know_of_series_is_what_the_stack_exports(
    platform, series_are_recorded
):
    series_are_recorded(platform.paths, "personalized-images")
