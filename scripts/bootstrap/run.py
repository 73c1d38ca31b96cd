"""Prepares a project for a stack, or undoes it: shows the changes, asks, applies them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pulumi import automation
from rich.console import Console

from infra.bootstrap import program
from infra.bootstrap.settings import Project, SettingsError, StackSettings
from scripts.bootstrap import changes
from scripts.bootstrap.changes import Change
from scripts.bootstrap.existing import Candidate, look_up
from scripts.bootstrap.places import Place
from scripts.bootstrap.state import State
from scripts.shared.google_cloud import Cloud
from scripts.shared.stack_resource import outputs_in

_BUCKET_TYPE = "gcp:storage/bucket:Bucket"
_UNCHANGED = "Nothing was changed."
_KEPT = "Keys and key rings stay, as Google never deletes them, and APIs stay on."


@dataclass(frozen=True)
class Dialog:
    """Output and confirmation of a run."""

    console: Console
    ask: Callable[[str], bool]

    def show(self, lines: Sequence[object]) -> None:
        """Print lines without markup."""
        for line in lines:
            self.console.print(str(line), markup=False, highlight=False, soft_wrap=True)


def prepare(
    project: Project, asked: StackSettings, place: Place, dialog: Dialog, *, has_location: bool
) -> Project | None:
    """Prepare a project for another stack, or repeat it for a prepared stack.

    Args:
        project: Project, without stacks.
        asked: The stack. Without a repository it keeps the one that it has.
        place: Where the project is, and what the engine runs with.
        dialog: How to speak with the user.
        has_location: Whether the user named the location.

    Returns:
        The project with all its stacks, or None if the user declined.

    Raises:
        SettingsError: The number or the location is not the project's.
        scripts.shared.google_cloud.CloudError: Google or the engine refused; what is done stays
            and the same command again goes on from there.
    """
    cloud, surroundings = place
    check_number(project, cloud)
    state = State(project, cloud, surroundings)
    stack = state.open()
    found = stack.export_stack()
    prepared = _prepared(found)
    project = replace(project, stacks=merge(prepared, asked, has_location=has_location))
    before = _settled(stack, found)
    existing = look_up(project, cloud, before.deployment or {})
    _adopt(stack, existing.unknown)
    planned = changes.preview(stack, lambda: program.prepare(project))
    dialog.show([f"State bucket gs://{project.bucket}, key {project.key(_of(project, asked))}"])
    dialog.show([f"restore  {each.id}, which was deleted" for each in existing.deleted])
    dialog.show([f"adopt    {each.id}" for each in existing.unknown])
    dialog.show(planned)
    number = len(planned) + len(existing.deleted)
    if not number:
        dialog.show(["Nothing to change."])
    elif not dialog.ask(f"Make these {number} changes in project {project.id}?"):
        _take_back(state, stack, before, is_adopted=bool(existing.unknown))
        dialog.show([_UNCHANGED])
        return None
    _restore(stack, project, cloud, existing.deleted)
    if number or prepared.get(asked.stack) not in project.stacks:
        changes.update(stack, lambda: program.prepare(project), _progress(dialog))
    if not state.is_in_bucket:
        state.move_to_bucket(stack)
        dialog.show([f"The state is now in gs://{project.bucket}."])
    return project


def undo(project: Project, name: str, place: Place, dialog: Dialog) -> None:
    """Undo the preparation for a stack; for the last stack, delete everything possible.

    Args:
        project: Project, without stacks.
        name: Name of the stack.
        place: Where the project is, and what the engine runs with.
        dialog: How to speak with the user.

    Raises:
        SettingsError: The state bucket holds other state.
        scripts.shared.google_cloud.CloudError: Google or the engine refused; what is done stays
            and the same command again goes on from there.
    """
    cloud, surroundings = place
    check_number(project, cloud)
    state = State(project, cloud, surroundings)
    stack = state.open() if state.exists else None
    stacks = {} if stack is None else _prepared(stack.export_stack())
    if stack is None or name not in stacks:
        dialog.show([f"Project {project.id} is not prepared for {name}: nothing to undo."])
        return
    others = {key: settings for key, settings in stacks.items() if key != name}
    if others:
        _undo_one(replace(project, stacks=tuple(others.values())), stack, dialog)
    else:
        _undo_all(replace(project, stacks=tuple(stacks.values())), state, stack, dialog)


def _undo_one(project: Project, stack: automation.Stack, dialog: Dialog) -> None:
    """Delete the resources of one stack that the others do not need."""
    planned = _without_kept(changes.preview(stack, lambda: program.prepare(project)))
    dialog.show([*planned, _KEPT])
    if not dialog.ask(f"Make these {len(planned)} changes in project {project.id}?"):
        dialog.show([_UNCHANGED])
        return
    changes.update(stack, lambda: program.prepare(project), _progress(dialog))


def _undo_all(project: Project, state: State, stack: automation.Stack, dialog: Dialog) -> None:
    """Delete everything, provided that the bucket has no other state."""
    others = state.others()
    if others:
        raise SettingsError(
            f"gs://{project.bucket}: must hold no other state or objects, got {others[0]}"
            + (f" and {len(others) - 1} more" if len(others) > 1 else "")
        )
    protected = _protected(stack)
    planned = _without_kept(changes.preview_destroy(stack))
    planned += [Change("delete", _BUCKET_TYPE, urn.rpartition("::")[2]) for urn in protected]
    dialog.show([*planned, _KEPT])
    if not dialog.ask(f"Delete these {len(planned)} resources of project {project.id}?"):
        dialog.show([_UNCHANGED])
        return
    stack = state.move_here(stack)
    if protected:
        changes.update(
            stack,
            lambda: program.prepare(project, is_undone=True),
            lambda _: None,
            target=protected,
        )
    changes.destroy(stack, _progress(dialog))
    state.forget()


def check_number(project: Project, cloud: Cloud) -> None:
    """Check that the stack has the project's number, from which identities are built.

    Raises:
        SettingsError: It has another.
        scripts.shared.google_cloud.CloudError: Google refused.
    """
    number = cloud.project_number()
    if number and number != str(project.number):
        raise SettingsError(
            f"project_number: must be {number}, the number of {project.id}, got {project.number}"
        )


def merge(
    prepared: dict[str, StackSettings], asked: StackSettings, *, has_location: bool
) -> tuple[StackSettings, ...]:
    """Return the stacks of a project with the requested settings of one of them.

    Raises:
        SettingsError: The stack's key is in another location than the one named.
    """
    known = prepared.get(asked.stack)
    if known is not None:
        if has_location and asked.location != known.location:
            raise SettingsError(
                f"--location: must be {known.location}, where the key of {asked.stack} is,"
                f" got {asked.location}"
            )
        asked = replace(asked, location=known.location, ci=asked.ci or known.ci)
    for role in ("deploy", "preview"):
        asked.account_id(role)
    return tuple({**prepared, asked.stack: asked}.values())


def _prepared(found: automation.Deployment) -> dict[str, StackSettings]:
    """Return the settings of the stacks that a project is prepared for, from its state."""
    resources: list[dict[str, Any]] = (found.deployment or {}).get("resources") or []
    values: dict[str, Any] = outputs_in(resources).get(program.PREPARED) or {}
    return {name: StackSettings.from_dict(value) for name, value in values.items()}


def _settled(stack: automation.Stack, found: automation.Deployment) -> automation.Deployment:
    """Return the state without the pending operations of a killed run."""
    if not (found.deployment or {}).get("pending_operations"):
        return found
    changes.forget_interrupted(stack)
    return stack.export_stack()


def _of(project: Project, asked: StackSettings) -> StackSettings:
    """Return the current settings of a project's stack."""
    return next(each for each in project.stacks if each.stack == asked.stack)


def _adopt(stack: automation.Stack, found: Sequence[Candidate]) -> None:
    """Import existing resources into the state; the project does not change."""
    if found:
        changes.adopt(stack, [each.as_import() for each in found])


def _restore(
    stack: automation.Stack, project: Project, cloud: Cloud, deleted: Sequence[Candidate]
) -> None:
    """Restore deleted resources; the following update corrects them."""
    for candidate in deleted:
        candidate.restore(cloud)
    if deleted:
        _adopt(stack, look_up(project, cloud, changes.deployment(stack)).unknown)


def _take_back(
    state: State, stack: automation.Stack, before: automation.Deployment, *, is_adopted: bool
) -> None:
    """Reset the state after the user declined a run."""
    if not (before.deployment or {}).get("resources"):
        state.forget()
    elif is_adopted:
        stack.import_stack(before)


def _protected(stack: automation.Stack) -> list[str]:
    resources: list[dict[str, Any]] = changes.deployment(stack).get("resources") or []
    return [str(each["urn"]) for each in resources if each.get("protect")]


def _without_kept(planned: list[Change]) -> list[Change]:
    return [change for change in planned if change.action != "keep"]


def _progress(dialog: Dialog) -> Callable[[Change], None]:
    return lambda change: dialog.show([f"done: {change}"])
