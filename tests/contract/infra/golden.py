"""The resources of each stack, counted by type: tests/golden/resources/STACK.yaml.

`python -m tests.contract.infra.golden` writes them again.
"""

import collections
from pathlib import Path

import yaml

from infra.deploy.program import deploy
from infra.reading.load import read
from tests.contract.infra.cloud import CloudRecorder
from tests.contract.recorder import event_loop, install

FOLDER = Path(__file__).parents[2] / "golden" / "resources"
ADVICE = "if this is meant: .venv/bin/python -m tests.contract.infra.golden"
STACKS = ("dev", "local", "prod", "staging")


def file(stack: str) -> Path:
    """Return the file of a stack."""
    return FOLDER / f"{stack}.yaml"


def counts(stack: str) -> dict[str, int]:
    """Return the number of resources of a stack by type."""
    resources: dict[str, int] = yaml.load(
        file(stack).read_text(encoding="utf-8"), yaml.CSafeLoader
    )["resources"]
    return resources


def text(types: list[str]) -> str:
    """Return the text of a file for the types of a stack's resources."""
    by_type = dict(sorted(collections.Counter(types).items()))
    return yaml.safe_dump({"total": len(types), "resources": by_type}, sort_keys=False)


def main() -> None:
    """Write the file of every stack."""
    loop = event_loop()
    for stack in STACKS:
        recorder = install(CloudRecorder(), loop)
        recorder.run(lambda stack=stack: deploy(read(stack)))
        file(stack).write_text(text([seen.type for seen in recorder.registrations]))


if __name__ == "__main__":
    main()
