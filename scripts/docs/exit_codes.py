"""The reference of exit codes, from their table."""

from scripts.terminal.exit_codes import CHECKS, ExitCode

_OPENING = """\
# Exit codes

Every command of `gke-inference` exits with one of these codes.

| exit code | meaning |
|---|---|
"""
_CHECKS = """
## Failed checks

A command that is not in this table never exits with 1.

| command | exits with 1 when |
|---|---|
"""


def exit_code_rows() -> list[str]:
    """Return the lines of the table of exit codes."""
    return [f"| {code.value} | {code.__doc__} |" for code in ExitCode]


def exit_codes_page() -> str:
    """Return the page."""
    checks = [f"| `{command}` | {reason} |" for command, reason in CHECKS.items()]
    return _OPENING + "\n".join([*exit_code_rows(), _CHECKS]) + "\n".join(checks) + "\n"
