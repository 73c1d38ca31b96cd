"""Rows of streaming inserts against the columns of a table (rule bigquery.rows)."""

import json
import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from twin.wire.property_values import Json, as_list, as_object
from twin.world.tables import Column

_INTEGER: Final = re.compile(r"[-+]?\d{1,20}")
_RANGE: Final = (-(2**63), 2**63 - 1)
_TIMESTAMP: Final = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[ Tt](\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,6}))?)?"
    r" ?(?:[Zz]|UTC|([+-])(\d{1,2}):?(\d{2})?)?"
)
_BOOLEANS: Final = {"true": "true", "false": "false"}


class RowError(Exception):
    """A row does not fit its table; the message is BigQuery's."""

    def __init__(self, location: str, message: str) -> None:
        super().__init__(message)
        self.location = location

    def shown(self) -> Json:
        """Return it as an error of `insertErrors`."""
        return error("invalid", self.location, str(self))


def error(reason: str, location: str = "", message: str = "") -> Json:
    """Return an `ErrorProto` of BigQuery's API."""
    return {"reason": reason, "location": location, "debugInfo": "", "message": message}


def read_row(columns: Iterable[Column], row: Json, *, ignore_unknown: bool) -> Json:
    """Return the values of a row as the table stores them.

    Args:
        columns: Those of the table, or of a record.
        row: The row.
        ignore_unknown: Whether fields that the table does not have are dropped.

    Raises:
        RowError: The first value that does not fit.
    """
    return _record(tuple(columns), row, "", ignore_unknown)


def _record(columns: tuple[Column, ...], row: Json, where: str, ignore_unknown: bool) -> Json:
    names = {each.name for each in columns}
    for name in row:
        if name not in names and not ignore_unknown:
            raise RowError(where + name, f"no such field: {where}{name}.")
    found: Json = {}
    for column in columns:
        value, path = row.get(column.name), where + column.name
        if column.mode == "REPEATED":
            found[column.name] = _repeated(column, value, path, ignore_unknown)
        elif value is not None:
            found[column.name] = _value(column, value, path, ignore_unknown)
        elif column.mode == "REQUIRED":
            raise RowError("", f"Missing required field: Msg_0_CLOUD_QUERY_TABLE.{path}.")
        else:
            found[column.name] = None
    return found


def _repeated(column: Column, value: Any, path: str, ignore_unknown: bool) -> list[Any]:
    if value is None:
        return []
    items = as_list(value)
    if items is None:
        raise RowError(path, f"Repeated field must be imported as a JSON array. Field: {path}.")
    found: list[Any] = []
    for at, item in enumerate(items):
        if item is None:
            raise RowError(f"{path}[{at}]", "Only optional fields can be set to NULL.")
        found.append(_value(column, item, f"{path}[{at}]", ignore_unknown))
    return found


def _value(column: Column, value: Any, path: str, ignore_unknown: bool) -> Any:
    if isinstance(value, list):
        raise RowError(path, f"Array specified for non-repeated field: {path}.")
    record = as_object(value)
    if column.type == "RECORD" and record is not None:
        return _record(column.fields, record, f"{path}.", ignore_unknown)
    if column.type == "RECORD" or record is not None:
        raise RowError(path, f"This field: {path} is not a record.")
    found = _READERS[column.type](value)
    if found is None:
        bad = json.dumps(value) if not isinstance(value, str) else value
        what = _WORDS[column.type]
        raise RowError(path, f"Cannot convert value to {what} (bad value): {bad}")
    return found


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _integer(value: Any) -> str | None:
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return str(value) if _RANGE[0] <= value <= _RANGE[1] else None


def _float(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return repr(float(value))
    except (ValueError, OverflowError):
        return None


def _boolean(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return _BOOLEANS.get(value.lower()) if isinstance(value, str) else None


def _json(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        json.loads(value)
    except ValueError:
        return None
    return value


def _timestamp(value: Any) -> str | None:
    """Return seconds since the epoch, as `tabledata.list` does."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        seconds = float(value)
        return f"{seconds:.6f}" if math.isfinite(seconds) else None
    match = _TIMESTAMP.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    *shown, part, sign, hours, minutes = match.groups()
    micros = int((part or "0").ljust(6, "0"))
    year, month, day, hour, minute, second = (int(each or 0) for each in shown)
    try:
        moment = datetime(year, month, day, hour, minute, second, micros, UTC)
    except ValueError:
        return None
    offset = 3600 * int(hours or 0) + 60 * int(minutes or 0)
    return f"{moment.timestamp() + (offset if sign == '-' else -offset):.6f}"


_READERS: Final = {
    "BOOLEAN": _boolean,
    "FLOAT": _float,
    "INTEGER": _integer,
    "JSON": _json,
    "STRING": _string,
    "TIMESTAMP": _timestamp,
}
_WORDS: Final = {
    "BOOLEAN": "boolean",
    "FLOAT": "floating point",
    "INTEGER": "integer",
    "JSON": "json",
    "STRING": "string",
    "TIMESTAMP": "timestamp",
}


def listed(columns: Iterable[Column], row: Json) -> Json:
    """Return a stored row as a row of `tabledata.list`."""
    return {"f": [{"v": _shown(column, row.get(column.name))} for column in columns]}


def _shown(column: Column, value: Any) -> Any:
    if isinstance(value, list):
        return [{"v": _shown(column, item)} for item in as_list(value) or []]
    record = as_object(value)
    return value if record is None else listed(column.fields, record)
