"""`python -m scripts.release.contents.read`: record the licenses of everything that is shipped.

Python packages: the metadata that their wheels declare, as pip reports it without installing them.
Go modules: the license files in Go's cache, recognized by the library `identify`. Where neither
gives an SPDX expression, licenses.yaml has it, with where somebody read it.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from scripts.release.contents.images import GATEWAY, contents, linked_modules, packages_of
from scripts.release.contents.policy import policy, unknown_licenses
from scripts.release.contents.record import Package, Registry, write_record
from scripts.terminal.console import CommandError
from twin.host.paths import REPOSITORY

_PIP: Final = "pip==26.3"
_IDENTIFY: Final = "identify[license]==2.6.15"
_PLATFORMS: Final = ("linux_x86_64", *(f"manylinux_2_{minor}_x86_64" for minor in range(5, 36)))
_LEGACY: Final = ("manylinux1_x86_64", "manylinux2010_x86_64", "manylinux2014_x86_64")
_WORDS: Final = {
    "3-clause bsd license": "BSD-3-Clause",
    "2-clause bsd license": "BSD-2-Clause",
    "apache": "Apache-2.0",
    "apache 2": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache 2.0 license": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "apache software license 2.0": "Apache-2.0",
    "bsd": "LicenseRef-BSD",
    "bsd license": "LicenseRef-BSD",
    "nvidia proprietary software": "LicenseRef-NVIDIA-Proprietary",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
    "the unlicense (unlicense)": "Unlicense",
    "universal permissive license (upl)": "UPL-1.0",
}
"""SPDX identifiers of words in `License` and of classifiers; `LicenseRef-BSD` is any of BSD's."""
_TEXTS: Final = (
    (re.compile(r"^\s*MIT License\b"), "MIT"),
    (re.compile(r"^\s*Apache License\s+Version 2\.0"), "Apache-2.0"),
)
_RECOGNIZE: Final = """\
import json, sys
from identify import identify
print(json.dumps([identify.license_id(file) for file in json.load(sys.stdin)]))
"""


def declared(metadata: Mapping[str, Any]) -> str | None:
    """Return the license that a wheel's metadata declares, as an SPDX expression.

    Args:
        metadata: Core metadata in the JSON form of PEP 566.

    Returns:
        None if it declares none, or one that is not understood.
    """
    if expression := metadata.get("license_expression"):
        return str(expression)
    text = str(metadata.get("license") or "")
    for pattern, identifier in _TEXTS:
        if pattern.match(text):
            return identifier
    classifiers = [
        each.rpartition(" :: ")[2]
        for each in metadata.get("classifier", ())
        if each.startswith("License :: ") and each != "License :: OSI Approved"
    ]
    for said in ([text] if text else [], classifiers):
        known = [_identifier(each) for each in said]
        if known and all(known):
            return " OR ".join(sorted({each for each in known if each}))
    return None


def _identifier(said: str) -> str | None:
    words = " ".join(said.split())
    if words.lower() in _WORDS:
        return _WORDS[words.lower()]
    is_spdx = bool(words) and len(words) < 60 and not unknown_licenses(words)
    return words if is_spdx else None


def _reports(packages: Iterable[Package]) -> dict[Package, str | None]:
    """Return the declared license of each Python package; pip reads the metadata of each."""
    found: dict[Package, str | None] = {}
    groups: list[dict[str, Package]] = []
    for package in sorted(packages):  # pip resolves one version of a name at a time
        for group in groups:
            if package.name not in group:
                group[package.name] = package
                break
        else:
            groups.append({package.name: package})
    for group in groups:
        for item in _report(group.values()):
            metadata = item["metadata"]
            name = re.sub(r"[-_.]+", "-", metadata["name"]).lower()
            found[group[name]] = declared(metadata)
    return found


def _report(packages: Iterable[Package]) -> list[dict[str, Any]]:
    platforms = [f"--platform={each}" for each in (*_PLATFORMS, *_LEGACY)]
    with tempfile.TemporaryDirectory() as folder:
        pins, report = Path(folder, "pins.txt"), Path(folder, "report.json")
        pins.write_text("".join(f"{each.name}=={each.version}\n" for each in packages))
        command = [
            *(sys.executable, "-m", "uv", "tool", "run", "--from", _PIP, "pip", "install"),
            *("--quiet", "--dry-run", "--no-deps", "--ignore-installed", "--python-version=3.12"),
            *("--implementation=cp", "--only-binary=:all:", f"--target={folder}/none"),
            *(*platforms, f"--report={report}", "--requirement", str(pins)),
        ]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise CommandError(f"pip: {(ran.stderr.strip() or 'no message').splitlines()[-1]}")
        return json.loads(report.read_text())["install"]


def _modules(folders: Mapping[Package, Path]) -> dict[Package, str | None]:
    """Return the license of each Go module, of all its license files; None if one is unknown."""
    files = {
        package: [
            str(each)
            for each in sorted(folder.iterdir())
            if each.name.lower().startswith(("licen", "copying"))
        ]
        for package, folder in folders.items()
    }
    every = [file for group in files.values() for file in group]
    command = [
        *(sys.executable, "-m", "uv", "run", "--no-project", "--with", _IDENTIFY),
        *("python", "-c", _RECOGNIZE),
    ]
    ran = subprocess.run(
        command, input=json.dumps(every), capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise CommandError(f"identify: {(ran.stderr.strip() or 'no message').splitlines()[-1]}")
    known: dict[str, str | None] = dict(zip(every, json.loads(ran.stdout), strict=True))
    found: dict[Package, str | None] = {}
    for package, group in files.items():
        names = [known[file] for file in group]
        texts = sorted({each for each in names if each})
        found[package] = " AND ".join(texts) if names and all(names) else None
    return found


def main() -> None:
    """Read the licenses and write the record; list what has none and is to be read by hand."""
    shipped = {
        each for image in contents(REPOSITORY).values() for each in packages_of(REPOSITORY, image)
    }
    modules = {
        Package(Registry.GO, module.path, module.version): module.folder
        for image in contents(REPOSITORY).values()
        if image.program is not None
        for module in linked_modules(REPOSITORY / GATEWAY, image.program)
    }
    read = {
        **_reports(each for each in shipped if each.registry is Registry.PYPI),
        **_modules(modules),
    }
    by_hand = policy().by_hand
    licenses = {each: by_hand.get(each.name, read.get(each)) for each in shipped}
    write_record({each: found for each, found in licenses.items() if found})
    for package in sorted(each for each, found in licenses.items() if not found):
        print(f"{package.url}: its license must be read by hand, for licenses.yaml")


if __name__ == "__main__":
    main()
