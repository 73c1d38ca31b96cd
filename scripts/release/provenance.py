"""The provenance of a release: an in-toto statement with SLSA's predicate, and how it is checked.

The forms are those of "in-toto Attestation Framework, Statement v1" and "SLSA v1.0, Provenance".
The statement has no time and no number of a run, so that two builds of a commit are equal. It says
what was built from what, and `scripts.release.verify` checks that. A signature is of the checksums,
which have that of the statement.
"""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from scripts.release.checksums import checksum_of
from scripts.release.sources import Commit
from scripts.terminal.console import CommandError

PROVENANCE: Final = "gke-inference.intoto.json"
STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "https://slsa.dev/provenance/v1"
BUILD_TYPE: Final = "urn:gke-inference:make-release:v1"
"""The build that docs/releasing.md describes: `make release` at a commit, twice."""
BUILDER: Final = "urn:gke-inference:checkout"
"""Whoever runs `make release` in a checkout; no build service vouches for it."""
_LOCKS: Final = ("requirements.lock", "requirements-uv.lock")
_PROJECT: Final = "pyproject.toml"
STATED: Final = (_PROJECT, *_LOCKS)
"""Files of a commit that a statement is made from."""
_REPOSITORY: Final = "git:gke-inference"


def statement_of(sources: Path, commit: Commit, checksums: Mapping[str, str]) -> dict[str, Any]:
    """Return the statement of a build.

    Args:
        sources: Files of the commit, at least those of `STATED`.
        commit: The commit that was built.
        checksums: SHA-256 checksum of each file of the release by name, without the statement.
    """
    version = tomllib.loads((sources / _PROJECT).read_text())["project"]["version"]
    return {
        "_type": STATEMENT,
        "subject": [
            {"name": name, "digest": {"sha256": checksum}}
            for name, checksum in sorted(checksums.items())
        ],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"commit": commit.sha, "version": version},
                "internalParameters": {"SOURCE_DATE_EPOCH": commit.seconds},
                "resolvedDependencies": [
                    {"uri": _REPOSITORY, "digest": {"gitCommit": commit.sha}},
                    *(
                        {"uri": f"{_REPOSITORY}#{name}", "digest": {"sha256": checksum_of(file)}}
                        for name in _LOCKS
                        if (file := sources / name).is_file()
                    ),
                ],
            },
            "runDetails": {"builder": {"id": BUILDER}},
        },
    }


def write_statement(statement: Mapping[str, Any], folder: Path) -> None:
    """Write the statement of a build to the folder of its files."""
    text = json.dumps(statement, indent=1, sort_keys=True) + "\n"
    (folder / PROVENANCE).write_text(text, encoding="utf-8")


def check_statement(text: str, wanted: Mapping[str, Any]) -> None:
    """Check a statement against the one that a build would write.

    Args:
        text: The statement, as JSON.
        wanted: What `statement_of` returns for the commit and the files.

    Raises:
        CommandError: The statement is none, is of another build, or is about other files; the
            message names the first field that differs.
    """
    try:
        got: Any = json.loads(text)
    except ValueError as error:
        raise CommandError(f"{PROVENANCE}: must be JSON, got {error}") from error
    _check_equal(got, wanted, "")
    if got != wanted:
        raise CommandError(f"{PROVENANCE}: lists must have the entries of a build in its order")


def _check_equal(got: Any, wanted: Any, path: str) -> None:
    """Compare two values of JSON, down to the first field that differs."""
    wanted_parts, got_parts = _parts(wanted), _parts(got)
    if (
        wanted_parts is None
        or got_parts is None
        or isinstance(got, dict) != isinstance(wanted, dict)
    ):
        if got != wanted:
            place = path or "statement"
            raise CommandError(
                f"{PROVENANCE}: {place}: must be {_shown(wanted)}, got {_shown(got)}"
            )
        return
    for name in sorted({*wanted_parts, *got_parts}):
        below = f"{path}.{name}" if path else name
        _check_equal(got_parts.get(name), wanted_parts.get(name), below)


def _parts(value: Any) -> dict[str, Any] | None:
    """Return the fields of an object, or the entries of a list by `name`, `uri` or position."""
    if isinstance(value, dict):
        return cast(dict[str, Any], value)
    if not isinstance(value, list):
        return None
    found: dict[str, Any] = {}
    for position, each in enumerate(cast(list[Any], value)):
        known = cast(dict[str, Any], each) if isinstance(each, dict) else {}
        found[str(known.get("name") or known.get("uri") or position)] = each
    return found


def _shown(value: Any) -> str:
    return "none" if value is None else json.dumps(value, sort_keys=True)[:200]
