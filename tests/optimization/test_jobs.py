"""The programs of jobs against a bucket and a chat endpoint, with the real libraries.

Short forms: tests/unit/optimization has settings, samples, scores and uploads.
"""

import json
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from tests.unit.models import strict_storage
from twin.engines.optimization import EVALUATION, OPTIMIZATION, environment
from twin.engines.real.tiny_model import write_model
from twin.host.paths import REPOSITORY
from twin.host.ports import free_port
from workloads.engine.weights_manifest import Manifest, version_of
from workloads.optimization.scores import Result
from workloads.transfer.pull import pull
from workloads.transfer.push import push
from workloads.transfer.source import hash_files, scan
from workloads.transfer.store import Store
from workloads.transfer.versions import Home, now, read_current, read_manifest, set_current
from workloads.transfer.work import Crew, Silent

# two minutes on two idle cores
pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.needs_optimization]

BUCKET = "models"
QUESTIONS = {
    "Which city is the capital of France?": "Paris",
    "What is two plus two?": "four",
}


class World:
    """A bucket with the tiny model in it, and the folders of jobs."""

    def __init__(self, folder, url):
        self.folder, self.url = folder, url
        self.store = Store(None, endpoint=url)
        self.put("tiny", write_model(folder / "tiny"))

    def put(self, name, source):
        files, crew = scan(source), Crew(2)
        entries = tuple(hash_files(files, crew, Silent()))
        manifest, home = Manifest(name, version_of(entries), now(), entries), Home(BUCKET, name)
        push(self.store, [home], files, manifest, crew, Silent())
        set_current(self.store, home, manifest.version)

    def data(self, name, rows):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        self.store.write(BUCKET, name, text, generation=0)
        return name

    def run(self, python, role, **settings):
        work = self.folder / role / str(len(list(self.folder.iterdir())))
        work.mkdir(parents=True)
        file = work / "settings.json"
        file.write_text(json.dumps({"bucket": BUCKET, "work": str(work), **settings}))
        variables = environment(
            {"HF_HOME": str(work), "HOME": str(work), "STORAGE_EMULATOR_HOST": self.url}
        )
        return subprocess.run(
            [python, "-m", "workloads.optimization", role, str(file)],
            capture_output=True, check=False, cwd=REPOSITORY, env=variables, text=True,
        )  # fmt: skip

    def get(self, name):
        home = Home(BUCKET, name)
        version = read_current(self.store, home)
        assert version is not None, f"{name} has no version"
        manifest = read_manifest(self.store, home, version)
        assert manifest is not None, f"{name} has no manifest of {version}"
        target = self.folder / "got" / name
        pull(self.store, home, manifest, target, Crew(2), Silent())
        return target


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with strict_storage.serving(strict_storage.Cloud(BUCKET)) as url:
        yield World(tmp_path_factory.mktemp("optimization"), url)


@pytest.fixture(scope="module")
def adapter(world):
    """The folder of an adapter that has learned the answers."""
    # as the template of the tiny model is rendered: Jinja drops its last line break
    pairs = [
        {"prompt": f"<user>\n{asked}\n<assistant>", "completion": answer}
        for asked, answer in QUESTIONS.items()
    ]
    data = world.data("train.jsonl", pairs)
    done = world.run(
        OPTIMIZATION.python(), "tune", model="tiny", result="tiny/adapters/facts", data=data,
        rank=16, alpha=32, epochs=40, batch=2, learning_rate=0.003, tokens=128,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return world.get("tiny/adapters/facts")


@pytest.fixture(scope="module")
def quantized(world):
    """The folder of the model in 8-bit integers."""
    rows = [{"text": f"The quick brown fox jumps over the lazy dog {at}."} for at in range(4)]
    data = world.data("calibration.jsonl", rows)
    done = world.run(
        OPTIMIZATION.python(), "quantize", model="tiny", result="tiny-w8a8", scheme="w8a8",
        data=data, tokens=64,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return world.get("tiny-w8a8")


def test_a_quantized_model_is_smaller_and_names_its_format(world, quantized):
    config = json.loads((quantized / "config.json").read_text())["quantization_config"]
    assert config["quant_method"] == "compressed-tensors"
    assert config["config_groups"]["group_0"]["weights"]["num_bits"] == 8
    size = (quantized / "model.safetensors").stat().st_size
    assert size < (world.folder / "tiny" / "model.safetensors").stat().st_size
    record = json.loads((quantized / "gke_inference_optimization.json").read_text())
    assert record["scheme"] == "w8a8"
    assert record["model"].startswith("tiny@")


def test_an_adapter_has_the_files_that_vllm_loads(adapter):
    config = json.loads((adapter / "adapter_config.json").read_text())
    assert (config["peft_type"], config["r"]) == ("LORA", 16)
    assert (adapter / "adapter_model.safetensors").exists()


def test_an_evaluation_prefers_the_adapter_that_learned_the_answers(world, adapter, quantized):
    rows = [{"question": asked, "answer": answer} for asked, answer in QUESTIONS.items()]
    data = world.data("questions.jsonl", rows)
    port = free_port()
    tiny = world.folder / "tiny"
    served = [f"tiny={tiny}", f"facts={tiny}+{adapter}", f"tiny/stable={tiny}"]
    served.append(f"tiny/w8a8={quantized}")
    script = REPOSITORY / "tests" / "optimization" / "chat_server.py"
    server = subprocess.Popen(
        [OPTIMIZATION.python(), script, str(port), *served], env=environment(), cwd=REPOSITORY
    )
    try:
        wait_for(port, server)
        common = {"endpoint": f"http://127.0.0.1:{port}", "data": data, "answer_tokens": 8}
        base = {"model": "tiny", "version": "", "weights": "tiny"}
        learned = {"model": "facts", "version": "", "weights": "tiny/adapters/facts"}
        done = world.run(
            EVALUATION.python(), "evaluate", name="facts", candidate=learned, baseline=base,
            tolerance=0, **common,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        score = result_of(world, "facts").scores[0]
        assert (score.baseline, score.candidate, score.questions) == (0.0, 1.0, 2)
        done = world.run(
            EVALUATION.python(), "evaluate", name="canary", tolerance=0.1,
            candidate={**base, "version": "w8a8", "weights": "tiny-w8a8"},
            baseline={**base, "version": "stable"}, **common,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        found = result_of(world, "canary")
        assert found.candidate.weights.startswith("tiny-w8a8@")
        assert not list(found.lost(0.1))
    finally:
        server.terminate()
        server.wait()


def wait_for(port, server):
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        assert server.poll() is None, "the chat endpoint ended"
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5)
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.5)
    raise AssertionError("the chat endpoint did not start")


def result_of(world, name):
    (found,) = world.store.objects(BUCKET, f"evaluations/{name}/")
    return Result.parse(world.store.read(BUCKET, found))
