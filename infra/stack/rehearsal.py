"""Rehearsal: the traffic that the stack is for."""

from pydantic import Field

from gke_inference.settings import Settings


class Rehearsal(Settings):
    """A day that `rehearse` runs by default, and `verdict` before and after a change."""

    traffic: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*$", max_length=200
    )
    """File with the traffic, relative to the folder of the stack file, in any form that `rehearse
    --traffic` reads."""
