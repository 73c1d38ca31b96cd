"""Names of a stack's fields for those of a model server, in paths of problems."""

import re
from collections.abc import Mapping

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join

PATHS = {
    "buffer_replicas": "replicas.buffer",
    "role": "disaggregated",
    "rungs": "capacity",
}
"""Stack fields whose names differ from the inputs of a model server."""


def in_stack(
    problem: InputError, where: tuple[str, ...], paths: Mapping[str, str] = PATHS
) -> InputError:
    """Return a problem of a model server with the field name of a stack.

    Args:
        problem: The problem.
        where: Path of the model, or of its canary.
        paths: Fields whose names differ, by their name in the model server.
    """
    head = re.match(r"\w+", problem.path)
    word = head[0] if head else problem.path
    return problem.at(join(*where, paths.get(word, word)) + problem.path[len(word) :])
