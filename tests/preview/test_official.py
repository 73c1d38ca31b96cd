"""Which plugins the real engine runs, with stand-ins for official ones in a Pulumi home."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from policies.framework.reading import CLUSTER
from scripts.shared.engine import Engine
from scripts.verdicts.checkouts import Checkout
from scripts.verdicts.runs import compare, runner
from twin import daemon
from twin.host.paths import REPOSITORY, TwinPaths
from twin.pulumi.official import find_official

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(600)]
PROGRAM = (str(Path(sys.executable).with_name("gke-inference")),)
HOST = "pulumi-language-python"
ALL = ["gcp", "kubernetes", HOST]


def stand_in(file, name, marks, module):
    """Write a program that leaves a mark when it is started, and does what a module does."""
    file.parent.mkdir(parents=True)
    file.write_text(
        f"#!/bin/sh\ntouch '{marks}/{name}'\n"
        f"PYTHONPATH='{REPOSITORY}' exec '{sys.executable}' -m {module} \"$@\"\n"
    )
    file.chmod(0o755)


_TOTAL = yaml.safe_load((REPOSITORY / "tests/golden/resources/local.yaml").read_text())["total"]
TO_CREATE = f"+ {_TOTAL + 1} to create"  # with the stack itself


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    """A user who has Pulumi installed: its home is on PATH, and has the host and two providers."""
    folder = tmp_path_factory.mktemp("official")
    home, marks, paths = folder / "home", folder / "marks", TwinPaths(folder / "twin")
    marks.mkdir()
    stand_in(home / "bin" / HOST, HOST, marks, "twin.pulumi.language_host")
    for name in ("gcp", "kubernetes"):
        plugin = home / "plugins" / f"resource-{name}-v{version(f'pulumi-{name}')}"
        module = f"tests.preview.stand_in_provider {name}"
        stand_in(plugin / f"pulumi-resource-{name}", name, marks, module)
    environment = {
        **os.environ,
        "GKE_INFERENCE_TWIN_DIR": str(paths.root),
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        "PULUMI_HOME": str(home),
    }

    def started():
        """Return the stand-ins that were started since this was asked last."""
        names = sorted(mark.name for mark in marks.iterdir())
        for name in names:
            (marks / name).unlink()
        return names

    def run(*arguments):
        """Return what a command printed."""
        answer = subprocess.run(
            [*PROGRAM, *arguments],
            cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer.stdout + answer.stderr

    yield SimpleNamespace(run=run, started=started, paths=paths, environment=environment)
    daemon.shut_down(paths)


SMALL = f"""
import pulumi

for kind, name, inputs, version in (
    ("gcp:storage/bucket:Bucket", "bucket", {{"location": "US"}}, "{version("pulumi-gcp")}"),
    ("kubernetes:core/v1:Namespace", "namespace", {{}}, "{version("pulumi-kubernetes")}"),
):
    pulumi.CustomResource(kind, name, inputs, pulumi.ResourceOptions(version=version))
"""
"""A program with a resource of each provider, which loads no SDK."""


def test_an_engine_with_the_official_plugins_runs_those_and_warns_about_none(
    user, monkeypatch, tmp_path
):
    for name in ("PATH", "PULUMI_HOME"):
        monkeypatch.setenv(name, user.environment[name])
    engine = Engine(user.paths, official=find_official(user.paths, ("kubernetes", "gcp")))
    options = {"toolchain": "pip", "virtualenv": str(REPOSITORY / ".venv")}
    about = {"name": "small", "runtime": {"name": "python", "options": options}}
    (tmp_path / "Pulumi.yaml").write_text(yaml.safe_dump(about))
    (tmp_path / "__main__.py").write_text(SMALL)
    place = {"capture": True, "project": tmp_path}
    assert engine.run("stack", "init", "small", "--non-interactive", **place).returncode == 0
    answer = engine.run("preview", "-s", "small", "--non-interactive", **place)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "+ 3 to create" in answer.stdout
    assert "using pulumi-" not in answer.stdout + answer.stderr
    assert user.started() == ALL


# the test above is the short form; every other preview of this folder attaches the twin's own
@pytest.mark.soak
@pytest.mark.parametrize(("options", "attached"), [([], []), (["--official"], ALL)])
def test_a_run_attaches_the_twins_own_and_with_official_what_is_installed(user, options, attached):
    text = user.run("preview", "--stack", "local", *options)
    assert TO_CREATE in text
    assert "using pulumi-" not in text  # a warning about a plugin from somewhere else
    assert user.started() == attached


@pytest.mark.soak  # tests/unit has what `env` prints; the test above runs the same plugins
def test_an_environment_for_plain_pulumi_keeps_the_gcp_provider_of_the_twin(user):
    exports = subprocess.run(
        [*PROGRAM, "env", "--official"],
        cwd=REPOSITORY, env=user.environment, stdout=subprocess.PIPE, text=True, check=True,
    ).stdout  # fmt: skip
    ports = daemon.ports(user.paths)
    assert ports is not None
    assert f"export PULUMI_DEBUG_PROVIDERS=gcp:{ports['gcp']}\n" in exports
    script = 'eval "$1"; exec pulumi preview -s local --non-interactive'
    answer = subprocess.run(
        ["bash", "-c", script, "bash", exports],
        cwd=REPOSITORY, env=user.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert TO_CREATE in answer.stdout
    assert user.started() == ["kubernetes", HOST]


@pytest.mark.soak  # test_verdict.py has a verdict with the twin's own host
def test_a_verdict_runs_programs_with_the_language_host_that_is_installed(user, monkeypatch):
    for name in ("PATH", "PULUMI_HOME"):
        monkeypatch.setenv(name, user.environment[name])
    with runner(find_official(user.paths, ())) as cli:
        found = compare(cli, "local", None, Checkout("head", REPOSITORY))
    assert sum(each["type"] == CLUSTER for each in found.after) == 1
    assert user.started() == [HOST]
