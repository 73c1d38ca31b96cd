"""Traffic from a file of any known form."""

import json
from collections.abc import Mapping
from pathlib import Path

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.user_yaml import user_file
from simulator.demand.arrivals import Traffic
from simulator.demand.columns import read_columns
from simulator.demand.generated import Generated
from simulator.demand.inference_perf import is_specification, read_specification
from simulator.demand.lines import check_size, first_line
from simulator.demand.mooncake import Mooncake
from simulator.demand.pattern import MOST_BYTES, read_pattern
from simulator.demand.rows import Names
from simulator.demand.servegen import read_clients
from simulator.demand.vllm_bench import read_result


def read(
    path: Path, models: Mapping[str, str] | None = None, only_model: str | None = None
) -> Traffic:
    """Return the traffic of a file; its form follows from its name and its first line.

    | file | form |
    |---|---|
    | folder | ServeGen's client traces |
    | `.yaml`, `.yml` | the own form, or a specification of inference-perf |
    | begins with `{` and has `timestamp` in its first line | Mooncake's traces |
    | begins with `{` | a result of `vllm bench serve` |
    | otherwise | columns: Azure's traces, BurstGPT's, or the own list; also with gzip |

    Args:
        path: File or folder.
        models: Platform's names of models by those in the file; a pattern keeps its own.
        only_model: Model of all requests, for files without names or instead of them.

    Raises:
        InputError: The file breaks a rule.
        OSError: It cannot be read.
    """
    names = Names(dict(models or {}), only_model)
    if path.is_dir():
        return read_clients(path, names)
    if path.suffix in {".yaml", ".yml"}:
        return _of_yaml(path, names)
    first = first_line(path)
    if not first.startswith("{"):
        return read_columns(path, names)
    try:
        is_line = "timestamp" in json.loads(first)
    except ValueError:
        is_line = False
    return Mooncake(path, names) if is_line else read_result(path, names)


def _of_yaml(path: Path, names: Names) -> Traffic:
    check_size(path, MOST_BYTES)
    document = user_file(path)
    if is_specification(document):
        return read_specification(path, names)
    pattern = read_pattern(path)
    if names.only is not None or names.renamed:
        renamed = {
            names.of(name, f"{path}: models.{name}"): r for name, r in pattern.models.items()
        }
        if len(renamed) < len(pattern.models):
            raise InputError(f"{path}: models", "must keep different names")
        pattern = pattern.model_copy(update={"models": renamed})
    return Generated(pattern)
