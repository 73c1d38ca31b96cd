"""What Apigee does with a request: its key, the product that covers it, and the quota of that.

Statuses and bodies are those of rule apigee.faults, and intervals those of rule apigee.quota.
"""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from twin.providers.gcp.apigee.organization import REQUESTS, App, Operations, Proxy

KEY_HEADER: Final = "x-api-key"
_UNAUTHORIZED: Final = 401
_TOO_MANY: Final = 429


@dataclass(frozen=True)
class Fault:
    """A refusal."""

    status: int
    text: str
    code: str

    @property
    def body(self) -> bytes:
        """The body of the response."""
        fault = {"faultstring": self.text, "detail": {"errorcode": self.code}}
        return json.dumps({"fault": fault}, separators=(",", ":")).encode()


NO_KEY: Final = Fault(
    _UNAUTHORIZED,
    "Raising fault. Fault name : RF-insufficient-request-raise-fault",
    "steps.raisefault.RaiseFault",
)
"""Of the proxy that the operator makes."""
UNRESOLVED_KEY: Final = Fault(
    _UNAUTHORIZED,
    f"Failed to resolve API Key variable request.header.{KEY_HEADER}",
    "steps.oauth.v2.FailedToResolveAPIKey",
)
"""Of a proxy with the policy VerifyAPIKey."""
UNKNOWN_KEY: Final = Fault(_UNAUTHORIZED, "Invalid ApiKey", "oauth.v2.InvalidApiKey")
NOT_COVERED: Final = Fault(
    _UNAUTHORIZED, "Invalid ApiKey for given resource", "oauth.v2.InvalidApiKeyForGivenResource"
)


def over_quota(app: App) -> Fault:
    """Return the refusal of a request whose app has used its quota up."""
    text = f"Rate limit quota violation. Quota limit  exceeded. Identifier : {app.key}"
    return Fault(_TOO_MANY, text, "policies.ratelimit.QuotaViolation")


@dataclass(frozen=True)
class Grant:
    """A request that may pass."""

    app: App
    counter: tuple[str, str, str]
    """Product, operation set and key."""
    operations: Operations


class Counters:
    """Requests or tokens of each app in its current interval, in memory."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._used: dict[tuple[str, str, str], tuple[float, int]] = {}

    def takes(self, grant: Grant, amount: int) -> bool:
        """Count, and return True, unless the quota is already used up.

        An interval begins with the first request after the last one ended.
        """
        with self._lock:
            began, used = self._current(grant)
            if used >= grant.operations.limit:
                return False
            self._used[grant.counter] = began, used + amount
        return True

    def add(self, grant: Grant, amount: int) -> None:
        """Count what a request has used, also beyond the quota."""
        with self._lock:
            began, used = self._current(grant)
            self._used[grant.counter] = began, used + amount

    def _current(self, grant: Grant) -> tuple[float, int]:
        now = self._clock()
        began, used = self._used.get(grant.counter, (now, 0))
        return (now, 0) if now - began >= grant.operations.seconds else (began, used)


def decide(
    proxy: Proxy,
    app_of: Callable[[str], App | None],
    counters: Counters,
    method: str,
    path: str,
    key: str | None,
) -> Grant | Fault:
    """Return whether a request may pass, and count it.

    Args:
        proxy: Proxy that the load balancer calls.
        app_of: Returns the app with a key.
        counters: Counters of quotas.
        method: Method of the request.
        path: Path of the request, without a query.
        key: The key that it has; None without one.
    """
    counts_requests = proxy.counts == REQUESTS
    if not key:
        return NO_KEY if counts_requests else UNRESOLVED_KEY
    app = app_of(key)
    if app is None:
        return UNKNOWN_KEY
    grant = _grant(proxy, app, method, path)
    if grant is None:
        return NOT_COVERED
    return grant if counters.takes(grant, int(counts_requests)) else over_quota(app)


def _grant(proxy: Proxy, app: App, method: str, path: str) -> Grant | None:
    known = {product.name: product for product in proxy.products}
    for name in app.products:
        product = known.get(name)
        if product is None or not product.is_automatic:
            continue
        for each in product.operations:
            if each.covers(method, path):
                return Grant(app, (product.name, each.name, app.key), each)
    return None
