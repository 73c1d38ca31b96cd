"""Traffic of a file for a described stack."""

from pathlib import Path

from gke_inference.catalogue.input_error import InputError
from scripts.rehearse.describe import Described
from scripts.terminal.console import CommandError
from simulator.demand.arrivals import Traffic
from simulator.demand.reading import read


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
