"""The commands: where they read a stack's models, what they print, and what they refuse."""

import json
import sys
from typing import Any

import pytest

from gke_inference.catalogue.versions import base_image
from infra.plan import resolve
from infra.reading.load import STACKS, parse, platform_of, read
from infra.stack import Canary, Task
from scripts import main
from scripts.models import in_cluster, session, uploads
from scripts.models.places import targets, used_versions
from scripts.models.progress import progress_line, size_text
from scripts.models.uploads import PushOptions
from scripts.shared.google_cloud import Cloud
from scripts.terminal.exit_codes import ExitCode
from tests.unit.models import strict_storage, tiny
from twin.engines.real.tiny_model import write_adapter
from workloads.transfer.errors import Refused, TransferError

PROD = [
    "acme-prod-models-us-central1",
    "acme-prod-models-europe-west4",
    "acme-prod-models-asia-northeast1",
]
SECRET = "hf_NobodyMayReadThis123"


@pytest.fixture
def cloud():
    return strict_storage.Cloud(*PROD)


PLACE = "In Google Cloud, project acme-inference-prod\n"


@pytest.fixture
def run(cloud, monkeypatch, tmp_path, capsys):
    """Return a function that runs a command line and returns its code, output and errors."""
    monkeypatch.setattr(uploads, "_HASHES", tmp_path / "hashes.json")
    with strict_storage.serving(cloud) as address:
        monkeypatch.setenv(session.EMULATOR, address)
        monkeypatch.setenv("GKE_INFERENCE_ON", "cloud")

        def call(*words):
            monkeypatch.setattr(sys, "argv", ["gke-inference", "models", *words])
            with pytest.raises(SystemExit) as ended:
                main.main()
            said = capsys.readouterr()
            return ended.value.code, said.out, said.err.removeprefix(PLACE)

        yield call


@pytest.fixture
def model(tmp_path):
    return tiny.write(tmp_path / "llama", sizes=(3000, 2000))


def push(run, model, *more):
    return run("push", str(model), "--stack", "prod", "--model", "llama-3.1-8b", *more)


def listed(run):
    _, out, _ = run("list", "--stack", "prod", "--model", "llama-3.1-8b", "-o", "json")
    return json.loads(out[out.index("[") :])


def test_a_sample_is_a_model_that_can_be_pushed(run, cloud, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("sample", "sample")
    assert (code, out) == (0, "sample: 5 files\n")
    assert push(run, "sample")[0] == 0
    names = [name.rpartition("/")[2] for name in cloud.objects[PROD[0]]]
    assert "model.safetensors" in names


@pytest.fixture
def without_credentials(run, monkeypatch, tmp_path):
    """Return the function of `run`, for Google's storage and no credentials."""
    monkeypatch.delenv(session.EMULATOR)
    nothing = {"CLOUDSDK_CONFIG": tmp_path, "HOME": tmp_path, "NO_GCE_CHECK": "true"}
    for name, value in nothing.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    return run


def test_without_credentials_a_push_names_both_ways_to_go_on(without_credentials, model):
    code, _, err = push(without_credentials, model)
    assert code == ExitCode.ERROR
    assert "run 'gcloud auth application-default login', or use --on twin" in err


def test_an_unknown_model_is_reported_before_missing_credentials(without_credentials, model):
    words = ("push", str(model), "--stack", "prod", "--model", "llama-9")
    assert "--model: must be one of" in without_credentials(*words)[2]


def test_the_twins_storage_is_not_there_without_a_twin(run, monkeypatch, tmp_path):
    monkeypatch.setenv("GKE_INFERENCE_TWIN_DIR", str(tmp_path / "none"))
    code, _, err = run("verify", "--stack", "prod", "--on", "twin")
    assert code == ExitCode.ERROR
    assert "--on: must be cloud while the twin is down, got 'twin'" in err


def test_a_model_goes_to_the_bucket_of_each_region_and_becomes_current(run, model, cloud):
    code, out, err = push(run, model)
    assert (code, err) == (ExitCode.OK, "")
    assert "complete in " + ", ".join(PROD) in out
    assert {bucket for bucket, _, _ in cloud.uploaded} == {PROD[0]}
    for entry in listed(run):
        (version,) = entry["versions"]
        assert version["state"] == "complete"
        assert version["is_current"]
        assert version["is_used"]


def test_a_second_version_becomes_current_only_if_asked(run, model):
    push(run, model, "--version", "v1")
    tiny.write(model, sizes=(3000, 2000), seed=2)
    _, out, _ = push(run, model, "--version", "v2")
    assert "version v1 stays current; --current makes v2 it" in out
    push(run, model, "--version", "v2", "--current")
    assert [version["is_current"] for version in listed(run)[0]["versions"]] == [False, True]


def test_another_content_under_a_version_ends_with_2_and_sends_nothing(run, model, cloud):
    push(run, model, "--version", "v1")
    before = cloud.bytes_uploaded()
    tiny.write(model, sizes=(3000, 2000), seed=2)
    code, _, err = push(run, model, "--version", "v1")
    assert code == ExitCode.ERROR
    assert "/llama-3.1-8b/v1: versions never change, and this one has other files" in err
    assert cloud.bytes_uploaded() == before


def test_a_bucket_that_is_missing_is_one_line_with_what_to_do(run, model, cloud):
    del cloud.objects[PROD[1]]
    code, _, err = push(run, model)
    assert code == ExitCode.ERROR
    assert err == (
        f"error: gs://{PROD[1]}: does not exist: deploy the stack first; its model servers wait "
        "for their weights\n"
    )
    assert cloud.bytes_uploaded() == 0


def test_a_dry_run_sends_nothing(run, model, cloud):
    code, out, _ = push(run, model, "--dry-run")
    assert code == ExitCode.OK
    assert "5 of 5 files to send" in out
    assert cloud.bytes_uploaded() == 0


def test_verify_exits_1_where_an_object_differs(run, model, cloud):
    push(run, model, "--version", "v1")
    words = ("verify", "--stack", "prod", "--model", "llama-3.1-8b")
    assert run(*words)[0] == ExitCode.OK
    cloud.put(PROD[1], "llama-3.1-8b/v1/config.json", b"{}", {})
    code, out, _ = run(*words)
    assert code == ExitCode.CHECK_FAILED
    assert f"gs://{PROD[1]}/llama-3.1-8b/v1/config.json: size must be" in out


def test_rm_refuses_the_current_version_without_force(run, model, cloud):
    push(run, model, "--version", "v1")
    words = ("rm", "--stack", "prod", "--model", "llama-3.1-8b", "--version", "v1", "--yes")
    code, _, err = run(*words)
    assert code == ExitCode.ERROR
    assert "--version: must not be the current version; --force removes it" in err
    assert cloud.names(PROD[0])
    assert run(*words, "--force")[0] == ExitCode.OK
    assert [cloud.names(bucket) for bucket in PROD] == [[], [], []]


def test_replicate_fills_a_region_that_lacks_the_version(run, model, cloud):
    push(run, model, "--version", "v1")
    cloud.objects[PROD[2]].clear()
    words = ("replicate", "--stack", "prod", "--model", "llama-3.1-8b")
    code, out, _ = run(*words, "--to", "asia-northeast1")
    assert code == ExitCode.OK
    assert f"gs://{PROD[2]}/llama-3.1-8b/v1: complete, copied" in out
    assert cloud.names(PROD[2]) == cloud.names(PROD[0])


def test_pull_brings_the_current_version(run, model, tmp_path):
    push(run, model, "--version", "v1")
    words = ("pull", "--stack", "prod", "--model", "llama-3.1-8b", str(tmp_path / "back"))
    assert run(*words)[0] == ExitCode.OK
    name = "model-00001-of-00002.safetensors"
    assert (tmp_path / "back" / name).read_bytes() == (model / name).read_bytes()


WRONG = {
    "no source": ((), "SOURCE: must be a folder, or --from-hub instead, got neither"),
    "two sources": (
        ("x", "--from-hub", "a/b"),
        "SOURCE: must be a folder, or --from-hub instead, got both",
    ),
    "a version with a capital": (("x", "--version", "V1"), "--version: must be 1 to 63 lower-case"),
    "a revision of a folder": (
        ("x", "--revision", "main"),
        "--revision: must be used with --from-hub, got 'main'",
    ),
    "a folder in a cluster": (
        ("x", "--in-cluster"),
        "SOURCE: must not be used with --in-cluster, which reads the hub, got 'x'",
    ),
    "no repository": (("--from-hub", "llama"), "--from-hub: must be ORGANIZATION/MODEL"),
    "a snapshot without a job": (
        ("x", "--snapshot", "llama"),
        "--snapshot: must be used with --in-cluster, got 'llama'",
    ),
    "a direct job": (
        ("--from-hub", "a/b", "--in-cluster", "--direct"),
        "--direct: must not be used with --in-cluster, which copies between regions, got true",
    ),
    "a token of the twin's job": (
        ("--from-hub", "a/b", "--in-cluster", "--on", "twin", "--token-secret", "hub"),
        "--token-secret: must not be used with --on twin, got 'hub'",
    ),
    "no folder": (("/none",), "SOURCE: must be a folder with a model, got '/none'"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_command_line_is_one_line_and_ends_with_2(run, cloud, what):
    words, message = WRONG[what]
    code, _, err = run("push", *words, "--stack", "prod", "--model", "llama-3.1-8b")
    assert code == ExitCode.ERROR
    assert err.startswith("error: " + message)
    assert err.count("\n") == 1
    assert not [call for call in cloud.calls if not call.startswith("GET")]


def test_an_unknown_model_is_named_with_the_nearest(run):
    code, _, err = run("list", "--stack", "prod", "--model", "llama-3.1-8")
    assert code == ExitCode.ERROR
    assert "--model: must be one of" in err
    assert "did you mean 'llama-3.1-8b'?" in err


def test_places_are_the_regions_of_a_model_one_bucket_each():
    found = targets(resolve(read("prod")))
    qwen = found["qwen3-32b"]
    assert [(place.home.uri, place.regions) for place in qwen.places] == [
        ("gs://acme-prod-models-us-central1/qwen3-32b", ("us-central1",)),
        ("gs://acme-prod-models-europe-west4/qwen3-32b", ("europe-west4",)),
        ("gs://acme-prod-models-asia-northeast1/qwen3-32b", ("asia-northeast1",)),
    ]
    assert qwen.version is None


def with_weights(weights):
    platform = read("prod")
    model = platform.models["llama-3.1-8b"].model_copy(update={"weights": weights})
    return platform.model_copy(update={"models": {"llama-3.1-8b": model}})


def test_a_bucket_that_all_regions_share_is_one_place_and_its_version_is_in_use():
    platform = with_weights("gs://acme-weights/llama@v1")
    target = targets(resolve(platform))["llama-3.1-8b"]
    (place,) = target.places
    assert (place.home.uri, target.version) == ("gs://acme-weights/llama", "v1")
    assert place.regions == ("us-central1", "europe-west4", "asia-northeast1")
    used = used_versions({"prod": resolve(platform)})
    assert used == {(place.home, "v1"): ["llama-3.1-8b of prod"]}


class Answers:
    """A session that answers each request with one body."""

    def __init__(self, status, body):
        self.status_code, self.text, self._body = status, json.dumps(body), body

    def json(self):
        return self._body

    def request(self, *_, **__):
        return self


def test_a_token_of_secret_manager_is_read_and_a_refusal_does_not_show_it():
    body = {"payload": {"data": "aGZfTm9ib2R5TWF5UmVhZFRoaXMxMjM="}}
    token = uploads.token_of("hub-token", Cloud("acme", Answers(200, body)))
    assert token is not None
    assert token.reveal() == SECRET
    refused = {"error": {"message": "Permission denied on resource"}}
    with pytest.raises(TransferError, match=r"^--token-secret: no permission at secretmanager"):
        uploads.token_of("hub-token", Cloud("acme", Answers(403, refused)))


def test_the_job_has_its_program_its_buckets_and_the_version_of_the_stack():
    plan = resolve(read("prod"))
    options = PushOptions(repository="acme/llama", token_secret="hub-token", version="v1")
    args: Any = in_cluster.job_args(plan, targets(plan)["llama-3.1-8b"], options)
    assert args["buckets"] == PROD
    assert args["job_name"] == "weights-llama-3-1-8b"
    assert (args["token_secret"], args["version"], args["scratch_gib"]) == ("hub-token", "v1", 22)
    program = args["program"]
    assert "workloads/engine/weights_manifest.py" in program
    assert "workloads/transfer/job.py" in program
    assert "huggingface-hub==" in program["requirements.lock"]
    assert sum(len(text) for text in program.values()) < 900_000  # a ConfigMap holds 1 MiB


def test_the_image_of_the_job_is_pulled_through_the_cache_of_its_region():
    document = platform_of(STACKS / "Pulumi.prod.yaml")
    document["images"] |= {"pull_through": {"name": "up"}}
    plan = resolve(parse(json.dumps(document)))
    options = PushOptions(repository="acme/llama", version="v1")
    target = targets(plan)["llama-3.1-8b"]
    region = target.places[0].regions[0]
    image = in_cluster.job_args(plan, target, options).get("image")
    assert image is not None
    cache = f"{region}-docker.pkg.dev/{plan.platform.project}/up-docker-io/"
    assert image == base_image("python").reference.replace("docker.io/", cache)
    assert image.startswith(cache)


def test_a_job_fills_a_disk_of_the_models_size_in_a_zone_of_the_region():
    plan = resolve(read("prod"))
    options = PushOptions(repository="acme/llama", snapshot="llama-v1", zone="us-central1-b")
    args: Any = in_cluster.job_args(plan, targets(plan)["llama-3.3-70b"], options)
    assert args["disk"] == {
        "disk_name": "weights-llama-3-3-70b-fill",
        "size_gib": 200,
        "snapshot_name": "llama-v1",
        "zone": "us-central1-b",
    }


def test_options_of_a_disk_go_together():
    with pytest.raises(Refused, match="--zone: must be used with --snapshot, got 'a'"):
        PushOptions(repository="a/b", zone="a").check(on_twin=False, in_cluster=True)


def test_progress_is_a_line_with_rate_and_time_left():
    line = progress_line("send to gs://b", 1_500_000_000, 3_000_000_000, 100e6)
    assert line == "send to gs://b: 1.5 GB of 3.0 GB, 100.0 MB/s, 15 s left"
    assert (size_text(0), size_text(2e12)) == ("0 B", "2.0 TB")


SQL = "llama-3.1-8b/adapters/sql"


@pytest.fixture
def adapter(tmp_path):
    return write_adapter(tmp_path / "sql")


def test_an_adapter_is_pushed_listed_verified_and_removed_like_a_model(run, adapter, cloud):
    own = ("--stack", "prod", "--model", SQL)
    code, out, err = run("push", str(adapter), *own, "--version", "v1")
    assert (code, err) == (ExitCode.OK, "")
    assert f"gs://{PROD[2]}/{SQL}: version v1 is current" in out
    assert f"{SQL}/v1/_MANIFEST.json" in cloud.names(PROD[0])
    _, out, _ = run("list", *own, "-o", "json")
    assert [each["versions"][0]["is_used"] for each in json.loads(out[out.index("[") :])] == [
        True
    ] * len(PROD)
    assert run("verify", *own, "--deep")[0] == ExitCode.OK
    assert run("rm", *own, "--version", "v1", "--yes")[0] == ExitCode.ERROR
    assert run("rm", *own, "--version", "v1", "--yes", "--force")[0] == ExitCode.OK
    assert cloud.names(PROD[0]) == []


@pytest.mark.parametrize("name", ["adapter_config.json", "adapter_model.safetensors"])
def test_a_folder_that_is_no_adapter_is_not_sent_as_one(run, adapter, cloud, name):
    (adapter / name).unlink()
    code, _, err = run("push", str(adapter), "--stack", "prod", "--model", SQL)
    assert code == ExitCode.ERROR
    assert f"SOURCE: must have {name}" in err
    assert cloud.bytes_uploaded() == 0


def test_an_adapter_for_images_needs_one_file(tmp_path):
    uploads.check_adapter({"pytorch_lora_weights.safetensors"}, Task.IMAGE)
    with pytest.raises(Refused, match=r"must have a \.safetensors file"):
        uploads.check_adapter({"adapter_config.json"}, Task.IMAGE)


def test_a_canary_with_weights_of_its_own_has_adapters_of_its_own():
    plan = resolve(read("prod"))
    model = plan.platform.models["llama-3.1-8b"]
    canary = Canary(version="v2", weights="llama-new", percent=1)
    other = model.model_copy(update={"canary": canary})
    models = {**plan.platform.models, "llama-3.1-8b": other}
    known = targets(resolve(plan.platform.model_copy(update={"models": models})))
    assert [(key, known[key].folder) for key in known if key.endswith("/sql")] == [
        (SQL, SQL),
        ("llama-3.1-8b-v2/adapters/sql", "llama-new/adapters/sql"),
    ]
    same = canary.model_copy(update={"weights": "llama-3.1-8b@v2"})
    models["llama-3.1-8b"] = model.model_copy(update={"canary": same})
    known = targets(resolve(plan.platform.model_copy(update={"models": models})))
    assert [key for key in known if key.endswith("/sql")] == [SQL]


def test_a_sample_of_an_adapter_can_be_pushed(run, cloud, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("sample", "sql", "--adapter")
    assert (code, out) == (0, "sql: 2 files\n")
    assert run("push", "sql", "--stack", "prod", "--model", SQL)[0] == ExitCode.OK


def test_weights_are_pushed_to_a_folder_without_a_stack(run, cloud, model):
    uri = f"gs://{PROD[0]}/chat/llama"
    code, out, err = run("push", str(model), "--to", uri)
    assert (code, err) == (0, "")
    version = json.loads(cloud.objects[PROD[0]]["chat/llama/_CURRENT.json"]["content"])["version"]
    assert out.splitlines()[-1] == f"{uri}: version {version} is current"
    assert f"chat/llama/{version}/_MANIFEST.json" in cloud.objects[PROD[0]]
    assert not cloud.objects[PROD[1]]


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ("--to gs://acme", "--to: must be gs://BUCKET/FOLDER without a version, got 'gs://acme'"),
        (
            "--to gs://acme/a@v1",
            "--to: must be gs://BUCKET/FOLDER without a version, got 'gs://acme/a@v1'",
        ),
        ("--to gs://acme/a --stack prod", "--stack: must be omitted with --to, got 'prod'"),
        ("--to gs://acme/a --model x", "--model: must be omitted with --to, got 'x'"),
        ("--to gs://acme/a --direct", "--direct: must not be used with --to, which has no stack"),
        ("--model llama-3.1-8b", "--stack: is required without --to"),
        ("--stack prod", "--model: is required without --to"),
    ],
)
def test_a_push_needs_a_stack_and_a_model_or_a_folder(run, model, words, refusal):
    code, out, err = run("push", str(model), *words.split())
    assert (code, out, " ".join(err.split())) == (ExitCode.ERROR, "", f"error: {refusal}")
