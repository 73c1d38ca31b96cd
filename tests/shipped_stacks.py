"""The files of the stacks that are shipped."""

from infra.reading.load import STACKS

EXAMPLES = STACKS.parent / "docs" / "examples"
FILES = sorted([*STACKS.glob("Pulumi.*.yaml"), *EXAMPLES.glob("*/Pulumi.*.yaml")])
