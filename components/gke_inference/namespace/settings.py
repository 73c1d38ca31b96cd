"""Settings of namespaces, which stacks and the components share."""

from typing import Annotated, Literal

from pydantic import Field

QuotaChips = Annotated[int, Field(ge=0, le=100_000)]
"""Maximum number of chips of a kind that the pods of a namespace may request in total."""
PodSecurity = Literal["baseline", "privileged", "restricted"]
"""Enforced Pod Security level."""
