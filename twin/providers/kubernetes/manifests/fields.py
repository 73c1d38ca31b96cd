"""Property paths: `spec.containers[0].image`, `metadata.annotations["a.b/c"]`."""

import re
from typing import Any, Final, cast

Path = tuple[str | int, ...]
MISSING: Final = object()
"""The result of `get` for a path without a value; `None` is a value."""

_STEP = re.compile(r"""\.?([^.\[\]"]+)|\[(\d+|\*)\]|\["((?:[^"\\]|\\.)*)"\]""")
_PLAIN = re.compile(r"[A-Za-z_$][\w$-]*\Z")


def parse(text: str) -> Path:
    """Return the steps of a path; `[*]` becomes the step `*`.

    Raises:
        ValueError: the text is not a property path.
    """
    steps: list[str | int] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            raise ValueError(f"{text!r} is not a property path")
        name, index, quoted = match.groups()
        if index is not None:
            steps.append("*" if index == "*" else int(index))
        else:
            steps.append(name if name is not None else re.sub(r"\\(.)", r"\1", quoted))
        position = match.end()
    return tuple(steps)


def render(path: Path) -> str:
    """Return a path in the engine's format."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN.match(step):
            text += f".{step}" if text else step
        else:
            escaped = step.replace("\\", "\\\\").replace('"', '\\"')
            text += f'["{escaped}"]'
    return text


def covers(pattern: Path, path: Path) -> bool:
    """Return whether a path matches the pattern or is below it; `*` matches any step."""
    return len(pattern) <= len(path) and all(
        wanted in ("*", step) for wanted, step in zip(pattern, path, strict=False)
    )


def touches(pattern: Path, path: Path) -> bool:
    """Return whether a change at `path` affects a match of `pattern`, from above or below."""
    return all(wanted in ("*", step) for wanted, step in zip(pattern, path, strict=False))


def get(value: Any, path: Path) -> Any:
    """Return the value at a path, or `MISSING`."""
    for step in path:
        if isinstance(value, dict) and step in value:
            value = cast(dict[Any, Any], value)[step]
        elif isinstance(value, list) and isinstance(step, int):
            items = cast(list[Any], value)
            if step >= len(items):
                return MISSING
            value = items[step]
        else:
            return MISSING
    return value


def section(value: Any, *steps: str) -> dict[str, Any]:
    """Return the mapping at a path of keys; empty if there is none."""
    found = get(value, steps)
    return cast(dict[str, Any], found) if isinstance(found, dict) else {}


def entries(value: Any, *steps: str) -> list[Any]:
    """Return the list at a path of keys; empty if there is none."""
    found = get(value, steps)
    return cast(list[Any], found) if isinstance(found, list) else []


def put(value: dict[str, Any], path: Path, new: Any) -> None:
    """Set the value at a path; missing mappings are created, list items must exist."""
    target: Any = value
    for step in path[:-1]:
        if isinstance(target, dict):
            target = cast(dict[Any, Any], target).setdefault(step, {})
        else:
            target = target[step]
    target[path[-1]] = new


def remove(value: dict[str, Any], path: Path) -> None:
    """Remove the value at a path, if any."""
    parent = get(value, path[:-1])
    if isinstance(parent, dict):
        cast(dict[Any, Any], parent).pop(path[-1], None)
