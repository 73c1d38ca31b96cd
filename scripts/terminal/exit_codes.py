"""The exit codes of commands, and the reasons for exit code 1."""

from enum import IntEnum
from types import MappingProxyType


class ExitCode(IntEnum):
    """Exit codes of `gke-inference`; the docstring of each member has its meaning."""

    def __new__(cls, value: int, doc: str) -> "ExitCode":
        """Return a member with its own docstring."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.__doc__ = doc
        return member

    OK = 0, "The command succeeded. A command that checks something found no problem."
    CHECK_FAILED = (
        1,
        "The command ran to its end and a check failed. The findings are in its output. Nothing "
        "was changed, or, with `canary run`, the change was rolled back.",
    )
    ERROR = (
        2,
        "The command could not run, or stopped before it finished: invalid options, an invalid "
        "stack file, a missing tool, a refusal by a server. One line on standard error starts "
        "with `error:` and names the field, the rule and the value.",
    )
    INTERRUPTED = 130, "The command was interrupted. Run the same command again to continue."
    BROKEN_PIPE = 141, "The program that reads the output, such as `head`, ended first."


CHECKS = MappingProxyType(
    {
        "accept": "A promise of the stack is not met, or, without `--allow-unseen`, cannot be "
        "seen.",
        "audit": "A locked package, or one in the image, has a known vulnerability.",
        "canary check": "The evaluation of the canary has no result, is of other weights, or is "
        "worse by more than the tolerance.",
        "canary run": "The canary performed worse, or lost too many probes, and its share is 0 "
        "again.",
        "check": "Rendered objects break an invariant; with `--strict`, an invariant could not be "
        "decided.",
        "clients reconcile": "The usage records and the engines' counters differ.",
        "delivery status": "A cluster has errors, is behind the source, or, with `--wait`, is not "
        "ready in time.",
        "delivery watch": "A commit that the clusters do not serve in time was rolled back.",
        "doctor": "A row is BAD.",
        "docs --check": "A generated page is out of date.",
        "down --stack": "The stack is a platform, and serving stacks on it are up.",
        "images lock --dry-run": "A package lock is out of date.",
        "models verify": "An object is missing or differs from the manifest of its version.",
        "plan --stack": "No choice of hardware serves all models within the quotas and the budget.",
        "preflight": "A model does not start on one of its rungs; with `--on`, something is "
        "missing in the project, or, without `--allow-unseen`, cannot be seen.",
        "preview": "The update breaks a mandatory policy, or deletes or replaces a protected "
        "resource.",
        "quota": "A quota is insufficient for the stack.",
        "rehearse": "A latency objective or the budget of the stack does not hold.",
        "render": "With `--check`, the API server or the `gcp` provider rejects a rendered object; "
        "with `--git` or `--oci`, an image of a delivered object does not exist yet.",
        "schema --check": "The schema file is out of date.",
        "sweep": "The twin, or with `--on cloud` the project, still has something of a stack.",
        "tools lock": "A checksum could not be read or has changed.",
        "up": "A quota of the twin is insufficient, the twin's cloud lacks something that the "
        "stack uses and does not create (a certificate, DNS zone, snapshot, disk image, build "
        "repository or reservation), an image of this repository was not built, or the update "
        "deletes or replaces a protected resource.",
        "upgrade": "The verdict on the upgrade is *blocked*.",
        "verdict": "The change must not be merged as it is.",
    }
)
"""When each command exits with `CHECK_FAILED`; a command that is not listed never does."""
