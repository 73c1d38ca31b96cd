"""Forms with a header and comma-separated columns: Azure, BurstGPT, and the own list."""

import csv
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import one_of
from simulator.demand.arrivals import GROWING, Traffic
from simulator.demand.lines import lines
from simulator.demand.rows import FileTraffic, Names, Recent, Row

_SESSIONS = 1_000_000


class _Columns(FileTraffic, ABC):
    """A file with a header."""

    HEADERS: ClassVar[Sequence[Sequence[str]]]
    """The headers of the form."""

    def rows(self) -> Iterator[tuple[str, Row]]:
        """Yield where each line is and its request."""
        numbered = lines(self.path)
        header = _cells(f"{self.path}:1", next(numbered)[1])
        self._begin()
        for number, text in numbered:
            where = f"{self.path}:{number}"
            cells = text.split(",") if '"' not in text else _cells(where, text)
            if len(cells) != len(header):
                raise InputError(where, f"must have {len(header)} columns", len(cells))
            yield where, self._row(where, dict(zip(header, cells, strict=True)))

    def _begin(self) -> None:
        """Forget earlier lines, at the start of a pass."""

    @abstractmethod
    def _row(self, where: str, cells: Mapping[str, str]) -> Row: ...


class Azure(_Columns):
    """Azure's LLM inference traces of 2023 and 2024.

    Columns: TIMESTAMP, a date and time with up to seven decimals, in 2024 with a time zone;
    ContextTokens and GeneratedTokens (github.com/Azure/AzurePublicDataset,
    AzureLLMInferenceDataset2023.md and AzureLLMInferenceDataset2024.md). They have no names of
    models.
    """

    HEADERS = (("TIMESTAMP", "ContextTokens", "GeneratedTokens"),)

    def _row(self, where: str, cells: Mapping[str, str]) -> Row:
        given = cells["TIMESTAMP"]
        try:
            at = datetime.fromisoformat(given.strip())
        except ValueError:
            raise InputError(f"{where}: TIMESTAMP", "must be a date and time", given) from None
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
        prompt, output = (_whole(where, cells, name) for name in self.HEADERS[0][1:])
        return Row(at.timestamp(), prompt, output)


class BurstGPT(_Columns):
    """BurstGPT's traces.

    Columns: Timestamp, in seconds; Model; Request tokens; Response tokens, 0 for a failure; Total
    tokens; Log Type. The third file also has Session ID and Elapsed time
    (github.com/HPMLL/BurstGPT, README.md, version 1.2). A turn of a session starts with the turns
    before it.
    """

    HEADERS = (
        ("Timestamp", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type"),
        ("Timestamp", "Session ID", "Elapsed time", "Model", "Request tokens", "Response tokens",
         "Total tokens", "Log Type"),
    )  # fmt: skip

    def _begin(self) -> None:
        self._sessions: Recent[tuple[int, int]] = Recent(_SESSIONS)
        self._count = 0

    def _row(self, where: str, cells: Mapping[str, str]) -> Row:
        prompt = _whole(where, cells, "Request tokens")
        output = _whole(where, cells, "Response tokens")
        session, prefix, shared = cells.get("Session ID", ""), -1, 0
        if session:
            known = self._sessions.get(session)
            prefix, before = known or (GROWING + self._count, 0)
            self._count += known is None
            shared = min(before, prompt)
            self._sessions.put(session, (prefix, prompt + output))
        at = _number(where, cells, "Timestamp")
        return Row(at, prompt, output, cells["Model"], prefix=prefix, prefix_tokens=shared)


class Requests(_Columns):
    """The own list of requests, which `gke-inference traffic record` writes.

    Cells of model, team, region, prefix and prefix_tokens may be empty.
    """

    HEADERS = (
        ("seconds", "model", "team", "region", "prompt_tokens", "output_tokens", "prefix",
         "prefix_tokens"),
    )  # fmt: skip

    def _row(self, where: str, cells: Mapping[str, str]) -> Row:
        prompt = _whole(where, cells, "prompt_tokens")
        shared = _whole(where, cells, "prefix_tokens") if cells["prefix_tokens"] else 0
        if not 0 <= shared <= max(prompt, 0):  # a negative prompt is refused below
            rule = f"must be 0 to prompt_tokens, {prompt}"
            raise InputError(f"{where}: prefix_tokens", rule, shared)
        return Row(
            _number(where, cells, "seconds"),
            prompt,
            _whole(where, cells, "output_tokens"),
            cells["model"],
            cells["team"],
            cells["region"],
            _whole(where, cells, "prefix") if cells["prefix"] else -1,
            shared,
        )


_FORMS: Sequence[type[_Columns]] = (Azure, BurstGPT, Requests)


def read_columns(path: Path, names: Names) -> Traffic:
    """Return the traffic of a file with a known header.

    Raises:
        InputError: The header is of no known form, or a line breaks a rule.
    """
    first = next(lines(path), None)
    if first is None:
        raise InputError(str(path), "must have requests, got an empty file")
    header = _cells(f"{path}:1", first[1])
    for form in _FORMS:
        if any(header == list(each) for each in form.HEADERS):
            return form(path, names)
    known = [",".join(each) for form in _FORMS for each in form.HEADERS]
    raise one_of(f"{path}:1: header", ",".join(header)[:200], known)


def _cells(where: str, text: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([text]))]
    except csv.Error as error:
        raise InputError(where, f"must be comma-separated: {error}") from None


def _whole(where: str, cells: Mapping[str, str], name: str) -> int:
    try:
        return int(cells[name])
    except ValueError:
        raise InputError(f"{where}: {name}", "must be a whole number", cells[name]) from None


def _number(where: str, cells: Mapping[str, str], name: str) -> float:
    try:
        return float(cells[name])
    except ValueError:
        raise InputError(f"{where}: {name}", "must be a number", cells[name]) from None
