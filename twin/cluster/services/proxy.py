"""A proxy from programs of a cluster to its Services by name: cluster DNS and kube-proxy in one.

On this machine, `NAME.NAMESPACE.svc` does not resolve and Service addresses are not routed.
Programs that call Services over HTTP get this proxy in `HTTP_PROXY` (`environment`). It looks up
the Service and forwards each request to the next of its ready pods. Its credentials name the pod of
the program: what NetworkPolicies drop on the way to the other pod fails (rule network.policies). It
forwards requests for loopback addresses unchanged: most clients bypass the proxy for these, by
themselves or because of `NO_PROXY`, but some do not.
"""

import asyncio
import base64
import ipaddress
import itertools
import threading
from collections.abc import Mapping
from pathlib import Path

import aiohttp
from aiohttp import web

from twin.cluster.base import podports
from twin.cluster.base.context import ClusterContext
from twin.cluster.base.informer import Informer
from twin.cluster.base.pod_network import PodNetwork
from twin.cluster.controlplane.konnectivity import backends
from twin.cluster.services import tunnel
from twin.host.ports import free_port
from twin.wire.kube import JsonObject

_CHECK_SECONDS = 0.5
_CONNECT_SECONDS = 5.0
_DEFAULT_PORT = 80
_HOP_BY_HOP = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection",
        "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""Hop-by-hop headers, which a proxy does not pass on (RFC 9110, section 7.6.1)."""


def environment(folder: Path, pod: JsonObject | None = None) -> dict[str, str]:
    """Return the environment variables for programs that call Services; empty without a proxy.

    Args:
        folder: Folder of the cluster.
        pod: Pod of the program; None for a program outside the cluster.
    """
    try:
        address = _file(folder).read_text().strip()
    except FileNotFoundError:
        return {}
    direct = "127.0.0.0/8,127.0.0.1,localhost"
    caller = ""
    if pod is not None:
        caller = f"{pod['metadata']['namespace']}:{pod['metadata']['name']}@"
    names = {"HTTP_PROXY": f"http://{caller}{address}", "NO_PROXY": direct}
    return {**names, **{name.lower(): value for name, value in names.items()}}


def _file(folder: Path) -> Path:
    return folder / "service-proxy"


def service_of(host: str) -> tuple[str, str]:
    """Return namespace and name of the Service of a host name.

    Raises:
        LookupError: the name is not `NAME.NAMESPACE.svc`, with or without `.cluster.local`.
    """
    name, _, rest = host.removesuffix(".").removesuffix(".cluster.local").partition(".")
    namespace, _, kind = rest.partition(".")
    if not namespace or kind != "svc":
        raise LookupError(f"host must be NAME.NAMESPACE.svc, got {host!r}")
    return namespace, name


class DroppedError(ConnectionError):
    """A connection between pods that NetworkPolicies do not allow."""


def caller_of(credentials: str) -> tuple[str, str] | None:
    """Return namespace and name of the pod in a `Proxy-Authorization` header; None for none."""
    scheme, _, encoded = credentials.partition(" ")
    try:
        namespace, colon, name = base64.b64decode(encoded).decode().partition(":")
    except ValueError:
        return None
    return (namespace, name) if scheme.lower() == "basic" and colon else None


class ServiceProxy:
    """The proxy of one cluster."""

    def __init__(self, context: ClusterContext) -> None:
        self._context = context
        wake = threading.Event()
        self._services = Informer(context.watches, "/api/v1/services", wake)
        self._pods = Informer(context.watches, "/api/v1/pods", wake)
        self._network = PodNetwork(context)
        self._turn = itertools.count()

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set, at the previous address after a restart."""
        for each in (self._services, self._pods):
            each.start(stop)
        self._network.start(stop)
        asyncio.run(self._serve(stop))

    async def _serve(self, stop: threading.Event) -> None:
        file = _file(self._context.dir)
        known = file.read_text().strip() if file.exists() else f"127.0.0.1:{free_port()}"
        host, _, port = known.partition(":")
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
        # a body passes unchanged, compressed or not
        async with aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as session:
            runner = web.ServerRunner(
                web.Server(lambda request: self._pass_on(session, request), access_log=None)
            )
            await runner.setup()
            await web.TCPSite(runner, host, int(port)).start()
            file.write_text(known + "\n")
            secure = await tunnel.serve(self._context.dir, self._secure_endpoint)
            while not stop.is_set():
                await asyncio.sleep(_CHECK_SECONDS)
            secure.close()
            await runner.cleanup()

    def _secure_endpoint(self, host: str, port: int, credentials: str) -> tuple[str, int]:
        return self._endpoint(host, port, caller_of(credentials))

    async def _pass_on(
        self, session: aiohttp.ClientSession, request: web.BaseRequest
    ) -> web.StreamResponse:
        try:
            address = self._endpoint(
                request.url.host or "",
                request.url.port or _DEFAULT_PORT,
                caller_of(request.headers.get("Proxy-Authorization", "")),
            )
        except LookupError as error:
            return web.Response(status=502, text=f"{error}\n")
        except DroppedError as error:
            return web.Response(status=504, text=f"{error}\n")
        body = request.content if request.can_read_body else None
        url = f"http://{address[0]}:{address[1]}{request.rel_url.raw_path_qs}"
        asked = session.request(
            request.method, url, data=body, headers=_kept(request.headers), allow_redirects=False
        )
        try:
            async with asked as answer:
                made = web.StreamResponse(status=answer.status, headers=_kept(answer.headers))
                await made.prepare(request)
                async for piece in answer.content.iter_any():
                    await made.write(piece)
                await made.write_eof()
                return made
        except aiohttp.ClientConnectorError as error:
            return web.Response(status=502, text=f"{error}\n")

    def _endpoint(self, host: str, port: int, caller: tuple[str, str] | None) -> tuple[str, int]:
        """Return the address of a ready pod behind a port of a Service.

        Raises:
            LookupError: The Service does not exist, or none of its pods is ready.
            DroppedError: NetworkPolicies close the way to the pod.
        """
        if _is_loopback(host):
            return host, port
        namespace, name = service_of(host)
        service = next((one for one in self._services.items() if _is(one, namespace, name)), None)
        if service is None:
            raise LookupError(f"no Service {namespace}/{name}")
        pods = [one for one in self._pods.items() if one["metadata"]["namespace"] == namespace]
        ready = backends(service, port, pods)
        if not ready:
            raise LookupError(f"Service {namespace}/{name}:{port} has no ready pod")
        pod, number = ready[next(self._turn) % len(ready)]
        sender = next((one for one in self._pods.items() if caller and _is(one, *caller)), None)
        dropped = sender and self._network.refusal(sender, pod, number)
        if dropped:
            raise DroppedError(dropped)
        return podports.resolve(self._context.dir, pod, number)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is(obj: JsonObject, namespace: str, name: str) -> bool:
    return (obj["metadata"]["namespace"], obj["metadata"]["name"]) == (namespace, name)


def _kept(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the headers that a proxy passes on, including repeated ones."""
    return [(name, value) for name, value in headers.items() if name.lower() not in _HOP_BY_HOP]
