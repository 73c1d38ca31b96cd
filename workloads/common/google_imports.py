"""How programs import Google's client libraries."""

import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib import metadata


def _nothing() -> Mapping[str, list[str]]:
    return {}


@contextmanager
def without_warnings() -> Generator[None]:
    """Import libraries in this block without warnings about Pythons that they will drop.

    In such a Python, google.api_core reads the files of every installed package for the text of its
    warning, which is a third of the time that the client of Cloud Storage takes to import.
    """
    found = metadata.packages_distributions
    metadata.packages_distributions = _nothing
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        metadata.packages_distributions = found
