"""The platform's guard for prompts and answers, run as a process instead of its container."""

from twin.toolchain.python_environments import GUARDRAILS, guardrails_environment


def command(given: list[str], address: str) -> list[str]:
    """Return the command line of a guard on the address of its pod.

    Args:
        given: Arguments of the container.
        address: Address of the pod.

    Raises:
        twin.toolchain.ToolError: NeMo Guardrails is not installed.
    """
    return [str(GUARDRAILS.python()), "-m", "workloads.guardrails", *given, f"--address={address}"]


def environment(variables: dict[str, str]) -> dict[str, str]:
    """Return the environment of a guard with the variables of its container."""
    return guardrails_environment(variables)
