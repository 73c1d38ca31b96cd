"""The Apigee organizations of the twin: proxies that operators made, and apps of developers.

Each cluster writes the proxies of its Apigee Operator to a file. Apps are resources of the cloud.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from twin.host.paths import TwinPaths
from twin.providers.gcp.resources.identity import names_in
from twin.wire.property_values import Json, as_list, get_path
from twin.world.store import Store

APP: Final = "gcp:apigee/developerApp:DeveloperApp"
PROXIES_FILE: Final = "apigee.json"
"""File in the folder of a cluster: `{"proxies": {NAME: Proxy.plain}}`."""
REQUESTS: Final = "requests"
TOKENS: Final = "tokens"
_APPROVED: Final = "approved"
_UNIT_SECONDS: Final = {
    "minute": 60,
    "hour": 3600,
    "day": 86_400,
    "week": 7 * 86_400,
    "month": 30 * 86_400,
}


@dataclass(frozen=True)
class Operations:
    """An operation set of a product, with its quota."""

    name: str
    paths: tuple[tuple[str, tuple[str, ...]], ...]
    """Paths, in which `*` is a segment and `**` anything, with their methods."""
    limit: int
    """Requests, or tokens, of an app in the interval."""
    seconds: int
    """Length of the interval."""

    def covers(self, method: str, path: str) -> bool:
        """Return whether a request is one of the operations."""
        return any(method in methods and _matches(own, path) for own, methods in self.paths)


@dataclass(frozen=True)
class Product:
    """An API product."""

    name: str
    is_automatic: bool
    """Whether keys need no approval."""
    operations: tuple[Operations, ...]


@dataclass(frozen=True)
class Proxy:
    """An API proxy with an extension processor."""

    name: str
    project: str
    """Project of its organization."""
    counts: str
    """`requests` or `tokens`."""
    products: tuple[Product, ...]

    @property
    def plain(self) -> Json:
        """This proxy as JSON."""
        products = [
            {
                "name": product.name,
                "automatic": product.is_automatic,
                "operations": [
                    {
                        "name": each.name,
                        "paths": [[path, list(methods)] for path, methods in each.paths],
                        "limit": each.limit,
                        "seconds": each.seconds,
                    }
                    for each in product.operations
                ],
            }
            for product in self.products
        ]
        return {"project": self.project, "counts": self.counts, "products": products}


@dataclass(frozen=True)
class App:
    """An app of a developer."""

    name: str
    key: str
    products: tuple[str, ...]
    """Names of its products."""


def interval_seconds(quota: Json) -> int:
    """Return the interval of a quota of an APIOperationSet (rule apigee.quota)."""
    return int(quota["interval"]) * _UNIT_SECONDS[str(quota["timeUnit"])]


def write_proxies(folder: Path, proxies: list[Proxy]) -> None:
    """Replace the proxies of a cluster, if they differ."""
    file = folder / PROXIES_FILE
    text = json.dumps({"proxies": {each.name: each.plain for each in proxies}}, sort_keys=True)
    if file.exists() and file.read_text() == text:
        return
    if not proxies and not file.exists():
        return
    part = file.with_suffix(".part")
    part.write_text(text)
    part.replace(file)


def proxy_named(paths: TwinPaths, name: str) -> Proxy | None:
    """Return the proxy with a name, or None."""
    for file in sorted((paths.root / "clusters").glob(f"*/{PROXIES_FILE}")):
        try:
            found: Any = json.loads(file.read_text())["proxies"].get(name)
        except FileNotFoundError:
            continue  # the cluster went away just now
        if found is not None:
            return _proxy(name, found)
    return None


def _proxy(name: str, plain: Json) -> Proxy:
    products = tuple(
        Product(
            name=each["name"],
            is_automatic=each["automatic"],
            operations=tuple(
                Operations(
                    name=one["name"],
                    paths=tuple((path, tuple(methods)) for path, methods in one["paths"]),
                    limit=one["limit"],
                    seconds=one["seconds"],
                )
                for one in each["operations"]
            ),
        )
        for each in plain["products"]
    )
    return Proxy(name, plain["project"], plain["counts"], products)


def apps(store: Store, project: str) -> Iterator[App]:
    """Yield the apps of the organization of a project, with each key of theirs."""
    for record in store.find(APP):
        if record.status == "creating" or record.outputs.get("orgId") != f"organizations/{project}":
            continue
        if record.outputs.get("status", _APPROVED) != _APPROVED:
            continue
        products = tuple(names_in(record.outputs.get("apiProducts")))
        for each in as_list(record.outputs.get("credentials")) or []:
            yield App(record.name, str(get_path(each, "consumerKey")), products)


def app_with(store: Store, project: str, key: str) -> App | None:
    """Return the app of an organization that has a key, or None."""
    return next((app for app in apps(store, project) if app.key == key), None)


def _matches(pattern: str, path: str) -> bool:
    parts = re.split(r"(\*\*|\*)", pattern)
    spelled = {"**": ".*", "*": "[^/]+"}
    return bool(re.fullmatch("".join(spelled.get(p, re.escape(p)) for p in parts), path))
