"""Writes the tree of a serving stack: to a folder of a repository, and as an OCI artifact."""

import re
from pathlib import Path
from typing import Any, Final

from infra.deploy.delivery import tree_folder
from infra.plan import Plan
from infra.reading.built import unbuilt_problem
from scripts.delivery.artifact import artifact_of, push, write_layout
from scripts.delivery.signing import Signer
from scripts.delivery.tree import Tree, tree_of, write_tree
from scripts.images.registry import host_of
from scripts.terminal.console import CheckFailedError, CommandError, console
from scripts.terminal.output_files import check_folder

_TAG: Final = re.compile(r"[\w][\w.-]{0,127}")
_REFERENCE: Final = re.compile(r"[a-zA-Z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)+:[\w][\w.-]{0,127}")


def check_targets(
    plan: Plan, stack: str, git: Path | None, oci: str | None, sign: str | None = None
) -> None:
    """Check that the targets can be written, before anything is rendered.

    Raises:
        CheckFailedError: The objects would use an image that no registry has.
        CommandError: The message names the option.
    """
    if sign is not None and (oci is None or not _is_reference(oci)):
        got = f"--oci {oci}" if oci is not None else "no --oci"
        raise CommandError(f"--sign: must be used with --oci HOST/PATH:TAG, got {got}")
    for option, value in (("--git", git), ("--oci", oci)):
        if value is not None and plan.has_clusters:
            raise CommandError(f"{option}: must be used with a serving stack, got {stack!r}")
    problem = unbuilt_problem(plan.images, stack)
    if problem is not None and (git is not None or oci is not None):
        raise CheckFailedError(f"{stack}: {problem.sentence()}")
    if git is not None:
        if not git.is_dir():
            raise CommandError(f"--git: must be a folder that exists, got {str(git)!r}")
        check_folder("--git", git)
    if oci is None:
        return
    if _is_reference(oci):
        if not _REFERENCE.fullmatch(oci):
            raise CommandError(f"--oci: must be HOST/PATH:TAG, or a folder, got {oci!r}")
        return
    folder, tag = _layout(oci)
    if not _TAG.fullmatch(tag):
        raise CommandError(f"--oci: must be FOLDER:TAG with a tag such as prod, got {oci!r}")
    check_folder("--oci", folder)


def _is_reference(value: str) -> bool:
    """Return whether a value names an image in a registry, with a host as its first part."""
    return not value.startswith((".", "/")) and host_of(value) != "docker.io"


def _layout(value: str) -> tuple[Path, str]:
    """Return folder and tag of an OCI layout; the tag is `latest` by default."""
    head, _, tail = value.rpartition(":")
    return (Path(head), tail) if head and "/" not in tail else (Path(value), "latest")


def stack_tree(plan: Plan, stack: str, by_cluster: dict[str, list[dict[str, Any]]]) -> Tree:
    """Return the tree of a serving stack.

    Args:
        plan: The stack.
        stack: Its name.
        by_cluster: Its objects, by the name of their cluster.

    Raises:
        CommandError: An object must not be in Git.
    """
    folders = {
        tree_folder(plan.platform.delivery, name): by_cluster[region.cluster_name]
        for name, region in plan.regions.items()
        if by_cluster.get(region.cluster_name)
    }
    return tree_of(stack, str(plan.platform.team), folders)


def write_targets(
    tree: Tree, stack: str, git: Path | None, oci: str | None, signer: Signer | None = None
) -> None:
    """Write a tree to the checked targets, and print the result.

    A signature is pushed before the artifact: whoever reads the tag finds it signed.

    Raises:
        CommandError: A folder or registry refuses.
    """
    if git is not None:
        said = "written" if write_tree(tree, git) else "unchanged"
        console.print(f"{git}  {tree.objects} objects, {tree.digest}, {said}", soft_wrap=True)
    if oci is None:
        return
    artifact = artifact_of(tree, stack)
    if _is_reference(oci):
        if signer is not None:
            repository = oci.rpartition(":")[0]
            signature, tag = signer.signature_of(artifact, repository)
            push(signature, f"{repository}:{tag}")
            console.print(f"{repository}:{tag}  signature", soft_wrap=True)
        push(artifact, oci)
    else:
        write_layout(artifact, *_layout(oci))
    console.print(f"{oci}  {tree.objects} objects, {artifact.digest}", soft_wrap=True)
