"""The site of each version in one folder, with the list that the version selector reads.

The form is that of mike, which Zensical's templates expect: `versions.json` beside the folders of
the versions, a list of objects with `version`, `title` and `aliases`.
"""

import json
import re
import shutil
from pathlib import Path
from typing import Any, Final

from gke_inference.catalogue.versions import version_key
from scripts.terminal.console import CommandError

VERSIONS: Final = "versions.json"
NAME: Final = re.compile(r"main|\d+\.\d+\.\d+")
_TO_NEWEST: Final = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>gke-inference</title>
<meta http-equiv="refresh" content="0; url={version}/">
<a href="{version}/">gke-inference {version}</a>
</html>
"""


def check_version(name: str) -> None:
    """Check the name of a version.

    Raises:
        CommandError: It is neither `main` nor that of a release.
    """
    if NAME.fullmatch(name) is None:
        raise CommandError(f"--as: must be main or a release such as 0.1.0, got '{name}'")


def add_version(site: Path, folder: Path, name: str) -> list[str]:
    """Put a built site beside those of other versions, and list all of them.

    Args:
        site: The built site.
        folder: Folder with a folder for each version.
        name: `main`, or a release such as `0.1.0`.

    Returns:
        The versions, as the selector lists them: `main`, then the newest release first.
    """
    shutil.rmtree(folder / name, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(site, folder / name)
    built = [each.name for each in folder.iterdir() if each.is_dir() and NAME.fullmatch(each.name)]
    releases = sorted((each for each in built if each != "main"), key=version_key, reverse=True)
    names = [*(["main"] if "main" in built else []), *releases]
    listed: list[dict[str, Any]] = [
        {"version": each, "title": each, "aliases": []} for each in names
    ]
    (folder / VERSIONS).write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    newest = (releases or names)[0]
    (folder / "index.html").write_text(_TO_NEWEST.format(version=newest), encoding="utf-8")
    return names
