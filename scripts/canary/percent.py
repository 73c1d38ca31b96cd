"""The share of a canary in a stack file, changed without touching comments."""

import io
import json
from functools import partial
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from infra.reading.load import KEY, PROJECT, STACKS, parse, platform_of, settings_in


def write_percent(stack: str, model: str, percent: int, folder: Path = STACKS) -> None:
    """Write the share of a model's canary into a stack file.

    Raises:
        StackError: The file is invalid, or would be with the share; it is unchanged.
    """
    file = folder / f"Pulumi.{stack}.yaml"
    platform_of(file)
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 120
    yaml.indent(mapping=2, sequence=4, offset=2)  # pyright: ignore[reportUnknownMemberType]
    document: Any = yaml.load(file.read_text(encoding="utf-8"))  # pyright: ignore[reportUnknownMemberType]
    platform: Any = document["config"][f"{PROJECT}:{KEY}"]
    platform["models"][model]["canary"]["percent"] = percent
    parse(json.dumps(platform), partial(settings_in, folder))
    text = io.StringIO()
    yaml.dump(document, text)  # pyright: ignore[reportUnknownMemberType]
    file.write_text(text.getvalue(), encoding="utf-8")
