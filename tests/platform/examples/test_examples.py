"""The examples, run as their README says: from the checkout, from the wheel, and over the wire."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import openai
import pytest

from scripts.operate.ask import stream_chat
from scripts.operate.sample_weights import push_sample
from scripts.shared.engine import Engine
from scripts.terminal.console import CommandError
from twin import daemon
from twin.host import processes
from twin.host.paths import REPOSITORY, TwinPaths
from twin.providers.gcp.effects import gcs
from workloads.transfer.versions import Home

pytestmark = pytest.mark.needs_tools

EXAMPLES = REPOSITORY / "docs" / "examples"
MODEL = "llama-3.1-8b"
READY_SECONDS = 240
SETTINGS = {"project": "acme-demo-1", "projectNumber": "314159265358", "port": "8080"}


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    paths = TwinPaths(tmp_path_factory.mktemp("examples") / "twin")
    yield Engine(paths)
    daemon.shut_down(paths)
    assert processes.running(paths) == {}


def copied(name: str, folder: Path) -> Path:
    """A checkout of its own with one example, as a user has it three folders down."""
    project = folder / "docs" / "examples" / name
    shutil.copytree(EXAMPLES / name, project)
    (folder / "components").symlink_to(REPOSITORY / "components")
    return project


def pulumi(engine: Engine, project: Path, *arguments: str) -> str:
    ran = engine.run(*arguments, "--non-interactive", capture=True, project=project)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def prepare(engine: Engine, project: Path) -> None:
    pulumi(engine, project, "stack", "init", "demo")
    for name, value in SETTINGS.items():
        pulumi(engine, project, "config", "set", name, value)


def first_answer(endpoint: str) -> str:
    until = time.monotonic() + READY_SECONDS
    while True:
        try:
            return stream_chat(endpoint, MODEL, "Hello").text
        except (CommandError, openai.OpenAIError, OSError):
            if time.monotonic() > until:
                raise
            time.sleep(1)


@pytest.mark.soak  # the tests below preview both examples, whole/ has a model that answers
def test_the_import_example_ends_with_a_model_that_answers(engine, tmp_path):
    project = copied("import-components", tmp_path)
    prepare(engine, project)
    try:
        pulumi(engine, project, "up", "--yes", "--skip-preview")
        outputs = json.loads(pulumi(engine, project, "stack", "output", "--json"))
        assert outputs["cluster"] == "demo-us-central1"
        push_sample(engine.paths, Home("acme-demo-1-weights", MODEL))
        assert first_answer(outputs["endpoint"]).strip()
    finally:
        bucket = "acme-demo-1-weights"  # one that holds weights is not deleted
        for each in list(gcs.objects(engine.paths, bucket)):
            gcs.delete_object(engine.paths, bucket, str(each["name"]))
        pulumi(engine, project, "destroy", "--yes", "--skip-preview")


def test_the_plugin_builds_over_the_wire_what_another_language_asks_for(engine, tmp_path):
    project = copied("plugin-over-the-wire", tmp_path)
    prepare(engine, project)
    shown = json.loads(pulumi(engine, project, "preview", "--json"))
    made = {step["urn"].split("::")[2]: step.get("newState", {}) for step in shown["steps"]}
    deployment = next(state for kind, state in made.items() if kind.endswith(":Deployment"))
    container = deployment["inputs"]["spec"]["template"]["spec"]["containers"][0]
    assert "--max-model-len=8192" in container["args"]
    assert container["args"][-1] == "--max-num-batched-tokens=4096"
    bucket = next(state for kind, state in made.items() if kind.endswith("bucket:Bucket"))
    assert bucket["inputs"]["name"] == "acme-demo-1-weights"


def test_a_flag_that_the_platform_owns_is_refused_over_the_wire(engine, tmp_path):
    project = copied("plugin-over-the-wire", tmp_path)
    program = project / "__main__.py"
    program.write_text(program.read_text().replace("max-num-batched-tokens", "port"))
    engine.run("stack", "init", "wrong", "--non-interactive", capture=True, project=project)
    pulumi(engine, project, "config", "set", "project", "acme-demo-1", "-s", "wrong")
    ran = engine.run("preview", "-s", "wrong", "--non-interactive", capture=True, project=project)
    assert ran.returncode != 0
    said = ran.stdout + ran.stderr
    assert "engineArgs.port" in said
    assert "must not be set: the platform owns it" in said


PREVIEW = """
import json, os, runpy, sys
from pulumi import automation as auto
stack = auto.create_or_select_stack(
    stack_name="wheel",
    project_name="import-components",
    program=lambda: runpy.run_path(sys.argv[1]),
    opts=auto.LocalWorkspaceOptions(work_dir=sys.argv[2]),
)
for name, value in json.loads(sys.argv[3]).items():
    stack.set_config(name, auto.ConfigValue(value))
kinds = []
def seen(event):
    if event.resource_pre_event is not None:
        kinds.append(event.resource_pre_event.metadata.type)
stack.preview(on_event=seen)
import gke_inference
print(json.dumps({"from": gke_inference.__file__, "kinds": sorted(kinds)}))
"""


def test_the_wheel_alone_in_an_empty_environment_previews_the_example(engine, tmp_path):
    uv = shutil.which("uv") or str(REPOSITORY / ".venv" / "bin" / "uv")
    subprocess.run(
        [
            uv,
            "build",
            "--offline",
            "-q",
            "-o",
            str(tmp_path / "dist"),
            str(REPOSITORY / "components"),
        ],
        check=True,
    )
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert list((tmp_path / "dist").glob("*.tar.gz"))  # the wheel was built from it
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([uv, "venv", "-q", "--python", "3.11", str(tmp_path / "venv")], check=True)
    lock = str(REPOSITORY / "requirements.lock")
    install = [uv, "pip", "install", "-q", "--python", str(python), "-c", lock, str(wheel)]
    subprocess.run(install, check=True)
    work = tmp_path / "work"
    work.mkdir()
    environment = {
        **os.environ,
        **engine.environment,
        "PULUMI_AUTOMATION_API_SKIP_VERSION_CHECK": "1",
    }
    environment.pop("PYTHONPATH", None)
    program = EXAMPLES / "import-components" / "__main__.py"
    ran = subprocess.run(
        [str(python), "-c", PREVIEW, str(program), str(work), json.dumps(SETTINGS)],
        env=environment,
        cwd=work,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["from"].startswith(str(tmp_path / "venv"))
    assert "gke-inference:index:ModelServer" in found["kinds"]
    assert "kubernetes:apps/v1:Deployment" in found["kinds"]
