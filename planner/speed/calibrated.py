"""Calibration files: what engines of a running platform reach, beside what models of them say.

`gke-inference calibrate --write` writes one. The engine model multiplies its step times by the
factor of an entry; the planner takes the measured time between tokens as one more measurement.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, cast

import yaml
from pydantic import Field, ValidationError

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import Document
from gke_inference.catalogue.user_yaml import user_file
from gke_inference.settings import Settings

_MOST_BYTES = 1_000_000
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
SCHEMA = 2
"""Version of the file's form. Files without a number are of version 1: they named no stack, and had
entries for what the models hold."""
LEAST_FACTOR, MOST_FACTOR = 0.05, 20.0
"""Bounds of a factor; beyond them, the engine is another one than the model's."""
_Factor = Annotated[float, Field(ge=LEAST_FACTOR, le=MOST_FACTOR)]


Replica = tuple[str, str, str, int, str]
"""Model, engine, accelerator, chips and precision of weights."""


class Entry(Settings):
    """A model on an accelerator, as measured."""

    model: Annotated[str, Field(min_length=1)]
    """Model ID."""
    rung: Annotated[str, Field(min_length=1)]
    """Rung that was measured, such as `nvidia-l4 x1 on-demand`."""
    accelerator: Annotated[str, Field(min_length=1)]
    """GKE's label value, such as nvidia-l4."""
    chips: Annotated[int, Field(ge=1, le=1024)]
    """Chips per replica."""
    engine: Annotated[str, Field(min_length=1)] = "vLLM"
    """Title of the engine, such as SGLang."""
    precision: Annotated[str, Field(min_length=1)]
    """Precision of the weights, as in planner/data/benchmarks.csv."""
    step_factor: _Factor
    """Measured step time over that of the engine model."""
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

    @property
    def replica(self) -> Replica:
        """What a file has one entry of."""
        return self.model, self.engine, self.accelerator, self.chips, self.precision

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
    """Entries of a calibration file: only what differs from the models beyond noise."""

    schema_: Annotated[int, Field(alias="schema")] = SCHEMA
    """Version of the form."""
    stack: str | None = None
    """Stack that was measured; None for engines of no stack."""
    entries: Annotated[tuple[Entry, ...], Field(max_length=1000)]

    def updated(self, entries: Sequence[Entry], compared: Collection[Replica]) -> "Calibration":
        """Return the calibration with new entries instead of older ones of the same replicas.

        Args:
            entries: New entries.
            compared: Replicas that were compared. Those without a new entry lose their older one.
        """
        kept = [each for each in self.entries if each.replica not in compared]
        return Calibration(stack=self.stack, entries=(*kept, *entries))


_DOCUMENT = Document(Calibration.model_json_schema, "is not a field of a calibration")


def read_calibration(path: Path) -> Calibration:
    """Return the calibration of a file.

    Raises:
        InputError: The file is not of this form.
        OSError: It cannot be read.
    """
    if (size := path.stat().st_size) > _MOST_BYTES:
        raise InputError(str(path), f"must have at most {_MOST_BYTES:,} bytes", size)
    document = user_file(path)
    _check_schema(path, document)
    try:
        found = Calibration.model_validate(document, strict=False)
    except ValidationError as error:
        problem = _DOCUMENT.problems_of(error, ())[0]
        raise problem.at(f"{path}: {problem.path}" if problem.path else str(path)) from None
    for number, entry in enumerate(found.entries):
        where = f"{path}: entries[{number}].measured"
        try:
            datetime.fromisoformat(entry.measured)
        except ValueError:
            raise InputError(where, "must be a time in ISO 8601", entry.measured) from None
        low, high = entry.step_factor_low, entry.step_factor_high
        if not low <= entry.step_factor <= high or low <= 1 <= high:
            rule = "must be in its interval, which must not contain 1"
            got = f"{entry.step_factor:g} in {low:g} to {high:g}"
            raise InputError(f"{path}: entries[{number}].step_factor", rule, got)
    return found


def _check_schema(path: Path, document: object) -> None:
    """Refuse a file of another version before its fields, with what to do.

    Raises:
        InputError: It is not of this version.
    """
    if not isinstance(document, dict):
        return
    given = cast("dict[object, object]", document).get("schema", 1)
    if given != SCHEMA or isinstance(given, bool):
        rule = f"must be {SCHEMA}; write a new file with `gke-inference calibrate --write`"
        raise InputError(f"{path}: schema", rule, given)


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Write a calibration file."""
    document = calibration.model_dump(mode="json", by_alias=True)
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
