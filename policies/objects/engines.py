"""Detects the engine in a container and parses its flags, by manifests.yaml in engines' folders."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from gke_inference.catalogue.engine_tables import tables
from gke_inference.catalogue.engines import engine as facts
from gke_inference.catalogue.engines import engine_names
from policies.objects.pods import Container, PodOf
from policies.objects.world import World


class Split(StrEnum):
    """What a model is split over if no flag sets its tensor parallelism."""

    ONE = "one"
    """One device."""
    ALL = "all"
    """All visible devices."""
    FILE = "file"
    """What a separate file of the weights says."""


@dataclass(frozen=True)
class Engine:
    """A model server in a container."""

    kind: str
    """Name of the engine's folder."""
    container: Container

    @property
    def port(self) -> int:
        """Port of its HTTP server, by default the engine's own."""
        value = self.container.line.flag("--port", "--http-port")
        return int(value) if value and value.isdigit() else self._facts["port"]

    @property
    def tensor(self) -> str | None:
        """Tensor parallelism as written, or None if not set."""
        return self._said("tensor")

    @property
    def pipeline(self) -> str | None:
        """Pipeline parallelism as written, or None if not set."""
        return self._said("pipeline")

    @property
    def local_replicas(self) -> str | None:
        """Copies of the model on one node (data parallelism), or None if not set."""
        return self._said("local_data")

    @property
    def replicas(self) -> str | None:
        """Copies of the model on all nodes (data parallelism), or None if not set."""
        return self._said("data")

    @property
    def has_expert_parallelism(self) -> bool:
        """Whether the experts of a mixture are spread over the devices of all its copies."""
        return bool({"--enable-expert-parallel", "-ep"} & set(self.container.line.words))

    @property
    def model(self) -> str | None:
        """The model: a name, path or URL, or None if not set."""
        said = self._said("model")
        words = self.container.line.words
        if said is None and "serve" in words[:-1]:
            said = words[words.index("serve") + 1]
        return said

    @property
    def served_names(self) -> list[str]:
        """Names that requests may use, adapters included. Empty if not known."""
        line = self.container.line
        names = line.values("--served-model-name") or ([self.model] if self.model else [])
        form = facts(self.kind).adapter_name if self.kind in engine_names() else "{adapter}"
        models = names if "{model}" in form else [""]
        adapters = (
            form.format(model=name, adapter=each) for name in models for each in self.adapters
        )
        return [*names, *adapters]

    @property
    def adapters(self) -> dict[str, str]:
        """LoRA adapters loaded at startup: name to path."""
        found: dict[str, str] = {}
        line = self.container.line
        for value in (*line.values("--lora-modules"), *line.values("--lora-paths")):
            name, separator, path = value.partition("=")
            if separator:
                found[name] = path
        return found

    @property
    def context(self) -> str | None:
        """Maximum sequence length in tokens as written, or None if not set."""
        return self._said("context")

    @property
    def version(self) -> tuple[int, ...] | None:
        """Release in the image tag, such as (0, 22, 0), or None if it has none."""
        tag = re.search(r":v?(\d+\.\d+(?:\.\d+)?)", self.container.image)
        return tuple(int(part) for part in tag[1].split(".")) if tag else None

    @property
    def health_paths(self) -> Sequence[str]:
        """Paths that answer 200 when the engine can serve, the usual one first; empty: unknown."""
        return self._facts.get("health_paths", ())

    @property
    def unset_split(self) -> Split:
        """What the model is split over if no flag sets its tensor parallelism."""
        return Split(self._facts["split"])

    @property
    def has_adapter_slots(self) -> bool:
        """Whether flags set how many adapters it has in memory."""
        return self._facts.get("adapter_slots", False)

    @property
    def _facts(self) -> Mapping[str, Any]:
        return _engines()[self.kind]

    def _said(self, meaning: str) -> str | None:
        value = self.container.line.flag(*_flags(meaning))
        if value is None:
            environment = self.container.environment
            for name in _variables(meaning):
                if name in environment:
                    return environment[name]
        return value or None


def engine(container: Container) -> Engine | None:
    """Return the model server in a container, or None if it runs something else.

    A container with an engine image and a custom command counts only if the command starts a server
    or names a model. Workers of a Ray cluster and sidecars do neither.
    """
    if container.is_init or container.line.has("--pool-name"):
        return None  # the latter is a picker, which names the engine's metrics
    words = container.line.text.lower()
    for kind, known in _engines().items():
        if not any(name in words or name in container.image.lower() for name in known["words"]):
            continue
        is_named = container.line.flag(*_flags("model"))
        if _serves(words) or not container.body.get("command") or is_named:
            return Engine(kind, container)
    return None


@cache
def _engines() -> Mapping[str, Mapping[str, Any]]:
    """Return what is known of the engines in manifests, in the order of the search."""
    return dict(sorted(tables("manifests.yaml").items(), key=lambda item: item[1]["order"]))


@cache
def _flags(meaning: str) -> tuple[str, ...]:
    """Return the flags of all engines that set something, such as `tensor`."""
    found = (known["flags"].get(meaning, ()) for known in _engines().values())
    return tuple(flag for flags in found for flag in flags)


@cache
def _variables(meaning: str) -> tuple[str, ...]:
    """Return the variables of all engines that set something."""
    found = (known.get("environment", {}).items() for known in _engines().values())
    return tuple(name for each in found for name, sets in each if sets == meaning)


def _serves(words: str) -> bool:
    return any(name in words for known in _engines().values() for name in known["servers"])


def engines(world: World) -> list[Engine]:
    """Return every model server of a world."""
    found = (engine(container) for container in world.containers)
    return [each for each in found if each is not None]


def leads(pod: PodOf) -> bool:
    """Return whether a pod answers requests. Workers of a group with a leader do not."""
    if pod.obj.kind == "RayCluster":
        return pod.role == "leader"
    return not (
        pod.role == "worker"
        and pod.obj.at("spec", "leaderWorkerTemplate", "leaderTemplate") is not None
    )
