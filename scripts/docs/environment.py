"""The reference of environment variables, from their table."""

from scripts.terminal.variables import OF_CI, VARIABLES, Variable

_OPENING = """\
# Environment variables

`gke-inference env` prints the variables of a run against the twin.

"""
_OF_CI = """
## Variables of the CI examples

Set them in the settings of the repository on GitHub or GitLab.

"""


def environment_page() -> str:
    """Return the page."""
    return _OPENING + _table(VARIABLES) + _OF_CI + _table(OF_CI)


def _table(variables: tuple[Variable, ...]) -> str:
    rows = [
        f"| {', '.join(f'`{name}`' for name in each.name.split(', '))} | {each.effect} "
        f"| {each.default} |"
        for each in variables
    ]
    return "\n".join(["| variable | effect | default |", "|---|---|---|", *rows, ""])
