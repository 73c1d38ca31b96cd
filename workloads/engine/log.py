"""Logs in Cloud Logging's format: one JSON object per line, with `severity` and `message`."""

import json
import re
import sys
import threading
import time
from typing import Any, TextIO, cast

_LOCK = threading.Lock()
_LEVEL = re.compile(
    r"\b(?P<level>DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b|^(?P<letter>[IWEF])\d{4} "
)
_WORDS = {"WARN": "WARNING", "FATAL": "CRITICAL"}
_LETTERS = {"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL"}
_HEAD = 60  # number of leading characters that contain the level of an engine's line


def say(severity: str, message: str, **fields: Any) -> None:
    """Write a line of the launcher."""
    _write({"severity": severity, "message": message, "logger": "launcher", **fields})


def pass_on(line: str) -> str:
    """Write a line of the engine and return its message; a JSON line is passed on unchanged."""
    if line.startswith("{"):
        try:
            content = json.loads(line)
        except ValueError:
            content = None
        if isinstance(content, dict) and "message" in content:
            entry = cast("dict[str, Any]", content)
            _write(entry)
            return str(entry["message"])
    _write({"severity": severity_of(line), "message": line, "logger": "engine"})
    return line


def severity_of(line: str) -> str:
    """Return the severity of an engine's line, from the level at its start."""
    found = _LEVEL.search(line[:_HEAD])
    if found is None:
        return "DEFAULT"
    if found["letter"]:
        return _LETTERS[found["letter"]]
    return _WORDS.get(found["level"], found["level"])


def _write(entry: "dict[str, Any]") -> None:
    entry.setdefault("time", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    text = json.dumps(entry, ensure_ascii=False) + "\n"
    stream: TextIO = sys.stdout
    with _LOCK:
        stream.write(text)
        stream.flush()
