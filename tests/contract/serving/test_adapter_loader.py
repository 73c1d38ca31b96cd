"""The loader beside an engine: what it loads, what it leaves, and what it says."""

import json
import shutil
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from gke_inference.serving import adapter_loader
from gke_inference.serving.adapter_loader import Engine, Loader, message_of, problem_of
from twin.engines.real.tiny_model import write_adapter


class FakeEngine(Engine):
    """An engine that remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:1")
        self.names = {"base"}
        self.asked: list[tuple[str, str]] = []
        self.warmed: list[str] = []
        self.refusal = ""
        self.is_up = True

    def loaded(self) -> set[str]:
        if not self.is_up:
            raise urllib.error.URLError("refused")
        return set(self.names)

    def warm(self, name: str) -> None:
        self.warmed.append(name)

    def post(self, action: str, **fields: str) -> str:
        name = fields["lora_name"]
        self.asked.append((action, name))
        if self.refusal:
            return self.refusal
        (self.names.add if action == "load" else self.names.discard)(name)
        return ""


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def loader(engine: FakeEngine, tmp_path: Path) -> Loader:
    return Loader(str(tmp_path / "bucket"), engine, ["base"])


def test_a_bucket_without_adapters_settles_at_once(loader: Loader):
    loader.sync()
    assert loader.is_settled
    assert loader.loaded == set()


def test_what_is_uploaded_is_loaded_and_what_is_removed_is_unloaded(
    loader: Loader, engine: FakeEngine, tmp_path: Path
):
    loader.sync()
    folder = write_adapter(tmp_path / "bucket" / "new")
    loader.sync()
    loader.sync()
    assert engine.asked == [("load", "new")]
    assert loader.loaded == {"new"}
    shutil.rmtree(folder)
    loader.sync()
    assert engine.asked[-1] == ("unload", "new")
    assert loader.loaded == set()


@pytest.mark.parametrize("missing", ["adapter_config.json", "adapter_model.safetensors"])
def test_an_upload_that_is_under_way_is_left_alone(
    missing: str, loader: Loader, engine: FakeEngine, tmp_path: Path
):
    folder = write_adapter(tmp_path / "bucket" / "new")
    (folder / missing).unlink()
    loader.sync()
    assert (engine.asked, loader.failed) == ([], {})


def test_an_engine_that_starts_again_gets_its_adapters_again(
    loader: Loader, engine: FakeEngine, tmp_path: Path
):
    write_adapter(tmp_path / "bucket" / "new")
    loader.sync()
    engine.names = {"base"}
    loader._tried.clear()  # a minute later
    loader.sync()
    assert engine.asked == [("load", "new"), ("load", "new")]


def test_one_adapter_is_asked_once_so_that_the_picker_knows_the_replicas_room(
    loader: Loader, engine: FakeEngine, tmp_path: Path
):
    for name in ("a", "b"):
        write_adapter(tmp_path / "bucket" / name)
    loader.sync()
    loader.sync()
    assert engine.warmed == ["a"]
    engine.names = {"base"}  # it was started again
    loader._tried.clear()
    loader.sync()
    assert engine.warmed == ["a", "a"]


def test_an_adapter_of_the_stack_is_asked_once_for_each_start_of_the_engine(engine: FakeEngine):
    engine.names |= {"sql", "law"}
    loader = Loader("", engine, ["base", "sql", "law"], ("law", "sql"))
    loader.sync()
    loader.sync()
    assert (engine.warmed, loader.is_settled, loader.loaded) == (["law"], True, set())
    engine.is_up = False
    loader.sync()
    engine.is_up = True
    loader.sync()
    assert engine.warmed == ["law", "law"]


def test_what_is_uploaded_need_not_be_asked_where_an_adapter_of_the_stack_was(
    engine: FakeEngine, tmp_path: Path
):
    engine.names.add("sql")
    write_adapter(tmp_path / "new")
    Loader(str(tmp_path), engine, ["base", "sql"], ("sql",)).sync()
    assert (engine.warmed, engine.asked) == (["sql"], [("load", "new")])


def test_no_replica_is_ready_before_its_engine_is_up(loader: Loader, engine: FakeEngine):
    engine.is_up = False
    loader.sync()
    assert not loader.is_settled
    engine.is_up = True
    loader.sync()
    assert loader.is_settled


def test_what_cannot_be_loaded_is_told_and_tried_again_when_its_files_change(
    loader: Loader, engine: FakeEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = write_adapter(tmp_path / "bucket" / "big", rank=64)
    engine.refusal = "LoRA rank 64 is greater than max_lora_rank 16."
    loader.sync()
    loader.sync()
    assert loader.failed == {"big": engine.refusal}
    assert len(engine.asked) == 1
    said = json.loads(capsys.readouterr().out.splitlines()[0])
    assert said == {
        "severity": "ERROR",
        "message": "adapter big: LoRA rank 64 is greater than max_lora_rank 16.",
        "adapter": "big",
    }
    shutil.rmtree(folder)
    write_adapter(folder, rank=4)
    engine.refusal = ""
    loader.sync()
    assert (loader.loaded, loader.failed) == ({"big"}, {})


def test_a_failure_is_forgotten_with_its_folder(loader: Loader, engine: FakeEngine, tmp_path: Path):
    folder = write_adapter(tmp_path / "bucket" / "bad")
    engine.refusal = "corrupt"
    loader.sync()
    shutil.rmtree(folder)
    loader.sync()
    assert loader.failed == {}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("base", "must not have the name of a model"),
        ("Upper", "must have a name of"),
        ("x" * 41, "must have a name of"),
        ("a b", "must have a name of"),
        (".hidden", "must have a name of"),
    ],
)
def test_names_that_cannot_be_served_are_refused_before_the_engine_is_asked(
    name: str, words: str, loader: Loader, engine: FakeEngine, tmp_path: Path
):
    write_adapter(tmp_path / "bucket" / name)
    loader.sync()
    assert words in loader.failed[name]
    assert engine.asked == []
    assert problem_of("sql-v2.1_a", ["base"]) == ""


def test_the_message_of_an_error_is_read_or_shown_as_it_is():
    assert message_of(b'{"error": {"message": "no"}}') == "no"
    assert message_of(b"oops") == "oops"


def test_readiness_and_a_list_are_served(loader: Loader, engine: FakeEngine, tmp_path: Path):
    write_adapter(tmp_path / "bucket" / "new")
    server = adapter_loader.serve(loader, "127.0.0.1", 0)
    base = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(base + "/ready", timeout=5)  # noqa: S310 - this test's own
        assert refused.value.code == 503
        refused.value.close()
        loader.sync()
        with urllib.request.urlopen(base + "/ready", timeout=5) as answer:  # noqa: S310
            assert json.load(answer) == {"loaded": ["new"], "failed": {}}
    finally:
        server.shutdown()
        server.server_close()
