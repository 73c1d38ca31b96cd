"""The provenance of a release: an in-toto statement with SLSA's predicate, and how it is checked.

The forms are those of "in-toto Attestation Framework, Statement v1" and "SLSA v1.0, Provenance".
The statement has no time and no number of a run, so that two builds of a commit are equal. It is
not signed: it says what was built from what, and `scripts.release.verify` checks that.
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
"""The build that CONTRIBUTING.md describes: `make release` at a commit, twice."""
BUILDER: Final = "urn:gke-inference:checkout"
"""Whoever runs `make release` in a checkout; no build service vouches for it."""
_LOCKS: Final = ("requirements.lock", "requirements-uv.lock")
_REPOSITORY: Final = "git:gke-inference"


def statement_of(sources: Path, commit: Commit, checksums: Mapping[str, str]) -> dict[str, Any]:
    """Return the statement of a build.

    Args:
        sources: Files of the commit.
        commit: The commit that was built.
        checksums: SHA-256 checksum of each file of the release by name, without the statement.
    """
    version = tomllib.loads((sources / "pyproject.toml").read_text())["project"]["version"]
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


def check_statement(text: str, commit: Commit, checksums: Mapping[str, str]) -> None:
    """Check a statement against a commit and against the files that it is about.

    Args:
        text: The statement, as JSON.
        commit: The commit that the files should come from.
        checksums: SHA-256 checksum of each file of the release by name, without the statement.

    Raises:
        CommandError: The statement is none, is of another build, or is about other files.
    """
    try:
        statement: Any = json.loads(text)
    except ValueError as error:
        raise CommandError(f"{PROVENANCE}: must be JSON, got {error}") from error
    for path, wanted in (
        ("_type", STATEMENT),
        ("predicateType", PREDICATE),
        ("predicate.buildDefinition.buildType", BUILD_TYPE),
        ("predicate.runDetails.builder.id", BUILDER),
        ("predicate.buildDefinition.externalParameters.commit", commit.sha),
        ("predicate.buildDefinition.internalParameters.SOURCE_DATE_EPOCH", commit.seconds),
    ):
        _equal(path, wanted, _field(statement, path))
    dependencies = _field(statement, "predicate.buildDefinition.resolvedDependencies")
    sources: Any = cast(list[Any], dependencies)[:1] if isinstance(dependencies, list) else None
    wanted_source = [{"uri": _REPOSITORY, "digest": {"gitCommit": commit.sha}}]
    _equal("predicate.buildDefinition.resolvedDependencies.0", wanted_source, sources)
    subjects = _subjects(_field(statement, "subject"))
    for name in sorted({*checksums, *subjects}):
        _equal(f"subject {name}", checksums.get(name, "no such file"), subjects.get(name))


def _equal(path: str, wanted: object, got: object) -> None:
    if got != wanted:
        raise CommandError(f"{PROVENANCE}: {path}: must be {wanted}, got {got}")


def _field(value: Any, path: str) -> Any:
    """Return the field at a dotted path; None where it is missing."""
    for key in path.split("."):
        if not isinstance(value, dict):
            return None
        value = cast(dict[str, Any], value).get(key)
    return value


def _subjects(listed: Any) -> dict[str, object]:
    """Return the SHA-256 checksum of each subject by name; an entry without one has None."""
    if not isinstance(listed, list):
        return {}
    return {
        str(_field(each, "name")): _field(each, "digest.sha256") for each in cast(list[Any], listed)
    }
