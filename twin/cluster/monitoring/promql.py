"""Queries of a Prometheus server over its HTTP API."""

import http.client
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

_SECONDS = 10.0
_LOADED = "prometheus_config_last_reload_success_timestamp_seconds"


class QueryError(Exception):
    """Prometheus does not answer or returned an error, whose message this is."""


@dataclass(frozen=True)
class Sample:
    """A sample of one series."""

    labels: dict[str, str]
    """Labels, without the metric's name if the expression drops it."""
    value: float
    time: float
    """Seconds since 1970."""


@dataclass(frozen=True)
class Series:
    """One series over a time range."""

    labels: dict[str, str]
    points: tuple[tuple[float, float], ...]
    """Seconds since 1970 and value, by time."""


History = Callable[[str, float, float, float], Sequence[Series]]
"""Returns the series of an expression from a start to an end (seconds since 1970), by a step."""


def query(address: str, expression: str, at: float | None = None) -> list[Sample]:
    """Return the instant vector of an expression.

    Args:
        address: host and port of Prometheus.
        expression: PromQL expression; a scalar becomes one sample without labels.
        at: evaluation time in seconds since 1970; default: now.

    Raises:
        QueryError: Prometheus does not answer, or rejected the expression.
    """
    fields = {"query": expression} | ({} if at is None else {"time": f"{at:.3f}"})
    return samples(json.loads(_ask(address, "POST", "/api/v1/query", urlencode(fields))))


def samples(answer: dict[str, Any]) -> list[Sample]:
    """Return the instant vector of a response; a scalar is one sample without labels."""
    data = answer["data"]
    if data["resultType"] == "scalar":
        return [Sample({}, float(data["result"][1]), float(data["result"][0]))]
    return [
        Sample(dict(item["metric"]), float(item["value"][1]), float(item["value"][0]))
        for item in data["result"]
    ]


def query_range(
    address: str, expression: str, start: float, end: float, step: float
) -> list[Series]:
    """Return an expression's series over a time range.

    Args:
        address: host and port of Prometheus.
        expression: PromQL expression.
        start: start time in seconds since 1970.
        end: end time in seconds since 1970.
        step: interval between points, in seconds.

    Raises:
        QueryError: Prometheus does not answer, or rejected the expression.
    """
    fields = {"query": expression, "start": start, "end": end, "step": step}
    body = urlencode(fields)
    text = _ask(address, "POST", "/api/v1/query_range", body)
    try:
        return series(json.loads(text))
    except (KeyError, TypeError, ValueError):
        raise QueryError(f"{address}: is no Prometheus, got {text[:60]!r}") from None


def series(answer: dict[str, Any]) -> list[Series]:
    """Return the series of a response to a query over a time range.

    Raises:
        KeyError, TypeError, ValueError: It is no such response.
    """
    return [
        Series(dict(item["metric"]), tuple((float(at), float(v)) for at, v in item["values"]))
        for item in answer["data"]["result"]
    ]


def metric_type(address: str, name: str) -> str | None:
    """Return the type of a scraped metric, such as `gauge`; None for an unknown one.

    Raises:
        QueryError: Prometheus does not answer.
    """
    fields = urlencode({"metric": name})
    found: dict[str, Any] = json.loads(_ask(address, "GET", f"/api/v1/metadata?{fields}"))["data"]
    return str(found[name][0]["type"]) if found.get(name) else None


def has_series(address: str, name: str) -> bool:
    """Return whether a Prometheus has ever stored a series.

    Raises:
        QueryError: Prometheus does not answer.
    """
    fields = urlencode({"match[]": f'{{__name__="{name}"}}', "limit": 1})
    return bool(json.loads(_ask(address, "GET", f"/api/v1/series?{fields}"))["data"])


def is_ready(address: str) -> bool:
    """Return whether Prometheus answers queries."""
    try:
        _ask(address, "GET", "/-/ready")
    except QueryError:
        return False
    return True


def last_loaded(address: str) -> float:
    """Return when Prometheus last loaded its configuration, in seconds since 1970.

    Raises:
        QueryError: Prometheus does not answer.
    """
    for line in _ask(address, "GET", "/metrics").splitlines():
        if line.startswith(f"{_LOADED} "):
            return float(line.rsplit(" ", 1)[1])
    raise QueryError(f"Prometheus at {address}: its metrics do not have {_LOADED}")


def _ask(address: str, method: str, path: str, body: str | None = None) -> str:
    host, port = address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=_SECONDS)
    headers = {"Content-Type": "application/x-www-form-urlencoded"} if body else {}
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
    except (OSError, http.client.HTTPException) as error:
        raise QueryError(f"Prometheus at {address}: {error}") from error
    finally:
        connection.close()
    if answer.status != http.HTTPStatus.OK:
        raise QueryError(_reason(text) or f"Prometheus at {address}: status {answer.status}")
    return text


def _reason(text: str) -> str:
    try:
        return str(json.loads(text).get("error", ""))
    except ValueError:
        return text.strip()
