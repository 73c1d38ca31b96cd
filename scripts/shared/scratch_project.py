"""The program with a stack of its own, outside the repository: for stacks that are not kept."""

from pathlib import Path

from twin.host.paths import REPOSITORY


def scratch_project(folder: Path, stack: str, text: str, checkout: Path = REPOSITORY) -> Path:
    """Make a project folder that runs a checkout's program, and return it.

    Args:
        folder: an empty folder; the project's state goes into it, too.
        stack: name of the one stack it has.
        text: content of the stack's file.
        checkout: whose program; the Python packages are this checkout's.
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
    """Make a checkout with this one's program and a stack of its own, and return it.

    Args:
        folder: an empty folder.
        stack: name of the one stack it has.
        text: content of the stack's file.
    """
    (folder / "stacks").mkdir()
    for name in ("Pulumi.yaml", "infra", "components"):
        (folder / name).symlink_to(REPOSITORY / name)
    (folder / "stacks" / f"Pulumi.{stack}.yaml").write_text(text)
    return folder


def backend(folder: Path) -> dict[str, str]:
    """Return the variable that keeps the state of a scratch project in its folder."""
    return {"PULUMI_BACKEND_URL": f"file://{folder / 'state'}"}
