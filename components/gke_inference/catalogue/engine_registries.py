"""Values of flags that an engine looks up when it starts, such as names of parsers.

The engine's argument parser takes any text for them. The lists are registries.yaml in the engines'
folders.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from gke_inference.catalogue.engine_tables import tables
from gke_inference.catalogue.input_error import InputError

PLUGINS = "VLLM_PLUGINS"
"""Variable that names the plugins of an image, which may register any name."""


def registries(engine: str) -> tuple[str, ...]:
    """Return the flags of an engine whose values are in a registry, without the leading dashes."""
    return tuple(_flags(engine))


def names(engine: str, flag: str, release: str) -> tuple[str, ...]:
    """Return the values that a release of an engine knows for a flag; empty if none are recorded.

    Args:
        engine: Engine name, such as `vllm`.
        flag: The flag, without the leading dashes.
        release: Release of the engine, such as `0.32.0`.
    """
    entry = _flags(engine).get(flag, {})
    found = entry.get("names", {}).get(release, ())
    return (*entry.get("also", ()), *found) if found else ()


def is_known(engine: str, flag: str, release: str, value: str) -> bool:
    """Return whether a release knows a value of a flag; true where no values are recorded."""
    known = names(engine, flag, release)
    word = value.upper() if _flags(engine).get(flag, {}).get("any_case") else value
    return not known or word in known


def unregistered(
    engine: str, title: str, release: str, given: Mapping[str, str]
) -> Iterator[InputError]:
    """Yield values that a release of an engine does not know, with the flag's name as path.

    A flag that loads a plugin beside the registry's own takes any value.

    Args:
        engine: Engine name, such as `vllm`.
        title: The engine's own name.
        release: Release of the engine.
        given: Flags of a user, without the leading dashes.
    """
    for flag, entry in _flags(engine).items():
        value = given.get(flag)
        if value is None or entry.get("plugin") in given:
            continue
        if not is_known(engine, flag, release, value):
            known = names(engine, flag, release)
            rule = f"must be one of {', '.join(known)} with {title} {release}"
            yield InputError(flag, rule, value, hint(value, known))


def hint(value: str, known: tuple[str, ...]) -> str:
    """Return a note that suggests the nearest of some words; empty if none is near."""
    plain = {word.lower().replace("-", "_"): word for word in known}
    found = get_close_matches(value.lower().replace("-", "_"), plain, n=1, cutoff=0.6)
    return f"; did you mean {plain[found[0]]!r}?" if found else ""


def _flags(engine: str) -> Mapping[str, Any]:
    return tables("registries.yaml").get(engine, {})
