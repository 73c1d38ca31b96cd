"""The configuration of an endpoint picker, and its pool."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import yaml

from policies.framework.reading import at, entries, section
from policies.framework.resources import Properties
from policies.objects.backends import pods_behind
from policies.objects.documents import LOADER
from policies.objects.engines import Engine, engine, leads
from policies.objects.index import Obj
from policies.objects.pods import Container
from policies.objects.world import World

_KIND = "EndpointPickerConfig"


@dataclass(frozen=True)
class PickerPlugin:
    """One plugin of a picker's configuration."""

    config: Obj
    field: str
    type: str
    parameters: Properties
    pools: tuple[Obj, ...]


def plugins(world: World) -> Iterator[PickerPlugin]:
    """Yield every plugin of every picker configuration in a ConfigMap, with its pools."""
    for config in world.of("ConfigMap"):
        for key, text in section(config.body, "data").items():
            document = _parsed(text)
            if at(document, "kind") != _KIND:
                continue
            pools = tuple(_pools(world, config))
            for index, plugin in enumerate(entries(document, "plugins")):
                yield PickerPlugin(
                    config,
                    f"data[{key}].plugins[{index}]",
                    str(at(plugin, "type")),
                    cast(Properties, at(plugin, "parameters") or {}),
                    pools,
                )


def servers_of(world: World, pool: Obj) -> list[Engine]:
    """Return the engines behind a pool that answer requests."""
    return [
        server
        for pod in pods_behind(world, pool)
        if leads(pod)
        for each in pod.containers
        if (server := engine(each)) is not None
    ]


def _parsed(text: object) -> Any:
    if not isinstance(text, str) or _KIND not in text:
        return None
    try:
        return yaml.load(text, Loader=LOADER)  # noqa: S506 (a safe loader, in C)
    except yaml.YAMLError:
        return None


def _pools(world: World, config: Obj) -> Iterator[Obj]:
    """Yield the pools whose picker mounts a ConfigMap."""
    for container in world.containers:
        name = container.line.flag("--pool-name")
        if name and container.pod.obj.namespace == config.namespace and _mounts(container, config):
            pool = world.find(
                "InferencePool",
                container.line.flag("--pool-namespace") or config.namespace,
                name,
            )
            if pool is not None:
                yield pool


def _mounts(container: Container, config: Obj) -> bool:
    return any(
        at(volume, "configMap", "name") == config.name for volume in container.pod.volumes.values()
    )
