"""Temporary copies of the project outside the repository, for temporary stacks."""

from pathlib import Path

from twin.host.paths import REPOSITORY


def scratch_project(folder: Path, stack: str, text: str, checkout: Path = REPOSITORY) -> Path:
    """Create a project folder that runs a checkout's program, and return it.

    Args:
        folder: Empty folder, also for the project's state.
        stack: Name of its only stack.
        text: Content of the stack file.
        checkout: Checkout with the program; the Python packages are from this checkout.
    """
    project = folder / "project"
    (project / "stacks").mkdir(parents=True)
    (folder / "state").mkdir()
    (project / "Pulumi.yaml").write_bytes((checkout / "Pulumi.yaml").read_bytes())
    (project / "infra").symlink_to(checkout / "infra")
    (project / ".venv").symlink_to(REPOSITORY / ".venv")
    (project / "stacks" / f"Pulumi.{stack}.yaml").write_text(text)
    return project


def scratch_checkout(folder: Path, stack: str, text: str) -> Path:
    """Create a checkout with this checkout's program and its own stack, and return it.

    Args:
        folder: Empty folder.
        stack: Name of its only stack.
        text: Content of the stack file.
    """
    (folder / "stacks").mkdir()
    for name in ("Pulumi.yaml", "infra", "components"):
        (folder / name).symlink_to(REPOSITORY / name)
    (folder / "stacks" / f"Pulumi.{stack}.yaml").write_text(text)
    return folder


def backend(folder: Path) -> dict[str, str]:
    """Return the variable that keeps the state of a scratch project in its folder."""
    return {"PULUMI_BACKEND_URL": f"file://{folder / 'state'}"}
