"""The page of stability: the rule, what is not stable, and what is deprecated."""

from collections import Counter
from collections.abc import Iterable

from infra.stack.renames import minor_of
from scripts.release.surface.classes import Classes, Stability, classes
from scripts.release.surface.names import Kind
from scripts.release.surface.record import named

_TITLES = {
    Kind.STACK: "keys of [stack files](stack.md), and their words",
    Kind.COMPONENT: "[components](components.md), their inputs and outputs",
    Kind.COMMAND: "[commands](cli.md), their arguments and options",
    Kind.OUTPUT: "outputs of stacks",
    Kind.EXIT_CODE: "[exit codes](exit-codes.md)",
    Kind.VARIABLE: "[environment variables](environment.md)",
    Kind.ALERT: "[alerts](../runbooks/README.md)",
    Kind.METRIC: "metrics of this project's own programs",
    Kind.LABEL: "labels of resources in Google Cloud",
}
_OPENING = """\
# Stability

What you can rely on when you [upgrade](../upgrades.md): the names that your stack files, programs,
scripts, dashboards and queries use. Each has a class:

| class | promise |
|---|---|
| stable | It stays, with its meaning. A version that wants to remove it deprecates it first. |
| beta | A minor version may change or remove it, and its changelog names the change. |
| experimental | Any version may change or remove it. |

The classes are about names, and not about what was tested: [limits](../limits.md) has that. What
commands print for people, the names of resources in the state, and the Python modules behind the
components are not part of the promise. For programs, use `-o json` or `--json`.

## Deprecation

- A deprecated name works for at least one minor version, and prints a warning with the new name. A
  name that 0.2 deprecates works in every 0.2 version, and 0.3 may remove it.
- A deprecated key of a stack means the same as the new one. The engine shows the warning in
  `pulumi preview` and `pulumi up`; commands print it to standard error. After that version, the
  key is refused with the new name. [`gke-inference upgrade`](../upgrades.md) rewrites both.
- Security fixes can be an exception. The changelog then says why.
"""
_UNRELEASED = """
**No version is released yet**, so nothing is promised yet. Until 0.1.0, removing a name takes only
a new record.
"""
_RECORD = """
The names are recorded in
[record.txt](../../scripts/release/surface/record.txt), which `make docs` writes. A test
fails if a name of the code is missing there, or if the code no longer has one that is promised.

## Public names

"""


def stability_page() -> str:
    """Return docs/reference/stability.md."""
    return page_of(named(), classes())


def page_of(names: Iterable[str], known: Classes) -> str:
    """Return the page.

    Args:
        names: Public names, each with its kind.
        known: Classes and deprecations.
    """
    counts = Counter((name.split(" ", 1)[0], known.stability_of(name)) for name in names)
    head = ["names of", *Stability]
    lines = [f"| {' | '.join(head)} |", "|---|" + "---:|" * len(Stability)]
    lines += [
        f"| {_TITLES[kind]} | {' | '.join(str(counts[kind, each]) for each in Stability)} |"
        for kind in Kind
    ]
    lines += ["", "## Names that are not stable", "", "Each covers what is below it.", ""]
    lines += ["| class | names | reason |", "|---|---|---|"]
    lines += [
        f"| {each.stability} | {', '.join(f'`{name}`' for name in each.names)} | {each.reason} |"
        for each in known.classes
    ]
    lines += ["", "## Deprecated names", "", *_deprecated(known), ""]
    unreleased = _UNRELEASED if known.released is None else ""
    return _OPENING + unreleased + _RECORD + "\n".join(lines)


def _deprecated(known: Classes) -> list[str]:
    if not known.deprecations:
        return ["None."]
    rows = [
        f"| `{each.name}` | `{each.new}` | {each.since} | {_next(each.since)} |"
        for each in known.deprecations
    ]
    head = "| name | replacement | deprecated since | may be gone in |"
    return [head, "|---|---|---|---|", *rows]


def _next(since: str) -> str:
    major, minor = minor_of(since)
    return f"{major}.{minor + 1}"
