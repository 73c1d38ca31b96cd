"""Settings of job queues, which stacks and components share."""

from typing import Annotated

from pydantic import Field

FlavorChips = Annotated[int, Field(ge=1, le=100_000)]
"""Maximum number of chips of a flavor for the jobs of all teams combined."""
TeamChips = Annotated[int, Field(ge=0, le=100_000)]
"""Chips of a flavor that a team has, borrows or lends."""
