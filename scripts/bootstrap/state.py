"""The state of a project's bootstrap: first on this machine, then in the bucket it created.

If the bucket has resources of the state, it is authoritative, and a copy on this machine is left
from a killed run. A move writes the whole state to its new place in one write before it removes the
old one.
"""

import json
import shutil
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from pulumi import automation

from infra.bootstrap.settings import Project
from scripts.shared.google_cloud import Cloud, NotFound
from twin.host import processes

NAME: Final = "gke-inference-bootstrap"
"""Name of the Pulumi project; its stack has the name of the Google Cloud project."""
_STATE: Final = ".pulumi"
_OURS: Final = tuple(
    f"{_STATE}/{folder}/{NAME}/"
    for folder in ("backups", "history", "locks/organization", "stacks")
)
_STACKS: Final = f"{_STATE}/stacks/"
_SUFFIXES: Final = (".json", ".json.gz", ".json.zst")


@dataclass(frozen=True)
class Surroundings:
    """Paths with which the engine runs."""

    cli: Path
    """The program `pulumi`, in a folder `bin`."""
    environment: Mapping[str, str]
    folder: Path
    """Folder of this project on this machine."""


class State:
    """The state of one project's bootstrap, wherever it is."""

    def __init__(self, project: Project, cloud: Cloud, surroundings: Surroundings) -> None:
        self._project, self._cloud, self._surroundings = project, cloud, surroundings
        self._local = surroundings.folder / "state"
        self._objects = f"storage.googleapis.com/storage/v1/b/{project.bucket}/o"

    @property
    def is_in_bucket(self) -> bool:
        """Whether the bucket exists and has resources of this state."""
        try:
            found = self._read(f"{_STACKS}{NAME}/{self._project.id}.json")
        except NotFound:
            return False
        checkpoint: dict[str, Any] = found.get("checkpoint") or {}
        latest: dict[str, Any] = checkpoint.get("latest") or {}
        return bool(latest.get("resources"))

    @property
    def exists(self) -> bool:
        """Whether a state exists in either place."""
        return self._is_here or self.is_in_bucket

    @property
    def _is_here(self) -> bool:
        return (self._local / _STACKS / NAME / f"{self._project.id}.json").exists()

    def open(self) -> automation.Stack:
        """Return the stack with the state; without one, a new stack on this machine."""
        return self._open("bucket" if self.is_in_bucket else "local")

    def move_to_bucket(self, stack: automation.Stack) -> None:
        """Move the state of a stack that `open` returned into the bucket, unless it has one."""
        if not self.is_in_bucket:
            self._open("bucket").import_stack(stack.export_stack())
        shutil.rmtree(self._local, ignore_errors=True)

    def move_here(self, stack: automation.Stack) -> automation.Stack:
        """Move the state to this machine before the bucket is deleted, and return its stack."""
        if not self.is_in_bucket:
            return stack
        shutil.rmtree(self._local, ignore_errors=True)
        local = self._open("local")
        local.import_stack(stack.export_stack())
        stack.workspace.remove_stack(self._project.id, force=True)
        return local

    def forget(self) -> None:
        """Remove the state from this machine."""
        shutil.rmtree(self._surroundings.folder, ignore_errors=True)

    def others(self) -> list[str]:
        """Return other contents of the bucket: stacks as PROJECT/NAME, and names of objects.

        Raises:
            scripts.shared.google_cloud.CloudError: Google refused.
        """
        found: list[str] = []
        for name in self._names(""):
            if name.startswith(_OURS) or name == f"{_STATE}/meta.yaml":
                continue
            if not name.startswith(f"{_STATE}/"):
                found.append(name)
            elif name.startswith(_STACKS) and name.endswith(_SUFFIXES):
                found.append(name.removeprefix(_STACKS).partition(".json")[0])
        return found

    def _open(self, place: str) -> automation.Stack:
        surroundings, project = self._surroundings, self._project.id
        work = surroundings.folder / "work" / place
        shutil.rmtree(work, ignore_errors=True)  # its settings belong to another encryption
        work.mkdir(parents=True)
        if place == "local":
            self._local.mkdir(exist_ok=True)
            self._unlock_local()
            url = f"file://{self._local}?metadata=skip"
        else:
            self._unlock_bucket()
            url = f"gs://{self._project.bucket}"
        workspace = automation.LocalWorkspace(
            work_dir=str(work),
            env_vars={
                **surroundings.environment,
                "PULUMI_BACKEND_URL": url,
                "PULUMI_CONFIG_PASSPHRASE": "",  # the state has no secrets
                "PULUMI_DIY_BACKEND_GZIP": "false",
                "PULUMI_DIY_BACKEND_ZSTD": "false",
            },
            project_settings=automation.ProjectSettings(NAME, "python"),
            # written to a file: a call of the CLI for it would take as long as for the stack
            stack_settings={
                project: automation.StackSettings(
                    config={
                        "gcp:project": project,
                        "gcp:billingProject": project,
                        "gcp:userProjectOverride": "true",
                    }
                )
            },
            pulumi_command=self._command,
        )
        if place == "local" and not self._is_here:
            return automation.Stack.create(project, workspace)
        return automation.Stack.create_or_select(project, workspace)

    @cached_property
    def _command(self) -> automation.PulumiCommand:
        """The CLI; to make this object runs it once."""
        return automation.PulumiCommand(root=str(self._surroundings.cli.parent.parent))

    @property
    def _locks(self) -> str:
        return f"{_STATE}/locks/organization/{NAME}/{self._project.id}/"

    def _unlock_local(self) -> None:
        for file in (self._local / self._locks).glob("*.json"):
            if _is_dead(json.loads(file.read_text())):
                file.unlink()

    def _unlock_bucket(self) -> None:
        for name in self._names(self._locks):
            if _is_dead(self._read(name)):
                self._cloud.delete(f"{self._objects}/{quote(name, safe='')}")

    def _read(self, name: str) -> dict[str, Any]:
        return self._cloud.get(f"{self._objects}/{quote(name, safe='')}", alt="media")

    def _names(self, prefix: str) -> Iterator[str]:
        """Yield the names of the bucket's objects; none if there is no bucket."""
        page: dict[str, str] = {}
        while True:
            try:
                answer = self._cloud.get(self._objects, prefix=prefix, **page)
            except NotFound:
                return
            items: list[dict[str, Any]] = answer.get("items") or []
            yield from (str(item["name"]) for item in items)
            if not answer.get("nextPageToken"):
                return
            page = {"pageToken": str(answer["nextPageToken"])}


def _is_dead(lock: Mapping[str, Any]) -> bool:
    """Return whether a lock belongs to a process of this machine that has ended."""
    is_here = lock.get("hostname") == socket.gethostname()
    return is_here and processes.started_at(int(lock.get("pid") or 0)) is None
