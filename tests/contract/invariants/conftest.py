"""A sound platform, and the small changes that fixtures make to it."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from policies.objects.documents import Document, Source

HERE = Path(__file__).parent
SHORT = {"@": ["spec", "template", "spec", "containers", 0], "^": ["spec", "template", "spec"]}


def steps(path: str | list[Any]) -> list[Any]:
    """Return a path as steps: `@.args` is of the first container, `^.volumes` of the pod."""
    parts = path.split(".") if isinstance(path, str) else path
    found: list[Any] = []
    for part in parts:
        found += SHORT.get(part, [int(part) if str(part).isdigit() else part])
    return found


def put(body: Any, path: str | list[Any], value: Any) -> None:
    """Set what lies at a path; None takes it away, `+` as the last step appends."""
    *way, last = steps(path)
    for step in way:
        body = body.setdefault(step, {}) if isinstance(body, dict) else body[step]
    if last == "+":
        body.append(value)
    elif value is None:
        del body[last]
    else:
        body[last] = value


def give(body: dict[str, Any], flag: str, value: str | None) -> None:
    """Set a flag of the first container's arguments; None takes it away."""
    args = body["spec"]["template"]["spec"]["containers"][0]["args"]
    kept = [arg for arg in args if arg.split("=")[0] != flag]
    body["spec"]["template"]["spec"]["containers"][0]["args"] = [
        *kept,
        *([] if value is None else [f"{flag}={value}" if value else flag]),
    ]


def changed(objects: list[dict[str, Any]], change: dict[str, Any]) -> list[dict[str, Any]]:
    """Return objects with a fixture's change: drop, set, args, add, in this order."""
    touched = {name for name, _, _ in change.get("set", ())} | set(change.get("args", {}))
    named = ((f"{body['kind']}/{body['metadata']['name']}", body) for body in objects)
    by_name = {name: copy.deepcopy(body) if name in touched else body for name, body in named}
    dropped = set(change.get("drop", ()))
    assert dropped <= set(by_name)
    for name, path, value in change.get("set", ()):
        put(by_name[name], path, value)
    for name, flags in change.get("args", {}).items():
        for flag, value in flags.items():
            give(by_name[name], flag, value)
    kept = [body for name, body in by_name.items() if name not in dropped]
    return [*kept, *change.get("add", ())]


def source(bodies: list[dict[str, Any]], resources: Any = None) -> Source:
    """Return objects as the source of one cluster."""
    return Source("here", tuple(Document("fixture.yaml", body) for body in bodies), resources)


@pytest.fixture(scope="session")
def sound() -> list[dict[str, Any]]:
    return list(yaml.load_all((HERE / "sound.yaml").read_text(), Loader=yaml.CSafeLoader))
