"""How much these tests try: a process with `TEST_LENGTH=full` tries more."""

import os

IS_FULL = os.environ.get("TEST_LENGTH") == "full"


def examples(short: int) -> int:
    """Return how many examples a property is tried with, by the number of a short run."""
    return 4 * short if IS_FULL else short
