"""The program with a stack of its own, outside the repository: for stacks that are not kept."""

from pathlib import Path

from twin.paths import REPOSITORY


def scratch_project(folder: Path, stack: str, text: str) -> Path:
    """Make a project folder that runs this checkout's program, and return it.

    Args:
        folder: an empty folder; the project's state goes into it, too.
        stack: name of the one stack it has.
        text: content of the stack's file.
    """
    project = folder / "project"
    (project / "stacks").mkdir(parents=True)
    (folder / "state").mkdir()
    (project / "Pulumi.yaml").write_bytes((REPOSITORY / "Pulumi.yaml").read_bytes())
    for name in ("infra", ".venv"):
        (project / name).symlink_to(REPOSITORY / name)
    (project / "stacks" / f"Pulumi.{stack}.yaml").write_text(text)
    return project


def backend(folder: Path) -> dict[str, str]:
    """Return the variable that keeps the state of a scratch project in its folder."""
    return {"PULUMI_BACKEND_URL": f"file://{folder / 'state'}"}
