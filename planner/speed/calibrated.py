"""Calibration files: what engines of a running platform reach, beside what models of them say.

`gke-inference calibrate --write` writes one. The engine model multiplies its step times by the
factor of an entry; the planner takes the measured time between tokens as one more measurement.
"""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field, ValidationError

from gke_inference.catalogue.input_error import InputError, yaml_problem
from gke_inference.catalogue.problems import Document
from gke_inference.settings import Settings

_MOST_BYTES = 1_000_000
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
LEAST_FACTOR, MOST_FACTOR = 0.05, 20.0
"""Bounds of a factor; beyond them, the engine is another one than the model's."""
_Factor = Annotated[float, Field(ge=LEAST_FACTOR, le=MOST_FACTOR)]


class Entry(Settings):
    """A model on an accelerator, as measured."""

    model: Annotated[str, Field(min_length=1)]
    """Model ID."""
    accelerator: Annotated[str, Field(min_length=1)]
    """GKE's label value, such as nvidia-l4."""
    chips: Annotated[int, Field(ge=1, le=1024)]
    """Chips per replica."""
    engine: Annotated[str, Field(min_length=1)] = "vLLM"
    precision: Annotated[str, Field(min_length=1)]
    """Precision of the weights, as in planner/data/benchmarks.csv."""
    step_factor: _Factor
    """Measured step time over that of the engine model; 1 where the model holds."""
    step_factor_low: _Factor
    """Lower end of the factor's 95 % interval."""
    step_factor_high: _Factor
    """Upper end of the factor's 95 % interval."""
    tpot_ms: _Positive
    """Measured mean time between tokens."""
    batch: _Positive
    """Mean number of sequences per step."""
    input_tokens: _Positive
    """Mean tokens of a prompt."""
    output_tokens: _Positive
    """Mean tokens of an answer."""
    minutes: _Positive
    """Measured period."""
    measured: str
    """End of the period, in ISO 8601."""

    def row(self) -> Mapping[str, str]:
        """Return the entry as a measurement of the planner (`planner.speed.measured`)."""
        return {
            "model": self.model,
            "precision": self.precision,
            "engine": self.engine,
            "accelerator": self.accelerator,
            "chips": str(self.chips),
            "parallelism": f"TP{self.chips}",
            "input_tokens": f"{self.input_tokens:.0f}",
            "output_tokens": f"{max(self.output_tokens, 2):.0f}",
            "lengths": "mean of the requests",
            "load": f"{max(round(self.batch), 1)} concurrent",
            "requests": "",
            "link_gb_per_s": "",
            "output_tokens_per_second": "",
            "ttft_ms": "",
            "ttft_stat": "",
            "tpot_ms": f"{self.tpot_ms:.2f}",
            "tpot_stat": "mean",
            "date": self.measured[:10],
            "source": "gke-inference calibrate",
            "kind": "measured",
        }


class Calibration(Settings):
    """Entries of a calibration file."""

    entries: Annotated[tuple[Entry, ...], Field(min_length=1, max_length=1000)]

    def factor(self, model: str, accelerator: str, chips: int) -> Entry | None:
        """Return the entry of a model on chips; None if it was not measured."""
        wanted = (model, accelerator, chips)
        return next(
            (each for each in self.entries if (each.model, each.accelerator, each.chips) == wanted),
            None,
        )

    def with_entry(self, entry: Entry) -> "Calibration":
        """Return the calibration with an entry instead of an older one of the same replica."""
        key = (entry.model, entry.accelerator, entry.chips)
        kept = [e for e in self.entries if (e.model, e.accelerator, e.chips) != key]
        return Calibration(entries=(*kept, entry))


_DOCUMENT = Document(Calibration.model_json_schema, "is not a field of a calibration")


def read_calibration(path: Path) -> Calibration:
    """Return the calibration of a file.

    Raises:
        InputError: The file is not of this form.
        OSError: It cannot be read.
    """
    if (size := path.stat().st_size) > _MOST_BYTES:
        raise InputError(str(path), f"must have at most {_MOST_BYTES:,} bytes", size)
    try:
        found = Calibration.model_validate(
            yaml.safe_load(path.read_text(encoding="utf-8")), strict=False
        )
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(str(path), f"must be YAML: {yaml_problem(error)}") from None
    except ValidationError as error:
        problem = _DOCUMENT.problems_of(error, ())[0]
        raise problem.at(f"{path}: {problem.path}" if problem.path else str(path)) from None
    for number, entry in enumerate(found.entries):
        where = f"{path}: entries[{number}].measured"
        try:
            datetime.fromisoformat(entry.measured)
        except ValueError:
            raise InputError(where, "must be a time in ISO 8601", entry.measured) from None
    return found


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Write a calibration file."""
    document = calibration.model_dump(mode="json")
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
