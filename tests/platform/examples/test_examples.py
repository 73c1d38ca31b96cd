"""The examples, run as their README says: from the checkout, from the wheel, and over the wire."""

import json
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
from tests.shipped_stacks import EXAMPLES
from twin.host.paths import REPOSITORY
from twin.providers.gcp.effects import gcs
from workloads.transfer.versions import Home

pytestmark = pytest.mark.needs_tools

MODEL = "llama-3.1-8b"
READY_SECONDS = 240
SETTINGS = {"project": "acme-demo-1", "projectNumber": "314159265358", "port": "8080"}


def copied(name: str, folder: Path, environment: Path = REPOSITORY / ".venv") -> Path:
    """A checkout of its own with one example, as a user has it three folders down."""
    project = folder / "docs" / "examples" / name
    shutil.copytree(EXAMPLES / name, project)
    (folder / "components").symlink_to(REPOSITORY / "components")
    (project / "venv").symlink_to(environment)
    return project


def pulumi(engine: Engine, project: Path, *arguments: str) -> str:
    ran = engine.run(*arguments, "--non-interactive", capture=True, project=project)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def prepare(engine: Engine, project: Path) -> None:
    pulumi(engine, project, "stack", "init", "demo")
    settings = (f"--plaintext={name}={value}" for name, value in SETTINGS.items())
    pulumi(engine, project, "config", "set-all", *settings)


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
def test_the_import_example_ends_with_a_model_that_answers(engine, own_environment, tmp_path):
    project = of_its_own(own_environment, tmp_path)
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


@pytest.mark.soak  # tests/contract/components_gcp/test_plugin.py has a broken rule over the wire
def test_a_flag_that_the_platform_owns_is_refused_over_the_wire(engine, tmp_path):
    project = copied("plugin-over-the-wire", tmp_path)
    program = project / "__main__.py"
    program.write_text(program.read_text().replace("max-num-batched-tokens", "port"))
    engine.run("stack", "init", "wrong", "--non-interactive", capture=True, project=project)
    pulumi(engine, project, "config", "set", "project", "acme-demo-1", "-s", "wrong")
    ran = engine.run("preview", "-s", "wrong", "--non-interactive", capture=True, project=project)
    assert ran.returncode != 0
    said = ran.stdout + ran.stderr
    assert "settings.engineArgs.port" in said
    assert "must not be set: the platform owns it" in said


def built(source: Path, folder: Path) -> Path:
    """Return the wheel of a package."""
    uv = shutil.which("uv") or str(REPOSITORY / ".venv" / "bin" / "uv")
    build = [uv, "build", "--offline", "-q", "-o", str(folder), str(source)]
    subprocess.run(build, check=True)
    (wheel,) = folder.glob("*.whl")
    assert list(folder.glob("*.tar.gz"))  # the wheel was built from it
    return wheel


@pytest.fixture(scope="module")
def own_environment(tmp_path_factory):
    """An environment with the wheel of the components, and a package of the program's own."""
    folder = tmp_path_factory.mktemp("own")
    uv = shutil.which("uv") or str(REPOSITORY / ".venv" / "bin" / "uv")
    house = folder / "house"
    house.mkdir()
    (house / "house_names.py").write_text('TEAM = "search"\n')
    (house / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "house-names"\nversion = "1"\n'
        '[tool.hatch.build.targets.wheel]\ninclude = ["house_names.py"]\n'
    )
    wheels = [
        str(built(REPOSITORY / "components", folder / "components-dist")),
        str(built(house, folder / "house-dist")),
    ]
    python = folder / "venv" / "bin" / "python"
    subprocess.run([uv, "venv", "-q", "--python", "3.11", str(folder / "venv")], check=True)
    lock = str(REPOSITORY / "requirements.lock")
    install = [uv, "pip", "install", "-q", "--python", str(python), "-c", lock, *wheels]
    subprocess.run(install, check=True)
    return folder / "venv"


OF_ITS_OWN = """
import json, sys
from pathlib import Path
import gke_inference, house_names
seen = {"components": gke_inference.__file__, "python": sys.prefix, "team": house_names.TEAM}
Path("seen.json").write_text(json.dumps(seen))
"""
"""What a program prints about its environment; it imports a package that no other one has."""


def of_its_own(environment: Path, folder: Path) -> Path:
    """Return the example with a package of its own, in an environment of its own."""
    project = copied("import-components", folder, environment)
    program = project / "__main__.py"
    program.write_text(f"{program.read_text()}{OF_ITS_OWN}")
    return project


def test_a_program_runs_with_the_packages_of_the_environment_that_its_project_names(
    engine, own_environment, tmp_path
):
    project = of_its_own(own_environment, tmp_path)
    prepare(engine, project)
    shown = json.loads(pulumi(engine, project, "preview", "--json"))
    kinds = {step["urn"].split("::")[2].rpartition("$")[2] for step in shown["steps"]}
    assert {"gke-inference:index:ModelServer", "kubernetes:apps/v1:Deployment"} <= kinds
    seen = json.loads((project / "seen.json").read_text())
    assert Path(seen["python"]).resolve() == own_environment.resolve()
    assert Path(seen["components"]).resolve().is_relative_to(own_environment.resolve())
    assert seen["team"] == "search"


@pytest.mark.soak  # twin/tests/unit/host/test_user_programs.py has the message
def test_a_program_whose_environment_does_not_exist_is_refused_in_one_line(engine, tmp_path):
    project = copied("import-components", tmp_path)
    (project / "venv").unlink()
    engine.run("stack", "init", "none", "--non-interactive", capture=True, project=project)
    ran = engine.run("preview", "-s", "none", "--non-interactive", capture=True, project=project)
    assert ran.returncode != 0
    *_, line = [line.strip() for line in ran.stdout.splitlines() if "virtualenv" in line]
    assert line == (
        "error: runtime.options.virtualenv: must be a virtual environment, there is no "
        f"{project}/venv/bin/python; run pulumi install"
    )
    assert "Traceback" not in ran.stdout + ran.stderr
