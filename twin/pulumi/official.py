"""Pulumi's own plugins, as they are installed on this machine: what `--official` runs with.

They are looked for where the engine looks: on PATH, then in the user's Pulumi home. The engine gets
a home of its own, so that a run sees these plugins and downloads no others.
"""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from twin.host.paths import TwinPaths
from twin.pulumi.wrappers import LANGUAGE_HOST, link_cli, write_credential_plugin
from twin.toolchain import ToolError

_PROGRAM_RUNNER = "pulumi-language-python-exec"
"""What the official language host runs programs with; it is installed beside the host."""
_NO_CREDENTIALS = {
    # A preview creates nothing and asks Google nothing. With a token that is none, no call that a
    # provider makes all the same can reach a project.
    "GOOGLE_OAUTH_ACCESS_TOKEN": "the-twin-has-no-credentials",
    **dict.fromkeys(
        (
            "GCLOUD_KEYFILE_JSON",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "GOOGLE_CLOUD_KEYFILE_JSON",
            "GOOGLE_CREDENTIALS",
            "GOOGLE_IMPERSONATE_SERVICE_ACCOUNT",
        ),
        "",
    ),
}


@dataclass(frozen=True)
class OfficialPlugins:
    """What a run with `--official` uses instead of the twin's own."""

    language_host: Path
    """The program `pulumi-language-python`."""
    providers: dict[str, Path]
    """The program of each provider that is not the twin's, by its package."""

    @property
    def variables(self) -> dict[str, str]:
        """Variables that the providers need in the environment of a run."""
        return dict(_NO_CREDENTIALS) if "gcp" in self.providers else {}

    def link(self, paths: TwinPaths) -> None:
        """Make the folders of a run on a twin: programs for PATH, and a home with the plugins."""
        programs, plugins = paths.official / "bin", paths.official / "home" / "plugins"
        for folder in (programs, plugins):
            shutil.rmtree(folder, ignore_errors=True)  # what was linked before may be gone
            folder.mkdir(parents=True)
        write_credential_plugin(paths, programs)
        link_cli(programs)
        (programs / LANGUAGE_HOST).symlink_to(self.language_host)
        runner = self.language_host.resolve().with_name(_PROGRAM_RUNNER)
        if runner.exists():
            (programs / _PROGRAM_RUNNER).symlink_to(runner)
        for name, program in self.providers.items():
            folder = plugins / _folder_name(name)
            folder.mkdir()  # the engine passes over a link to a folder
            installed = program.parent
            is_plugin = installed.name.startswith("resource-")  # and not a folder of programs
            for file in installed.iterdir() if is_plugin else (program,):
                (folder / file.name).symlink_to(file)


def find_official(paths: TwinPaths, providers: Sequence[str]) -> OfficialPlugins:
    """Return the plugins that are installed on this machine.

    Args:
        paths: of the twin; what it puts on PATH itself does not count.
        providers: packages whose provider is wanted beside the language host.

    Raises:
        ToolError: one of them is missing; one line names all that are.
    """
    home = _user_home(paths)
    search_path = paths.without_programs(os.environ.get("PATH", ""))
    places = os.pathsep.join([search_path, str(home / "bin")])
    host = shutil.which(LANGUAGE_HOST, path=places)
    found = {name: _provider(name, search_path, home / "plugins") for name in providers}
    if host is None or None in found.values():
        missing = [] if host else [f"no {LANGUAGE_HOST} on PATH or in {home / 'bin'}"]
        missing += [_missing(name, home / "plugins") for name in providers if found[name] is None]
        raise ToolError(f"--official: must be installed on this machine, got {'; '.join(missing)}")
    return OfficialPlugins(
        Path(host), {name: program for name, program in found.items() if program is not None}
    )


def _user_home(paths: TwinPaths) -> Path:
    """Return the user's Pulumi home, also in a shell that evaluated `gke-inference env`."""
    configured = os.environ.get("PULUMI_HOME")
    if configured and not Path(configured).is_relative_to(paths.root):
        return Path(configured)
    return Path.home() / ".pulumi"


def _folder_name(name: str) -> str:
    """Return the folder of a provider in a Pulumi home: the engine takes the SDK's version only."""
    return f"resource-{name}-v{version(f'pulumi-{name}')}"


def _provider(name: str, search_path: str, plugins: Path) -> Path | None:
    """Return the program of a provider: any on PATH, in the home the SDK's version alone."""
    program = f"pulumi-resource-{name}"
    folder = str(plugins / _folder_name(name))
    found = shutil.which(program, path=search_path) or shutil.which(program, path=folder)
    return Path(found) if found else None


def _missing(name: str, plugins: Path) -> str:
    """Return what was looked for, and which other versions there are."""
    others = sorted(
        folder.name for folder in plugins.glob(f"resource-{name}-v*") if folder.is_dir()
    )
    instead = f" (only {', '.join(others)})" if others else ""
    return f"no pulumi-resource-{name} on PATH and no {_folder_name(name)} in {plugins}{instead}"
