"""Objects of a tree, with the checks that Config Sync makes before it calls the API server."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

from twin.wire.kube import JsonObject

_SUFFIXES = (".json", ".yaml", ".yml")


class TreeError(Exception):
    """The tree cannot be applied; the message is one line in Config Sync's format."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"KNV{code}: {' '.join(message.split())}")
        self.code = code


@dataclass(frozen=True)
class Declared:
    """One object of a tree."""

    obj: JsonObject
    file: str
    """Path below the tree."""

    @property
    def key(self) -> tuple[str, str, str]:
        """API version, kind and name."""
        return key_of(self.obj)


def key_of(obj: JsonObject) -> tuple[str, str, str]:
    """Return API version, kind and name of an object."""
    return str(obj["apiVersion"]), str(obj["kind"]), str(obj["metadata"]["name"])


def read_tree(folder: Path, namespace: str) -> list[Declared]:
    """Return the objects in the files of a tree, in the order of their paths.

    Args:
        folder: Folder of the tree.
        namespace: Namespace of the RepoSync, to which every object must belong.

    Raises:
        TreeError: A file is not valid YAML, or an object is not allowed.
    """
    found: list[Declared] = []
    for file in sorted(folder.rglob("*")):
        if file.suffix not in _SUFFIXES or not file.is_file():
            continue
        path = str(file.relative_to(folder))
        try:
            loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
            documents = list(yaml.load_all(file.read_text(encoding="utf-8"), loader))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise TreeError("1017", f"{path} is not YAML: {error}") from None
        found += [_declared(each, path, namespace) for each in documents if each is not None]
    keys = [each.key for each in found]
    for key in keys:
        if keys.count(key) > 1:
            raise TreeError("1029", f"{key[1]} {key[2]} is declared more than once")
    return found


def _declared(document: Any, path: str, namespace: str) -> Declared:
    metadata: Any = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict) or not metadata.get("name") or not document.get("kind"):
        raise TreeError("1017", f"{path} must have apiVersion, kind and metadata.name")
    where: Any = metadata.get("namespace", namespace)
    if where != namespace:
        message = f"{path}: a RepoSync of {namespace} must not have objects of {where}"
        raise TreeError("1058", message)
    placed: JsonObject = {**document, "metadata": {**metadata, "namespace": namespace}}
    return Declared(placed, path)


def projection(declared: Any, live: Any) -> Any:
    """Return the fields of a live object that a declared one sets.

    Two results differ only if a declared field was changed, because defaults and fields of
    controllers are omitted.
    """
    if isinstance(declared, dict) and isinstance(live, dict):
        now = cast("JsonObject", live)
        items = cast("JsonObject", declared).items()
        return {key: projection(value, now.get(key)) for key, value in items}
    if isinstance(declared, list) and isinstance(live, list) and len(declared) == len(live):
        pairs = zip(cast("list[Any]", declared), cast("list[Any]", live), strict=True)
        return [projection(one, other) for one, other in pairs]
    return live
