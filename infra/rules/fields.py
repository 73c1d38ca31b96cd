"""Names of a stack's fields for those of an intent, in paths and texts of problems."""

import re
from collections.abc import Mapping

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join
from infra.stack import EngineSettings

_SETTINGS = frozenset(EngineSettings.model_fields)
PATHS = {
    "buffer_replicas": "replicas.buffer",
    "context_tokens": "context",
    "image_models": "images.models",
    "image_queue": "images.queue",
    "image_sigmas": "images.sigmas",
    "image_sizes": "images.sizes",
    "image_step_cache": "images.step_cache",
    "image_steps": "images.steps",
    "role": "disaggregated",
    "rungs": "capacity",
    "video_frames": "videos.frames",
    "weight_bits": "size.bits",
}
"""Stack fields whose names differ from those of an intent."""
_OWNER = re.compile(r"(?<=the platform owns it \()\w+(?=[,)])")
"""The field to use instead of a flag or variable that the platform owns."""
VIDEO_PATHS = {
    **PATHS,
    "image_queue": "videos.queue",
    "image_sizes": "videos.sizes",
    "image_steps": "videos.steps",
}


def in_stack(
    problem: InputError, where: tuple[str, ...], paths: Mapping[str, str] = PATHS
) -> InputError:
    """Return a problem of an intent with the field names of a stack, also in its text.

    Args:
        problem: The problem.
        where: Path of the model, or of its canary.
        paths: Fields whose names differ, by their name in the intent.
    """
    rule = _OWNER.sub(lambda found: _own(found[0], paths), problem.rule)
    return InputError(_path(where, problem.path, paths), rule, problem.value, problem.note)


def _own(word: str, paths: Mapping[str, str]) -> str:
    return f"settings.{word}" if word in _SETTINGS else paths.get(word, word)


def _path(where: tuple[str, ...], path: str, paths: Mapping[str, str]) -> str:
    head = re.match(r"\w+", path)
    word = head[0] if head else path
    rest = path[len(word) :]
    own = _own(word, paths)
    rest = ".shared.gib" if path == "kv_offload.shared_gib" else rest
    return join(*where, own) + rest
