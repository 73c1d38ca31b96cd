"""The stub of the components' package: its public names, loaded on first use."""

import inspect
from collections.abc import Callable
from typing import Any, Final, get_args, is_typeddict

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.rungs import Rung, check_rung
from gke_inference.clients.counter_store import AnswerStore
from gke_inference.plugin import COMPONENTS
from gke_inference.settings import Settings, Word

_NOTICE: Final = "# Made by `make docs`: components, the types of their inputs, and a few more.\n"
_MORE: Final[tuple[Callable[..., Any], ...]] = (AnswerStore, InputError, Rung, check_rung)


def public_names_stub() -> str:
    """Return components/gke_inference/__init__.pyi."""
    public: set[Any] = {*COMPONENTS, *_MORE}
    for component in COMPONENTS:
        _collect(inspect.get_annotations(component.__init__)["args"], public)
    names = [(each.__module__.removeprefix("gke_inference"), each.__name__) for each in public]
    names.sort(key=lambda each: (each[0], each[1][0].islower(), each[1].lower()))  # as ruff
    imports = [f"from {module} import {name} as {name}" for module, name in names]
    return "\n".join([_NOTICE, *imports, "", "__all__: list[str]", ""])


def _collect(annotation: Any, found: set[Any]) -> None:
    """Add the package's own types inside an annotation."""
    for part in get_args(annotation):
        _collect(part, found)
    if not isinstance(annotation, type) or annotation in found:
        return
    if is_typeddict(annotation):
        found.add(annotation)
        for inner in annotation.__annotations__.values():
            _collect(inner, found)
    elif issubclass(annotation, Settings):
        found.add(annotation)
        for field in annotation.model_fields.values():
            _collect(field.annotation, found)
    elif issubclass(annotation, Word):
        found.add(annotation)
