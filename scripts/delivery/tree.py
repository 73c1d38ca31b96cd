"""The objects of a serving stack as a reproducible tree of files."""

import hashlib
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, cast

import yaml

from gke_inference.serving.launcher.spec import DELIVERED, NEEDS
from scripts.shared.preview_states import NOT_KNOWN
from scripts.terminal.console import CommandError

SUMS: Final = "SHA256SUMS"
"""File with the digests of a folder's objects, as `sha256sum --check` reads it. Neither Config Sync
nor Argo CD reads files without the suffix of YAML or JSON."""
STACK: Final = "STACK"
"""File with the name of a folder's stack."""
_HIDDEN: Final = "[secret]"
"""Text that the engine prints for a secret value."""
_OF_PULUMI: Final = "pulumi.com/"
_SYNC_KINDS: Final = ("AppProject", "Application", "RepoSync", "RootSync")
_SCALED: Final = ("Deployment", "LeaderWorkerSet")
Object = dict[str, Any]


@dataclass(frozen=True)
class Tree:
    """Files by their path below the folder of the source."""

    files: Mapping[str, str]

    @property
    def digest(self) -> str:
        """Digest of all files: `sha256:` and 64 hexadecimal digits."""
        found = hashlib.sha256()
        for path, text in sorted(self.files.items()):
            found.update(f"{hashlib.sha256(text.encode()).hexdigest()}  {path}\n".encode())
        return f"sha256:{found.hexdigest()}"

    @property
    def objects(self) -> int:
        """Number of objects."""
        return sum(1 for path in self.files if PurePosixPath(path).name not in (STACK, SUMS))


def tree_of(stack: str, namespace: str, folders: Mapping[str, list[Object]]) -> Tree:
    """Return the tree of a serving stack.

    Args:
        stack: Its name.
        namespace: Namespace of the team, in which every object must be.
        folders: Objects by the folder of their cluster.

    Raises:
        CommandError: Objects must not be in Git, or cannot be applied from it; names all of them.
    """
    files: dict[str, str] = {}
    problems: list[str] = []
    for folder, found in folders.items():
        objects = [obj for obj in found if obj["kind"] not in _SYNC_KINDS]
        targets = {name for obj in objects if (name := _target(obj)) is not None}
        own: dict[str, str] = {}
        for obj in objects:
            problems += _problems(obj, namespace)
            own[_file_name(obj)] = _text(_clean(obj, targets))
        if len(own) != len(objects):
            problems.append(
                f"{folder}: must have only one object of each kind and name, got several"
            )
        own[SUMS] = "".join(
            f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n"
            for name, text in sorted(own.items())
        )
        own[STACK] = f"{stack}\n"
        files |= {str(PurePosixPath(folder) / name): text for name, text in own.items()}
    if problems:
        raise CommandError("; ".join(problems))
    return Tree(dict(sorted(files.items())))


def write_tree(tree: Tree, root: Path) -> bool:
    """Write a tree below a folder and return whether something changed.

    Folders of clusters are replaced completely, which removes objects that the stack dropped.

    Raises:
        CommandError: A folder has something that no `render` wrote, or is of another stack; nothing
            is changed.
    """
    folders = _folders(tree, root)
    for folder in folders:
        marker = folder / STACK
        own = tree.files[str(marker.relative_to(root))].strip()
        if marker.is_file() and (other := marker.read_text(encoding="utf-8").strip()) != own:
            raise CommandError(
                f"--git: {folder} must be from the stack {own!r}, got one of {other!r}; give each"
                " stack its own delivery.source.directory"
            )
        if folder.is_dir() and any(folder.iterdir()) and not (folder / SUMS).is_file():
            raise CommandError(
                f"--git: {folder} must be empty or written by render, because all of its content is"
                " replaced"
            )
    if is_written(tree, root):
        return False
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    for path, text in tree.files.items():
        (root / path).write_text(text, encoding="utf-8")
    return True


def is_written(tree: Tree, root: Path) -> bool:
    """Return whether the folders of a tree have its files and no others."""
    found = {
        str(file.relative_to(root)): file.read_text(encoding="utf-8")
        for folder in _folders(tree, root)
        for file in folder.glob("*")
        if file.is_file()
    }
    return found == dict(tree.files)


def _folders(tree: Tree, root: Path) -> list[Path]:
    return sorted({root / PurePosixPath(path).parent for path in tree.files})


def _file_name(obj: Object) -> str:
    group = obj["apiVersion"].rpartition("/")[0] or "core"
    return f"{obj['kind'].lower()}.{group}-{obj['metadata']['name']}.yaml"


def _text(obj: Object) -> str:
    return yaml.safe_dump(obj, sort_keys=True, width=100, allow_unicode=True)


def _target(obj: Object) -> tuple[str, str] | None:
    """Return kind and name of an autoscaler's target; None for another object."""
    if obj["kind"] != "HorizontalPodAutoscaler":
        return None
    target = obj["spec"]["scaleTargetRef"]
    return str(target["kind"]), str(target["name"])


def _clean(obj: Object, targets: set[tuple[str, str]]) -> Object:
    """Return an object without fields that Pulumi or the cluster manages.

    Replicas that an autoscaler or the weights gate sets are not in the tree, because applying it
    would reset them.
    """
    metadata = dict(obj["metadata"])
    notes: dict[str, str] = metadata.pop("annotations", None) or {}
    kept = {key: value for key, value in notes.items() if not key.startswith(_OF_PULUMI)}
    spec = obj.get("spec")
    made = {key: value for key, value in obj.items() if key != "status"}
    if obj["kind"] in _SCALED and isinstance(spec, dict):
        is_gated = NEEDS in kept
        if is_gated or (obj["kind"], metadata["name"]) in targets:
            kept_spec = cast("dict[str, Any]", spec)
            made["spec"] = {key: value for key, value in kept_spec.items() if key != "replicas"}
        if is_gated:
            kept[DELIVERED] = "git"
    if kept:
        metadata["annotations"] = kept
    return {**made, "metadata": metadata}


def _problems(obj: Object, namespace: str) -> Iterator[str]:
    """Yield the reasons why an object must not be in the tree."""
    name = f"{obj['kind']} {obj['metadata']['name']}"
    if obj["kind"] == "Secret":
        yield (
            f"{name}: must not be in git; keep the value in Secret Manager, and name the secret"
            " where it is used"
        )
    where = obj["metadata"].get("namespace")
    if where != namespace:
        yield f"{name}: must be in the namespace {namespace}, got {where!r}"
    for path, why in _unwritable(obj, ""):
        yield f"{name}: {path} {why}"


def _unwritable(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the paths of values that are unknown or secret in a preview, with the rule."""
    if isinstance(value, str):
        if NOT_KNOWN in value:
            yield path, "must be known before `up`, got a value that only the cloud knows"
        if value == _HIDDEN:
            yield path, "must not be secret: it would be in git"
    elif isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            yield from _unwritable(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for at, item in enumerate(cast("list[Any]", value)):
            yield from _unwritable(item, f"{path}[{at}]")
