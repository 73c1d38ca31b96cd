"""Which plugins a run uses: the twin's own, or with `--official` those of this machine."""

import os
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts import main
from scripts.terminal.exit_codes import ExitCode
from twin.host.paths import TwinPaths
from twin.host.processes import process_environment
from twin.pulumi import environment, wrappers
from twin.pulumi.environment import pulumi_environment
from twin.pulumi.official import find_official
from twin.toolchain import ToolError, official

HOST = "pulumi-language-python"
PORTS = {"gcp": 1, "kubernetes": 2}


def program(file, text="#!/bin/sh\n"):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)
    return file


def plugin(home, name, number=None):
    folder = home / "plugins" / f"resource-{name}-v{number or version(f'pulumi-{name}')}"
    (folder / "LICENSE").parent.mkdir(parents=True)
    (folder / "LICENSE").write_text("of the plugin")
    return program(folder / f"pulumi-resource-{name}")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A user with an empty Pulumi home, nothing but the system on PATH, and a built CLI."""
    home, folder = tmp_path / "home", tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PULUMI_HOME", str(home))
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("GKE_INFERENCE_TOOLS", str(tmp_path / "cache"))
    cli = program(tmp_path / "cache" / "pulumi", "#!/bin/sh\necho v3.250.0\n")

    def tool(name):
        if name == "pulumi":
            return cli
        raise ToolError(f"{name} is not built yet")

    for module in (environment, wrappers):
        monkeypatch.setattr(module, "tool", tool)
    paths = TwinPaths(tmp_path / "twin")
    paths.create()
    (paths.pki / "token").write_text("token")
    monkeypatch.setattr(wrappers, "twin_token", lambda _: "token")
    wrappers.write_wrappers(paths)
    return SimpleNamespace(home=home, programs=folder, paths=paths, cli=cli)


def installed(machine):
    """Install all that Pulumi has: the language host beside the CLI and two providers."""
    program(machine.home / "bin" / "pulumi-language-python-exec")
    return SimpleNamespace(
        host=program(machine.home / "bin" / HOST),
        kubernetes=plugin(machine.home, "kubernetes"),
        gcp=plugin(machine.home, "gcp"),
    )


def first_on_path(environ, name):
    folders = environ["PATH"].split(os.pathsep)
    return next(f"{folder}/{name}" for folder in folders if os.access(f"{folder}/{name}", os.X_OK))


def test_the_twins_own_are_attached_whatever_is_installed(machine):
    installed(machine)
    program(machine.programs / HOST)
    program(machine.programs / "pulumi-resource-kubernetes")
    program(machine.cli.with_name(HOST))
    found = pulumi_environment(machine.paths, PORTS)
    assert found["PULUMI_DEBUG_PROVIDERS"] == "gcp:1,kubernetes:2"
    assert found["PULUMI_HOME"] == str(machine.paths.pulumi_home)
    host = first_on_path(found, HOST)
    assert host == str(machine.paths.bin / HOST)
    assert (machine.paths.bin / HOST).read_text() == (
        f"#!/bin/sh\nexec '{sys.executable}' -m twin.pulumi.language_host \"$@\"\n"
    )
    assert first_on_path(found, "pulumi") == str(machine.paths.bin / "pulumi")


def test_what_a_user_sets_for_other_runs_does_not_count(machine, monkeypatch):
    monkeypatch.setenv("PULUMI_DEBUG_LANGUAGES", "python:9")
    monkeypatch.setenv("PULUMI_IGNORE_AMBIENT_PLUGINS", "true")
    found = {**os.environ, **pulumi_environment(machine.paths, PORTS)}
    assert found["PULUMI_DEBUG_LANGUAGES"] == ""
    assert found["PULUMI_IGNORE_AMBIENT_PLUGINS"] == ""
    assert found["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] == "true"


def test_a_cli_that_was_updated_is_linked_again(machine):
    link = machine.paths.bin / "pulumi"
    assert link.samefile(machine.cli)
    machine.cli.unlink()
    program(machine.cli, "#!/bin/sh\necho v3.251.0\n")
    wrappers.write_wrappers(machine.paths)
    assert link.samefile(machine.cli)
    assert link.read_text() == "#!/bin/sh\necho v3.251.0\n"
    assert sorted(file.name for file in machine.paths.bin.iterdir()) == [
        "gke-gcloud-auth-plugin",
        "pulumi",
        HOST,
    ]


def test_official_hands_the_engine_what_is_installed(machine):
    have = installed(machine)
    found = pulumi_environment(
        machine.paths, PORTS, find_official(machine.paths, ("kubernetes", "gcp"))
    )
    assert found["PULUMI_DEBUG_PROVIDERS"] == ""
    assert found["PULUMI_IGNORE_AMBIENT_PLUGINS"] == "true"
    home = Path(found["PULUMI_HOME"])
    assert home.is_relative_to(machine.paths.official)
    programs = home.with_name("bin")
    assert str(machine.paths.bin) not in found["PATH"].split(os.pathsep)
    for name in ("kubernetes", "gcp"):
        folder = home / "plugins" / f"resource-{name}-v{version(f'pulumi-{name}')}"
        assert folder.is_dir()
        assert not folder.is_symlink()  # the engine passes over links to folders
        assert (folder / f"pulumi-resource-{name}").samefile(getattr(have, name))
        assert (folder / "LICENSE").read_text() == "of the plugin"
    assert (programs / HOST).samefile(have.host)
    assert (programs / f"{HOST}-exec").samefile(have.host.with_name(f"{HOST}-exec"))
    assert (programs / "pulumi").samefile(machine.cli)  # beside the host, so without a warning
    assert first_on_path(found, HOST) == str(programs / HOST)
    assert first_on_path(found, "gke-gcloud-auth-plugin").startswith(str(programs))


def test_a_preview_with_the_official_gcp_provider_has_no_credentials(machine, monkeypatch):
    installed(machine)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/key.json")
    both = find_official(machine.paths, ("kubernetes", "gcp"))
    found = {**os.environ, **pulumi_environment(machine.paths, PORTS, both)}
    assert found["GOOGLE_APPLICATION_CREDENTIALS"] == ""
    assert found["GOOGLE_OAUTH_ACCESS_TOKEN"] == "the-twin-has-no-credentials"


def test_a_run_that_creates_keeps_the_gcp_provider_of_the_twin(machine):
    installed(machine)
    found = pulumi_environment(machine.paths, PORTS, find_official(machine.paths, ("kubernetes",)))
    assert found["PULUMI_DEBUG_PROVIDERS"] == "gcp:1"
    assert "GOOGLE_OAUTH_ACCESS_TOKEN" not in found
    plugins = Path(found["PULUMI_HOME"]) / "plugins"
    assert [folder.name.split("-")[1] for folder in plugins.iterdir()] == ["kubernetes"]


@pytest.mark.parametrize("names", [None, ("kubernetes", "gcp")])
def test_no_engine_of_the_twin_finds_a_folder_for_its_log(machine, names):
    installed(machine)

    def log():
        plugins = names and find_official(machine.paths, names)
        return Path(pulumi_environment(machine.paths, PORTS, plugins)["PULUMI_HOME"]) / "logs"

    place = log()
    assert place.is_file()
    place.unlink()
    program(place / "organization+gke-inference+prod-20261201T013601.log")  # as it wrote before
    assert log() == place
    assert place.is_file()


def test_what_is_on_path_counts_in_any_version_and_before_the_home(machine):
    installed(machine)
    host = program(machine.programs / HOST)
    provider = program(machine.programs / "pulumi-resource-kubernetes")
    program(machine.programs / "another-program")
    both = find_official(machine.paths, ("kubernetes",))
    assert both.language_host == host
    assert both.providers == {"kubernetes": provider}
    _, home = both.link(machine.paths)
    (folder,) = (home / "plugins").iterdir()
    assert [file.name for file in folder.iterdir()] == ["pulumi-resource-kubernetes"]


def test_a_run_keeps_its_plugins_while_another_one_starts_with_others(machine):
    have = installed(machine)
    _, first = find_official(machine.paths, ("kubernetes", "gcp")).link(machine.paths)
    have.gcp.unlink()
    _, second = find_official(machine.paths, ("kubernetes",)).link(machine.paths)
    linked = [
        sorted(folder.name.split("-")[1] for folder in (home / "plugins").iterdir())
        for home in (first, second)
    ]
    assert linked == [["gcp", "kubernetes"], ["kubernetes"]]


def test_two_runs_with_the_same_plugins_share_their_folders(machine):
    installed(machine)
    found = find_official(machine.paths, ("kubernetes",))
    assert found.link(machine.paths) == found.link(machine.paths)


def test_all_that_is_missing_is_one_line(machine):
    plugin(machine.home, "kubernetes", "4.30.0")
    with pytest.raises(ToolError) as missing:
        find_official(machine.paths, ("kubernetes", "gcp"))
    plugins = machine.home / "plugins"
    kubernetes, gcp = (version(f"pulumi-{name}") for name in ("kubernetes", "gcp"))
    assert str(missing.value) == (
        "--official: must be installed on this machine, got no pulumi-language-python on PATH or "
        f"in {machine.home}/bin; no pulumi-resource-kubernetes on PATH and no "
        f"resource-kubernetes-v{kubernetes} in {plugins} (only resource-kubernetes-v4.30.0); no "
        f"pulumi-resource-gcp on PATH and no resource-gcp-v{gcp} in {plugins}"
    )


@pytest.mark.parametrize("is_official", [False, True])
def test_in_a_shell_of_the_twin_its_own_are_not_taken_for_official_ones(
    machine, monkeypatch, is_official
):
    installed(machine)
    plugins = find_official(machine.paths, ("kubernetes",)) if is_official else None
    for name, value in pulumi_environment(machine.paths, PORTS, plugins).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(machine.paths.root.parent / "nobody"))
    official.cache_clear()
    assert official("pulumi") is None  # neither the link nor what is in the cache
    official.cache_clear()
    inherited = process_environment(machine.paths)["PATH"].split(os.pathsep)
    assert inherited.count(str(machine.paths.bin)) == 1
    assert not [part for part in inherited if Path(part).is_relative_to(machine.paths.official)]
    with pytest.raises(ToolError, match=r"got no pulumi-language-python on PATH or in .*/nobody/"):
        find_official(machine.paths, ("kubernetes",))


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("up", [HOST, "kubernetes"]),
        ("down", [HOST, "kubernetes"]),
        ("env", [HOST, "kubernetes"]),
        ("preview --stack local", [HOST, "kubernetes", "gcp"]),
        ("render --stack local", [HOST, "kubernetes", "gcp"]),
        ("verdict --base HEAD", [HOST]),
    ],
)
def test_a_command_refuses_in_one_line_before_anything_is_made(
    tmp_path, monkeypatch, capsys, line, names
):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GKE_INFERENCE_TWIN_DIR", str(tmp_path / "twin"))
    monkeypatch.setattr(sys, "argv", ["gke-inference", *line.split(), "--official"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    out, err = capsys.readouterr()
    assert ended.value.code == ExitCode.ERROR
    assert err.startswith("error: --official: must be installed on this machine, got no ")
    assert len(err.splitlines()) == 1
    assert [name for name in (HOST, "kubernetes", "gcp") if f"{name} on PATH" in err] == names
    assert out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_twin_that_is_thrown_away_needs_no_engine(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GKE_INFERENCE_TWIN_DIR", str(tmp_path / "twin"))
    monkeypatch.setattr(sys, "argv", ["gke-inference", "down", "--force", "--official"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == ExitCode.ERROR
    assert capsys.readouterr().err == (
        "error: --official: must not be given with --force, which destroys no stack\n"
    )
