"""The report of an acceptance: JSON for programs, and Markdown for the person who signs it."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scripts.accept.row import Row, Verdict
from scripts.accept.signing import Revision

NAME = "acceptance"
"""Name of both files, without their ending."""


@dataclass(frozen=True)
class Report:
    """One run."""

    stack: str
    place: str
    """Where the stack is deployed."""
    by: str
    """Who ran it."""
    begun: str
    """Start, in UTC, as ISO 8601 has it."""
    ended: str
    revision: Revision
    groups: Mapping[str, Sequence[Row]]
    allows_unseen: bool
    """Whether checks that could not be seen may pass."""

    @property
    def rows(self) -> list[Row]:
        """Return every row."""
        return [row for rows in self.groups.values() for row in rows]

    @property
    def failures(self) -> list[Row]:
        """Return the rows that prevent acceptance."""
        return [
            row
            for row in self.rows
            if row.is_failure and not (row.is_unseen and self.allows_unseen)
        ]

    @property
    def summary(self) -> str:
        """Return the number of rows with each verdict, as text."""
        count = Counter(row.verdict for row in self.rows)
        unseen = sum(row.is_unseen for row in self.rows)
        parts = [f"{count[verdict]} {verdict.value}" for verdict in Verdict if count[verdict]]
        if unseen:
            parts[-1] += f" ({unseen} could not be seen)"
        return ", ".join(parts)

    def plain(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        return {
            "stack": self.stack,
            "place": self.place,
            "is_accepted": not self.failures,
            "allows_unseen": self.allows_unseen,
            "by": self.by,
            "begun": self.begun,
            "ended": self.ended,
            "revision": asdict(self.revision),
            "groups": {title: [asdict(row) for row in rows] for title, rows in self.groups.items()},
        }


def write(report: Report, folder: Path) -> tuple[Path, Path]:
    """Write a report into a folder; return its Markdown and its JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / f"{NAME}.json"
    data.write_text(json.dumps(report.plain(), indent=1) + "\n")
    page = folder / f"{NAME}.md"
    digest = hashlib.sha256(data.read_bytes()).hexdigest()
    page.write_text(markdown(report, digest))
    return page, data


def markdown(report: Report, digest: str) -> str:
    """Return the page of a report.

    Args:
        report: The run.
        digest: SHA-256 of its JSON file.
    """
    word = "Accepted" if not report.failures else "Not accepted"
    facts = {
        "Stack": f"`{report.stack}`, SHA-256 `{report.revision.stack_sha256}`",
        "Revision": str(report.revision),
        "Place": report.place,
        "Time": f"{report.begun} to {report.ended}",
        "Result": report.summary,
        "Signed off" if not report.failures else "Checked": f"{report.by}, {report.ended[:10]}",
        "Data": f"`{NAME}.json`, SHA-256 `{digest}`",
    }
    lines = [f"# {word}: {report.stack}", "", "| | |", "|---|---|"]
    lines += [f"| {key} | {_cell(value)} |" for key, value in facts.items()]
    for title, rows in report.groups.items():
        lines += ["", f"## {title}", ""]
        lines += ["| check | prediction | measurement | verdict |", "|---|---|---|---|"]
        for row in rows:
            cells = (f"{row.subject} {row.name}", row.predicted, row.measured, _verdict(row))
            lines.append("| " + " | ".join(_cell(each) for each in cells) + " |")
    return "\n".join(lines) + "\n"


def _verdict(row: Row) -> str:
    if row.verdict is Verdict.NOT_MET:
        return f"**{row.verdict.value}**"
    return f"{row.verdict.value}: cannot be seen" if row.is_unseen else row.verdict.value


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
