"""Files of a rehearsal: traffic for a described stack, and settings in YAML."""

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from gke_inference.catalogue.input_error import InputError, yaml_problem
from gke_inference.catalogue.problems import Document
from gke_inference.catalogue.user_yaml import user_yaml
from gke_inference.settings import Settings
from scripts.rehearse.describe import Described
from scripts.terminal.console import CommandError
from simulator.demand.arrivals import Traffic
from simulator.demand.reading import read

MOST_BYTES = 1_000_000
_S = TypeVar("_S", bound=Settings)


def settings_of_file(file: Path, kind: type[_S], document: Document) -> _S:
    """Return the settings of a YAML file.

    Args:
        file: The file.
        kind: Class of the settings.
        document: Their schema, for messages.

    Raises:
        InputError: The file breaks a rule.
        OSError: It cannot be read.
    """
    size = file.stat().st_size
    if size > MOST_BYTES:
        raise InputError(str(file), f"must have at most {MOST_BYTES:,} bytes", size)
    try:
        content: Any = user_yaml(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError) as error:  # also a date or number that Python refuses
        raise InputError(str(file), f"must be YAML: {yaml_problem(error)}") from None
    try:
        return kind.model_validate(content, strict=False)
    except ValidationError as error:
        problem = document.problems_of(error, ())[0]
        raise problem.at(f"{file}: {problem.path}" if problem.path else str(file)) from None


def from_file(file: Path, described: Described, option: str = "--traffic") -> Traffic:
    """Return the traffic of a file, in which adapters count as their models.

    With one model, all requests are for it, whatever the file names.

    Raises:
        CommandError: The file cannot be read, or breaks a rule.
    """
    models = [model.name for model in described.platform.models]
    only = models[0] if len(models) == 1 else None
    try:
        found = read(file, {**{name: name for name in models}, **described.aliases}, only)
    except InputError as error:
        raise CommandError(f"{option}: {error}") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CommandError(f"{option}: must be readable, got {file}: {reason}") from None
    if found.seconds <= 0:
        raise CommandError(f"{option}: must span more than one moment, got {file}")
    return found
