"""Pulumi's own plugins on this machine, for runs with `--official`.

They are searched like the engine does: on PATH, then in the user's Pulumi home. The engine gets its
own home, so that a run uses these plugins and downloads no others.
"""

import hashlib
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from twin.host.paths import TwinPaths
from twin.pulumi.wrappers import LANGUAGE_HOST, link_cli, write_credential_plugin
from twin.toolchain import ToolError

_PROGRAM_RUNNER = "pulumi-language-python-exec"
"""Program with which the official language host runs programs, installed next to the host."""
_NO_CREDENTIALS = {
    # A preview creates nothing and does not call Google. With an invalid token, any call that a
    # provider still makes cannot reach a project.
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
    """The plugins of a run with `--official`."""

    language_host: Path
    """The program `pulumi-language-python`."""
    providers: dict[str, Path]
    """The programs of providers that are not the twin's, by package."""

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables that the providers need in a run."""
        return dict(_NO_CREDENTIALS) if "gcp" in self.providers else {}

    def link(self, paths: TwinPaths) -> tuple[Path, Path]:
        """Create the folders of a run on a twin: programs for PATH, and a home with the plugins.

        Each set of plugins has its own, so that a run changes nothing under another one.
        """
        links = self._links()
        text = "\n".join(f"{link} {target}" for link, target in sorted(links.items()))
        folder = paths.official / hashlib.sha256(text.encode()).hexdigest()[:12]
        programs, home = folder / "bin", folder / "home"
        for link, target in links.items():
            place = folder / link
            place.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                place.symlink_to(target)
        (home / "plugins").mkdir(parents=True, exist_ok=True)
        write_credential_plugin(paths, programs)
        link_cli(programs)
        return programs, home

    def _links(self) -> dict[str, Path]:
        """Return the targets of the links by path below the folder of this set."""
        found = {f"bin/{LANGUAGE_HOST}": self.language_host}
        runner = self.language_host.resolve().with_name(_PROGRAM_RUNNER)
        if runner.exists():
            found[f"bin/{_PROGRAM_RUNNER}"] = runner
        for name, program in self.providers.items():
            installed = program.parent
            is_plugin = installed.name.startswith("resource-")  # and not a folder of programs
            for file in installed.iterdir() if is_plugin else (program,):
                # a folder with links, because the engine passes over a link to a folder
                found[f"home/plugins/{_folder_name(name)}/{file.name}"] = file
        return found


def find_official(paths: TwinPaths, providers: Sequence[str]) -> OfficialPlugins:
    """Return the plugins on this machine.

    Args:
        paths: paths of the twin, whose own programs on PATH are ignored.
        providers: packages whose providers are required, besides the language host.

    Raises:
        ToolError: a plugin is missing; one line names all missing ones.
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
    """Return the user's Pulumi home, even in a shell that evaluated `gke-inference env`."""
    configured = os.environ.get("PULUMI_HOME")
    if configured and not Path(configured).is_relative_to(paths.root):
        return Path(configured)
    return Path.home() / ".pulumi"


def _folder_name(name: str) -> str:
    """Return a provider's folder in a Pulumi home; the engine accepts only the SDK's version."""
    return f"resource-{name}-v{version(f'pulumi-{name}')}"


def _provider(name: str, search_path: str, plugins: Path) -> Path | None:
    """Return a provider's program: any version on PATH, or the SDK's version in the home."""
    program = f"pulumi-resource-{name}"
    folder = str(plugins / _folder_name(name))
    found = shutil.which(program, path=search_path) or shutil.which(program, path=folder)
    return Path(found) if found else None


def _missing(name: str, plugins: Path) -> str:
    """Return the required version, and the other installed versions."""
    others = sorted(
        folder.name for folder in plugins.glob(f"resource-{name}-v*") if folder.is_dir()
    )
    instead = f" (only {', '.join(others)})" if others else ""
    return f"no pulumi-resource-{name} on PATH and no {_folder_name(name)} in {plugins}{instead}"
