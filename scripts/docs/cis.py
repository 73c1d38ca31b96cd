"""The page of the CIS GKE Benchmark: each recommendation with this project's answer."""

from collections import Counter

from policies.benchmark.recommendations import Recommendation, recommendations, version
from policies.rules import policies
from twin.host.paths import REPOSITORY

_OPENING = """\
# CIS GKE Benchmark

What a platform of this project does about each recommendation of the CIS GKE Benchmark v{version}:
{counts}.

- *met*: a [policy](policies.md) fails the preview of a stack that violates it (an advisory policy
  is a note), or a component always sets it and has no setting to change it. Tests compare the
  second kind with the resources of stacks.
- *not applicable*: a stack cannot affect it.
- *open*: something is missing, or the decision is yours. Recommendations that are met in part are
  open.

Numbers are those of the benchmark; the titles are ours. Download the benchmark from
[CIS](https://www.cisecurity.org/benchmark/kubernetes) for its text and audit procedures. This page
is no certification: it shows where to look. For what GKE does in the managed control plane, see
[CIS benchmarks](https://cloud.google.com/kubernetes-engine/docs/concepts/cis-benchmarks) in its
documentation. On Autopilot, GKE enforces the recommendations on nodes (5.5 and 5.4.1) itself.
"""


def cis_page() -> str:
    """Return the page: the recommendations by section, each with its status and answer."""
    rows = list(recommendations().values())
    counts = Counter(row.status for row in rows)
    words = [f"{counts[each]} are {each}" for each in ("met", "not applicable", "open")]
    lines = [_OPENING.format(version=version(), counts=f"{', '.join(words[:2])} and {words[2]}")]
    for section in dict.fromkeys(row.section for row in rows):
        lines += [
            f"## {section}",
            "",
            "| number | recommendation | status | answer |",
            "|---|---|---|---|",
            *(_row(row) for row in rows if row.section == section),
            "",
        ]
    return "\n".join(lines)


def _row(row: Recommendation) -> str:
    answers = [_policy_link(name) for name in row.policies]
    if row.component is not None:
        path = row.component.file
        answers.append(f"{row.component.says} ([{path.rpartition('/')[2]}](../{path}))")
    answers += [text for text in (row.not_applicable, row.open) if text]
    return f"| {row.number} | {row.title} | {row.status} | {'; '.join(answers)} |"


def _policy_link(name: str) -> str:
    listed = policies()[name]
    level = " (advisory)" if listed.rule.level == "advisory" else ""
    return f"policy [`{name}`](../{listed.file.relative_to(REPOSITORY)}){level}"
