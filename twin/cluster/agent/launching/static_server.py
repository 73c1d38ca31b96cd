"""The web server of the model catalogue: reads the few nginx directives that the catalogue uses.

`python -m twin.cluster.agent.launching.static_server ADDRESS MOUNTS`, where MOUNTS is a
JSON object of mount path to folder. Understood: `listen PORT;`, `default_type TYPE;` and
`location [=] PATH { … }` with `return CODE ["TEXT"];`, the text in quotes of either kind, or
`alias FILE;`. Anything else in a
configuration is ignored.
"""

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

_CONFIGURATION = "/etc/nginx/conf.d"
_LOCATION = re.compile(r"location\s+(=\s+)?(\S+)\s*\{((?:'[^']*'|[^}'])*)\}")
_RETURN = re.compile(r"return\s+(\d+)(?:\s+(?:\"([^\"]*)\"|'([^']*)'))?\s*;")
_ALIAS = re.compile(r"alias\s+(\S+)\s*;")
_DEFAULT_PORT = 8080


@dataclass(frozen=True)
class Location:
    """One `location` block."""

    exact: bool
    path: str
    status: int = 200
    text: str = ""
    file: str | None = None


@dataclass(frozen=True)
class Site:
    """One server block."""

    port: int
    content_type: str
    locations: tuple[Location, ...]

    def find(self, path: str) -> Location | None:
        """Return the location of a path: an exact one, else the longest prefix."""
        for location in self.locations:
            if location.exact and location.path == path:
                return location
        prefixes = [x for x in self.locations if not x.exact and path.startswith(x.path)]
        return max(prefixes, key=lambda location: len(location.path), default=None)


def read_site(text: str) -> Site:
    """Read a server block."""
    port = re.search(r"listen\s+(?:\S*:)?(\d+)", text)
    content_type = re.search(r"default_type\s+([^;]+);", text)
    locations: list[Location] = []
    for equals, path, body in _LOCATION.findall(text):
        answer, alias = _RETURN.search(body), _ALIAS.search(body)
        if answer:
            locations.append(
                Location(
                    bool(equals),
                    path,
                    int(answer.group(1)),
                    answer.group(2) or answer.group(3) or "",
                )
            )
        elif alias:
            locations.append(Location(bool(equals), path, file=alias.group(1)))
    return Site(
        int(port.group(1)) if port else _DEFAULT_PORT,
        content_type.group(1).strip() if content_type else "text/plain",
        tuple(locations),
    )


def host_path(path: str, mounts: dict[str, str]) -> Path:
    """Return the file behind a path of the container."""
    for mount in sorted(mounts, key=len, reverse=True):
        if path.startswith(mount.rstrip("/") + "/"):
            return Path(mounts[mount]) / path[len(mount) :].lstrip("/")
    return Path(path)


def application(site: Site, mounts: dict[str, str]) -> web.Application:
    """Return the server of a site."""

    async def answer(request: web.Request) -> web.Response:
        location = site.find(request.path)
        if location is None:
            return web.Response(status=404)
        if location.file is None:
            return web.Response(
                status=location.status, text=location.text, content_type=site.content_type
            )
        file = host_path(location.file, mounts)
        if not file.is_file():
            return web.Response(status=404)
        return web.Response(body=file.read_bytes(), content_type=site.content_type)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    return app


def main(address: str, mounts: dict[str, str]) -> None:
    """Serve until SIGTERM."""
    folder = Path(mounts.get(_CONFIGURATION, "/nonexistent"))
    text = "\n".join(file.read_text() for file in sorted(folder.glob("*.conf")))
    site = read_site(text)
    web.run_app(
        application(site, mounts), host=address, port=site.port, access_log=None, print=None
    )


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
