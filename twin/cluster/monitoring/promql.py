"""Asks a Prometheus over its HTTP interface."""

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

_SECONDS = 10.0


class QueryError(Exception):
    """Prometheus does not answer, or refused; the message is its own."""


@dataclass(frozen=True)
class Sample:
    """One series at one moment."""

    labels: dict[str, str]
    """Without the metric's name where the expression drops it."""
    value: float
    time: float
    """Seconds since 1970."""


@dataclass(frozen=True)
class Series:
    """One series over some time."""

    labels: dict[str, str]
    points: tuple[tuple[float, float], ...]
    """Seconds since 1970 and value, by time."""


def query(address: str, expression: str, at: float | None = None) -> list[Sample]:
    """Return the instant vector of an expression.

    Args:
        address: host and port.
        expression: in PromQL; a scalar becomes one sample without labels.
        at: seconds since 1970; default now.

    Raises:
        QueryError: it does not answer, or refused the expression.
    """
    fields = {"query": expression} | ({} if at is None else {"time": f"{at:.3f}"})
    return samples(json.loads(_ask(address, "POST", "/api/v1/query", urlencode(fields))))


def samples(answer: dict[str, Any]) -> list[Sample]:
    """Return the instant vector of an answer to a query; a scalar is one sample without labels."""
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
    """Return an expression's series over some time.

    Args:
        address: host and port.
        expression: in PromQL.
        start: seconds since 1970.
        end: seconds since 1970.
        step: seconds between two points.

    Raises:
        QueryError: it does not answer, or refused the expression.
    """
    fields = {"query": expression, "start": start, "end": end, "step": step}
    body = urlencode(fields)
    answer: dict[str, Any] = json.loads(_ask(address, "POST", "/api/v1/query_range", body))
    return [
        Series(dict(item["metric"]), tuple((float(at), float(v)) for at, v in item["values"]))
        for item in answer["data"]["result"]
    ]


def is_ready(address: str) -> bool:
    """Say whether it answers queries."""
    try:
        _ask(address, "GET", "/-/ready")
    except QueryError:
        return False
    return True


def post(address: str, path: str) -> None:
    """Send an empty POST.

    Raises:
        QueryError: it does not answer, or refused.
    """
    _ask(address, "POST", path)


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
