"""Jobs without LLM Compressor and PEFT: the checks of the real ones, and files that others read."""

import json

import pytest

from simulator.optimization import compress, train
from tests.unit.models import strict_storage
from twin.engines.real.tiny_model import write_model
from workloads.engine.weights_manifest import Manifest, version_of
from workloads.optimization.main import main
from workloads.transfer.pull import pull
from workloads.transfer.push import push
from workloads.transfer.source import hash_files, scan
from workloads.transfer.store import Store
from workloads.transfer.versions import Home, now, read_current, read_manifest, set_current
from workloads.transfer.work import Crew, Silent

BUCKET = "models"
QUANTIZE = {"model": "chat", "result": "chat-w8a8", "scheme": "w8a8", "data": "d.jsonl"}
TUNE = {"model": "chat", "result": "chat/adapters/a", "data": "d.jsonl", "rank": 16, "alpha": 64}


class Bucket:
    """A bucket with a model and data, and runs of jobs on it."""

    def __init__(self, folder, url):
        self.folder, self.store = folder, Store(None, endpoint=url)
        self.put("chat", write_model(folder / "chat"))
        empty = folder / "empty"
        empty.mkdir()
        (empty / "config.json").write_text("{}")
        self.put("empty", empty)
        self.store.write(BUCKET, "d.jsonl", json.dumps({"text": "a"}) + "\n", generation=0)
        self.store.write(BUCKET, "bad.jsonl", "{}\n", generation=0)

    def put(self, name, source):
        files, crew = scan(source), Crew(2)
        entries = tuple(hash_files(files, crew, Silent()))
        manifest, home = Manifest(name, version_of(entries), now(), entries), Home(BUCKET, name)
        push(self.store, [home], files, manifest, crew, Silent())
        set_current(self.store, home, manifest.version)

    def run(self, role, work, **settings):
        file = work / "settings.json"
        file.write_text(json.dumps({"bucket": BUCKET, "work": str(work / "work"), **settings}))
        return main([role, str(file)], compress, train)

    def get(self, name, folder):
        home = Home(BUCKET, name)
        version = read_current(self.store, home)
        assert version is not None
        manifest = read_manifest(self.store, home, version)
        assert manifest is not None
        pull(self.store, home, manifest, folder, Crew(2), Silent())
        return folder


@pytest.fixture(scope="module")
def bucket(tmp_path_factory):
    with strict_storage.serving(strict_storage.Cloud(BUCKET)) as url:
        made = Bucket(tmp_path_factory.mktemp("models"), url)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("STORAGE_EMULATOR_HOST", url)
            yield made


def test_a_quantized_model_names_its_format_and_its_source(bucket, tmp_path):
    assert bucket.run("quantize", tmp_path, **QUANTIZE) == 0
    found = bucket.get("chat-w8a8", tmp_path / "got")
    config = json.loads((found / "config.json").read_text())["quantization_config"]
    assert config["quant_method"] == "compressed-tensors"
    assert config["config_groups"]["group_0"]["weights"] == {"num_bits": 8, "type": "int"}
    record = json.loads((found / "gke_inference_optimization.json").read_text())
    assert (record["simulated"], record["samples"], record["scheme"]) == (True, 1, "w8a8")
    assert record["model"].startswith("chat@")
    assert (found / "model.safetensors").stat().st_size > 0


def test_an_adapter_has_the_rank_of_its_settings(bucket, tmp_path):
    assert bucket.run("tune", tmp_path, **TUNE) == 0
    found = bucket.get("chat/adapters/a", tmp_path / "got")
    config = json.loads((found / "adapter_config.json").read_text())
    assert (config["peft_type"], config["r"], config["lora_alpha"]) == ("LORA", 16, 64)


@pytest.mark.parametrize(
    ("role", "settings", "code", "message"),
    [
        ("quantize", {**QUANTIZE, "scheme": "int3"}, 2, "scheme: must be one of"),
        ("quantize", {**QUANTIZE, "bits": 4}, 2, "bits"),
        ("tune", {**TUNE, "rank": 12}, 2, "rank: must be one of"),
        ("tune", {**TUNE, "data": "no.jsonl"}, 1, "data: must be an object of the bucket"),
        ("tune", {**TUNE, "data": "bad.jsonl"}, 1, "line 1: must be an object with"),
        ("quantize", {**QUANTIZE, "model": "none"}, 1, "model: must be complete in"),
        ("quantize", {**QUANTIZE, "model": "empty"}, 1, "must have 'model_type' in config.json"),
        ("quantise", QUANTIZE, 2, "arguments: must be one of evaluate, quantize, tune"),
    ],
)
def test_what_the_real_job_refuses_fails_in_the_same_way(
    bucket, tmp_path, capsys, role, settings, code, message
):
    assert bucket.run(role, tmp_path, **settings) == code
    assert message in capsys.readouterr().err
