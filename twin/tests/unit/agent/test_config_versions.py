"""A pod reads its ConfigMaps and Secrets again only when the API server has newer ones."""

import threading
from collections.abc import Iterator
from typing import Any, cast

from twin.cluster.agent.config_versions import ConfigVersions
from twin.cluster.base.watches import Watches
from twin.tests.eventually import eventually


class Told:
    """Watches that tell what a test puts into them, and end with `stop`."""

    def __init__(self) -> None:
        self.events: dict[str, list[tuple[str, dict[str, Any]]]] = {
            "/api/v1/configmaps": [],
            "/api/v1/secrets": [],
        }

    def watch(
        self, path: str, stop: threading.Event, _selector: str | None = None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        told = 0
        while not stop.wait(0.01):
            for event in self.events[path][told:]:
                told += 1
                yield event


def config_map(version: str, namespace: str = "n") -> dict[str, Any]:
    metadata = {
        "name": "c",
        "namespace": namespace,
        "resourceVersion": version,
        "uid": f"{namespace}/c",
    }
    return {"metadata": metadata}


def test_versions_are_known_once_listed_and_follow_the_objects_of_the_namespace():
    told, stop = Told(), threading.Event()
    configs = ConfigVersions(cast(Watches, told))
    configs.start(stop)
    wanted = [("configmaps", "c"), ("secrets", "s")]
    maps = told.events["/api/v1/configmaps"]
    try:
        maps += [("ADDED", config_map("7")), ("SYNCED", {})]
        assert configs.of("n", wanted) is None  # secrets are not listed yet
        told.events["/api/v1/secrets"].append(("SYNCED", {}))
        eventually(lambda: configs.of("n", wanted) == ("7", ""))
        maps.append(("MODIFIED", config_map("9", "other")))
        maps.append(("MODIFIED", config_map("8")))
        eventually(lambda: configs.of("n", wanted) == ("8", ""))
        maps.append(("DELETED", config_map("8")))
        eventually(lambda: configs.of("n", wanted) == ("", ""))
    finally:
        stop.set()
