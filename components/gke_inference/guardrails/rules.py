"""Rules of guardrails that hold for stacks and for components."""

from collections.abc import Iterator, Mapping
from typing import Final

from gke_inference.catalogue.input_error import Bare, InputError

LARGEST_BYTES: Final = 1_000_000
"""Most bytes of the files of a guard: the API server's limit of an object is 1 MiB."""


def check_files(where: str, files: Mapping[str, str]) -> Iterator[InputError]:
    """Yield the problems of a guard's own files, which become a ConfigMap."""
    if "config.yml" not in files:
        yield InputError(where, "must have a file config.yml", Bare(", ".join(files) or "none"))
    size = sum(len(text.encode()) for text in files.values())
    if size > LARGEST_BYTES:
        rule = f"must have at most {LARGEST_BYTES} bytes in all files, as a ConfigMap has"
        yield InputError(where, rule, size)
