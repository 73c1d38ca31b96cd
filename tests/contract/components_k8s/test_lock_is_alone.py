"""Versions are only in the lock: not in the program, the policies, the scripts or the twin."""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from gke_inference.catalogue import versions
from tests.members import MEMBERS

ROOT = Path(__file__).parents[3]
ROOMS = (*MEMBERS, "stacks")
SUFFIXES = {".json", ".py", ".yaml", ".yml"}

ALLOWED = {
    "components/gke_inference/catalogue/data/accelerators.yaml": "one release of GKE may have "
    "brought both an accelerator and a feature",
    "components/gke_inference/catalogue/data/engines/*/*": "of which release a "
    "list was recorded: a fact that an upgrade of the lock does not change",
    "components/gke_inference/plugin.py": "the package's own version",
    "policies/PulumiPolicy.yaml": "the pack's own version",
    "scripts/accept/reach.py": "the path of a REST API that is spelled like the group of a kind",
    "scripts/calibrate/sources.py": "as above",
    "scripts/website/versions.py": "an example of a release of this project",
    "policies/rules/identity/node_account.py": "the type of a resource as the engine calls it; the "
    "pack imports nothing of the platform, to start fast",
    "twin/engines/real/install.py": "the release that is installed to compare with",
    "simulator/dialects/data/*.json": "of which release metrics were recorded",
    "simulator/engine/data/*.json": "of which release a page was recorded",
    "twin/cluster/controlplane/crds/*.yaml": "definitions as their owners publish them",
    "twin/cluster/delivery/crds/*.yaml": "as above",
    "twin/cluster/gateway/gcpinferencepoolimports.yaml": "as above",
    "twin/cluster/*.py": "the twin is the cluster: it serves a version, whatever is asked of it",
    "twin/cluster/controlplane/objects.yaml": "as above",
    "twin/tools/*.yaml": "where the projects of our tools publish their images",
    "twin/rules.yaml": "sources of what the twin pretends",
}
"""Files that may have a string of the lock, and why."""


def locked():
    """Return every string of the lock that could be repeated, with the section it is from."""
    lock = versions.lock()
    found = {each["api_version"] for each in lock["apis"].values() if "/" in each["api_version"]}
    found |= {each["repository"] for each in lock["images"].values()}
    found |= {each["digest"] for each in lock["images"].values() if each["digest"]}
    found |= {str(each["version"]) for each in lock["engines"].values()}
    found |= {str(each["version"]) for each in lock["gke_minimums"].values()}
    return sorted(found)


def code(text, suffix):
    """Return what a file does: docstrings and comments may cite a version."""
    if suffix == ".py":
        text = re.sub(r'""".*?"""', "", text, flags=re.DOTALL)
        return re.sub(r'(source|holds|description|reference)=(\(\s*)?"[^"]*"', "", text)
    return re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def repeats():
    """Return the files that repeat the lock, with what they repeat."""
    strings = locked()
    pattern = re.compile(rf"(?<![\w./-])({'|'.join(map(re.escape, strings))})(?![\w.-])")
    found = {}
    for room in ROOMS:
        for path in (ROOT / room).rglob("*"):
            if "tests" in path.relative_to(ROOT).parts:
                continue
            if path.suffix in SUFFIXES and path.name != "versions.yaml" and path.is_file():
                text = path.read_text(encoding="utf-8")
                if not any(each in text for each in strings):
                    continue
                if hits := set(pattern.findall(code(text, path.suffix))):
                    found[path.relative_to(ROOT).as_posix()] = hits
    return found


def test_no_string_of_the_lock_is_repeated_without_a_reason(repeats):
    unexplained = {
        name: hits
        for name, hits in repeats.items()
        if not any(fnmatch(name, pattern) for pattern in ALLOWED)
    }
    assert unexplained == {}


def test_every_exception_is_still_one(repeats):
    unused = [pattern for pattern in ALLOWED if not any(fnmatch(name, pattern) for name in repeats)]
    assert unused == []


def test_a_retired_version_is_not_one_that_is_used():
    used = {(each["api_version"], each["kind"]) for each in versions.lock()["apis"].values()}
    assert not used & set(versions.retired())
    assert all(each["source"] for each in versions.lock()["retired"].values())
