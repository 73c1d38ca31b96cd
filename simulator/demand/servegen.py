"""ServeGen's client traces: a folder with two files for each client of a model."""

import ast
import csv
import json
import re
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gke_inference.catalogue.input_error import InputError
from simulator.demand.lines import check_size, lines
from simulator.demand.pattern import Kind, percentiles_of, table
from simulator.demand.rows import Names
from simulator.demand.streams import Curve, Stream, Streamed, block_of

_TRACE = re.compile(r"chunk-(\d+)-trace\.csv(\.gz)?")
_MOST_FILE = 256 << 20
_LEAST_CV, _MOST_CV = 0.1, 30.0
_COLUMNS = 6


def read_clients(folder: Path, names: Names) -> Streamed:
    """Return the traffic of a folder of client traces, each client as a team.

    `chunk-N-trace.csv` has lines without a header: start of a window in seconds, requests per
    second, CV of the gaps, and the fitted distribution with two parameters. `chunk-N-dataset.json`
    has, for windows of several hours, the probabilities of `input_tokens` and `output_tokens`
    as text (github.com/alibaba/ServeGen, README.md and servegen/clientpool.py). Of each client, the
    CV and the lengths are means over all windows, weighted by requests.

    Raises:
        InputError: The folder has no client, or a file is of another form.
    """
    found = sorted(
        (int(match[1]), path)
        for path in folder.iterdir()
        if (match := _TRACE.fullmatch(path.name)) is not None
    )
    if not found:
        raise InputError(str(folder), "must have files chunk-N-trace.csv of ServeGen")
    clients: list[tuple[str, Curve, Kind, NDArray[np.int32], NDArray[np.int32]]] = []
    for number, path in found:
        windows = _windows(path)
        if windows[:, 1].sum() == 0:
            continue
        kind = _kind(folder / f"chunk-{number}-dataset.json", windows)
        prompts = table(kind.prompt_tokens or 1)
        clients.append(
            (f"client-{number}", _curve(windows), kind, prompts, table(kind.output_tokens))
        )
    if not clients:
        raise InputError(str(folder), "must have clients with requests, got none")
    model = names.of(folder.name, f"{folder}: model")

    def make() -> list[Stream]:
        return [
            Stream(
                number, 0, 0, -1, kind, curve, block_of(len(clients)),
                np.full(65_536, number, np.int16), prompts, outputs, None, None,
            )
            for number, (_, curve, kind, prompts, outputs) in enumerate(clients)
        ]  # fmt: skip

    length = max(float(curve.seconds[-1]) for _, curve, *_ in clients)
    return Streamed((model,), length, make, tuple(name for name, *_ in clients))


def _windows(path: Path) -> NDArray[np.float64]:
    """Return start, rate and CV of each window."""
    found: list[tuple[float, float, float]] = []
    for number, text in lines(path):
        where = f"{path}:{number}"
        try:
            cells = next(csv.reader([text]))
        except csv.Error as error:
            raise InputError(where, f"must be comma-separated: {error}") from None
        if len(cells) != _COLUMNS:
            raise InputError(where, f"must have {_COLUMNS} columns", len(cells))
        try:
            start, rate, cv = (float(cell) for cell in cells[:3])
        except ValueError:
            raise InputError(where, "must begin with three numbers", text[:60]) from None
        if not 0 <= rate <= 1e6 or not 0 <= cv <= 1e6:
            raise InputError(f"{where}: rate and cv", "must be 0 to 1000000", f"{rate} and {cv}")
        if found and start <= found[-1][0]:
            raise InputError(f"{where}: start", "must be later than the line before", start)
        found.append((start, rate, cv))
    if len(found) < 2:
        raise InputError(str(path), "must have at least two windows", len(found))
    return np.array(found)


def _curve(windows: NDArray[np.float64]) -> Curve:
    lengths = np.diff(windows[:, 0])
    lengths = np.append(lengths, lengths[-1])
    knots = np.append(windows[:, 0], windows[-1, 0] + lengths[-1]) - windows[0, 0]
    return Curve(knots, np.append(0.0, np.cumsum(windows[:, 1] * lengths)))


def _kind(path: Path, windows: NDArray[np.float64]) -> Kind:
    if not path.is_file():
        raise InputError(str(path), "is required beside its trace")
    check_size(path, _MOST_FILE)
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        starts = sorted(int(each) for each in data)
        texts = [cast("dict[str, str]", data[str(each)]) for each in starts]
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(str(path), f"must be JSON with windows by their start: {error}") from None
    if not starts:
        raise InputError(str(path), "must have windows, got none")
    at = np.searchsorted(starts, windows[:, 0], side="right") - 1
    weights = np.bincount(np.maximum(at, 0), windows[:, 1], minlength=len(starts))
    rate = windows[:, 1].sum()
    cv = float(np.clip((windows[:, 1] * windows[:, 2]).sum() / rate, _LEAST_CV, _MOST_CV))
    lengths = {
        name: _lengths(path, name, texts, weights) for name in ("input_tokens", "output_tokens")
    }
    return Kind(
        share=1, gap_cv=cv, prompt_tokens=lengths["input_tokens"],
        output_tokens=lengths["output_tokens"],
    )  # fmt: skip


def _lengths(path: Path, name: str, texts: list[dict[str, str]], weights: NDArray[Any]) -> Any:
    total: dict[int, float] = {}
    for text, weight in zip(texts, weights, strict=True):
        try:
            shares: Any = ast.literal_eval(text.get(name, "{}"))
            for tokens, share in shares.items():
                key = max(1, int(tokens))
                total[key] = total.get(key, 0.0) + float(share) * max(float(weight), 1e-9)
        except (ValueError, SyntaxError, AttributeError, TypeError) as error:
            rule = f"must be probabilities by tokens: {error}"
            raise InputError(f"{path}: {name}", rule) from None
    if not total or min(total.values()) < 0 or sum(total.values()) <= 0:
        raise InputError(f"{path}: {name}", "must have lengths with probabilities")
    values = np.array(sorted(total))
    return percentiles_of(values, np.array([total[int(value)] for value in values]))
