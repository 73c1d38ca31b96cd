"""The web server of the model catalogue, in place of nginx.

`python -P static_server.py ADDRESS MOUNTS`, where MOUNTS is a JSON object of mount path to folder.

Its configuration is parsed as nginx parses it, so an unknown or misplaced directive ends the
server. It serves one `server` block with `listen`, `default_type` and `location [=] PATH`; a
location has `return`, also inside an `if` of `$request_method`, or `alias`. Any other directive of
nginx is refused, as this server would not act on it, except for those in `_WITHOUT_EFFECT`.
"""

import json
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import crossplane
from aiohttp import web

_CONFIGURATION: Final = "/etc/nginx/conf.d"
_WITHOUT_EFFECT: Final = frozenset({"access_log", "server_tokens"})
_DEFAULT_PORT: Final = 80
_DEFAULT_TYPE: Final = "text/plain"
_STATIC_METHODS: Final = frozenset({"GET", "HEAD"})
"""Methods of a file; nginx answers others with 405."""
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_NAMED: Final = 2
_OPERATORS: Final = {"=", "!=", "~", "!~"}
_Directive = dict[str, Any]


class ConfigurationError(Exception):
    """A configuration with which nginx would not start, or of which this server is not capable."""


class Answer(NamedTuple):
    """A status and a text."""

    status: int
    text: str = ""


@dataclass(frozen=True)
class Step:
    """A `return`, and the methods for which it holds; None: for all."""

    answer: Answer
    operator: str | None = None
    operand: str = ""

    def holds(self, method: str) -> bool:
        """Return whether a request with this method ends here."""
        if self.operator is None:
            return True
        if self.operator in {"=", "!="}:
            return (method == self.operand) == (self.operator == "=")
        return bool(re.search(self.operand, method)) == (self.operator == "~")


@dataclass(frozen=True)
class Location:
    """One `location` block."""

    exact: bool
    path: str
    steps: tuple[Step, ...] = ()
    file: str | None = None

    def answer(self, method: str = "GET") -> Answer | None:
        """Return the answer to a method; None: the content of `file`."""
        for step in self.steps:
            if step.holds(method):
                return step.answer
        if self.file is None:
            return Answer(404)
        return None if method in _STATIC_METHODS else Answer(405)


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
    """Read what a file in nginx's folder `conf.d` says.

    Raises:
        ConfigurationError: nginx would refuse it, or it has directives that are not served here.
    """
    port, content_type, locations = _DEFAULT_PORT, _DEFAULT_TYPE, list[Location]()
    for directive in _server(text):
        name, arguments = directive["directive"], directive["args"]
        given = str(arguments[0]).rpartition(":")[2] if arguments else ""
        if name == "listen" and len(arguments) == 1 and given.isdigit():
            port = int(given)
        elif name == "default_type":
            content_type = str(arguments[0])
        elif name == "location":
            locations.append(_location(directive))
        elif name not in _WITHOUT_EFFECT:
            raise _not_served(directive)
    return Site(port, content_type, tuple(locations))


def _server(text: str) -> list[_Directive]:
    """Return the directives of the one server block."""
    parse: Callable[..., _Directive] = crossplane.parse
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "nginx.conf"
        file.write_text(f"events {{}} http {{{text}\n}}\n")  # lines keep their numbers
        parsed = parse(str(file), single=True, strict=True)
        errors = [str(each["error"]).replace(f"{folder}/", "") for each in parsed["errors"]]
    if errors:
        raise ConfigurationError(f"nginx: [emerg] {errors[0]}")
    blocks: list[_Directive] = parsed["config"][0]["parsed"][1]["block"]
    for directive in blocks:
        if directive["directive"] != "server":
            raise _not_served(directive)
    if len(blocks) != 1:
        raise ConfigurationError(f"must have one server block, got {len(blocks)}")
    found: list[_Directive] = blocks[0]["block"]
    return found


def _location(directive: _Directive) -> Location:
    arguments: list[str] = directive["args"]
    exact = arguments[0] == "="
    if len(arguments) == _NAMED and not exact:
        raise _not_served(directive)
    steps: list[Step] = []
    file = None
    for inner in directive["block"]:
        if inner["directive"] == "return":
            steps.append(Step(_answer(inner)))
        elif inner["directive"] == "if":
            steps.append(_condition(inner))
        elif inner["directive"] == "alias":
            file = str(inner["args"][0])
        else:
            raise _not_served(inner)
    return Location(exact, arguments[-1], tuple(steps), file)


def _condition(directive: _Directive) -> Step:
    variable, operator, operand = (*directive["args"], "", "", "")[:3]
    block: list[_Directive] = directive["block"]
    is_return = [each["directive"] for each in block] == ["return"]
    if variable != "$request_method" or operator not in _OPERATORS or not is_return:
        raise _not_served(directive)
    try:
        re.compile(operand)
    except re.error as error:
        raise ConfigurationError(f"line {directive['line']}: {operand!r}: {error}") from None
    return Step(_answer(block[0]), operator, operand)


def _answer(directive: _Directive) -> Answer:
    status, text = (*directive["args"], "")[:2]
    if "$" in text or not str(status).isdigit() or int(status) in _REDIRECTS:
        raise _not_served(directive)
    return Answer(int(status), text)


def _not_served(directive: _Directive) -> ConfigurationError:
    words: str = " ".join([directive["directive"], *directive["args"]])
    return ConfigurationError(f"line {directive['line']}: the twin does not serve {words!r}")


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
        found = Answer(404) if location is None else location.answer(request.method)
        if found is not None:
            return web.Response(
                status=found.status, text=found.text, content_type=site.content_type
            )
        file = host_path(str(location and location.file), mounts)
        if not file.is_file():
            return web.Response(status=404)
        return web.Response(body=file.read_bytes(), content_type=site.content_type)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    return app


def main(address: str, mounts: dict[str, str]) -> None:
    """Serve until SIGTERM."""
    folder = mounts.get(_CONFIGURATION)
    files = sorted(Path(folder).glob("*.conf")) if folder else []
    text = "\n".join(file.read_text() for file in files)
    try:
        site = read_site(text)
    except ConfigurationError as error:
        sys.exit(str(error))
    web.run_app(
        application(site, mounts), host=address, port=site.port, access_log=None, print=None
    )


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
