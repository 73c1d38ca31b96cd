"""The plugin archive of a release, installed by the Pulumi CLI and used outside of the checkout."""

import json
import re
import shutil
import subprocess

import pytest

from gke_inference.plugin import NAME, VERSION
from scripts.release.packages import program_of
from scripts.release.plugin_archive import write_archive
from scripts.shared.engine import Engine
from tests.shipped_stacks import EXAMPLES
from twin import daemon
from twin.host import processes
from twin.host.paths import REPOSITORY, TwinPaths

pytestmark = [
    pytest.mark.needs_tools,
    # installs the SDKs of both providers; tests/unit/release/test_release.py has the files of the
    # archive, and twin/tests/unit/host/test_user_programs.py how a plugin is installed
    pytest.mark.soak,
    pytest.mark.timeout(900),
]
FINDS_COMPONENTS = """
import importlib.util, pathlib
found = importlib.util.find_spec("gke_inference")
pathlib.Path("found.txt").write_text(str(found))
"""
"""What the program writes about the package, which only the plugin's environment has."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("archive")


@pytest.fixture(scope="module")
def engine(folder):
    paths = TwinPaths(folder / "twin")
    yield Engine(paths)
    daemon.shut_down(paths)
    assert processes.running(paths) == {}


@pytest.fixture(scope="module")
def constraints(folder):
    """The versions of the lock, without hashes: pip would then want one of the archive as well."""
    pinned = re.findall(r"^[\w.-]+==[^ \\]+", (REPOSITORY / "requirements.lock").read_text(), re.M)
    file = folder / "constraints.txt"
    file.write_text("\n".join(pinned))
    return file


@pytest.fixture(scope="module")
def home(folder):
    """A Pulumi home without any plugin."""
    empty = folder / "home"
    empty.mkdir()
    return empty


@pytest.fixture(scope="module")
def project(folder, constraints):
    """The example, outside of a checkout, in an environment that has only Pulumi's SDK."""
    project = folder / "project"
    project.mkdir()
    shutil.copy(EXAMPLES / "plugin-over-the-wire" / "__main__.py", project)
    with (project / "__main__.py").open("a") as program:
        program.write(FINDS_COMPONENTS)
    runtime = "runtime: {name: python, options: {virtualenv: venv}}"
    (project / "Pulumi.yaml").write_text(f"name: mine\n{runtime}\n")
    uv, python = program_of("uv"), project / "venv" / "bin" / "python"
    subprocess.run([uv, "venv", "-q", str(project / "venv")], check=True)
    install = [uv, "pip", "install", "-q", "--python", str(python), "-c", str(constraints)]
    subprocess.run([*install, "pulumi"], check=True)
    return project


@pytest.fixture
def pulumi(engine, home, project, constraints):
    """Run the CLI in the project, with the home."""
    variables = {"PULUMI_HOME": str(home), "PIP_CONSTRAINT": str(constraints)}

    def run(*arguments):
        return engine.run(
            *arguments, "--non-interactive", capture=True, environment=variables, project=project
        )

    return run


def shown(ran):
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_installed_archive_builds_what_a_program_outside_of_the_checkout_asks_for(
    pulumi, project, folder
):
    shown(pulumi("stack", "init", "demo"))
    shown(pulumi("config", "set", "project", "acme-demo-1"))
    refused = pulumi("preview")
    assert refused.returncode != 0
    assert NAME in refused.stdout + refused.stderr

    archive = write_archive(REPOSITORY / "components", folder, 1_700_000_000)
    shown(pulumi("plugin", "install", "resource", NAME, VERSION, "--file", str(archive)))
    [installed] = json.loads(shown(pulumi("plugin", "ls", "--json")))
    assert (installed["name"], installed["version"]) == (NAME, VERSION)

    steps = json.loads(shown(pulumi("preview", "--json")))["steps"]
    made = {step["urn"].split("::")[2]: step.get("newState", {}) for step in steps}
    [deployment] = [state for kind, state in made.items() if kind.endswith(":Deployment")]
    [container] = deployment["inputs"]["spec"]["template"]["spec"]["containers"]
    assert "--max-model-len=8192" in container["args"]
    [launcher] = [state for kind, state in made.items() if kind.endswith(":ConfigMap")]
    programs = launcher["inputs"]["data"]
    assert programs["main.py"] == (REPOSITORY / "workloads" / "engine" / "main.py").read_text()
    assert (project / "found.txt").read_text() == "None"
