"""Rules about the people of a front that hold for stacks and for components."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join, repeated

_MEMBER: Final = re.compile(r"(user|group|serviceAccount):[^\s:@]+@[^\s:@]+|domain:[^\s:@]+")


def check_members(where: str, members: Sequence[str]) -> Iterator[InputError]:
    """Yield the members that name nobody who can sign in, and those that are repeated."""
    for at, member in enumerate(members):
        if not _MEMBER.fullmatch(member):
            rule = "must be user:, group: or serviceAccount: with an address, or domain:NAME"
            yield InputError(join(where, at), rule, member)
    yield from repeated(where, members, "a member")
