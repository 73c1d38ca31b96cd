"""A bucket in memory: generations and preconditions as Cloud Storage has them."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from workloads.common.bucket import Bucket, Changed, Entry, Gone
from workloads.common.pieces import Piece

_T = TypeVar("_T")


class Memory(Bucket):
    """Objects by name."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, int, dict[str, str]]] = {}
        self.writes = 0

    async def read(self, name: str) -> tuple[bytes, int] | None:
        found = self.objects.get(name)
        return None if found is None else found[:2]

    async def read_range(self, name: str, start: int, end: int) -> bytes:
        return self._content(name)[start:end]

    def _content(self, name: str) -> bytes:
        if name not in self.objects:
            raise Gone("gone")
        return self.objects[name][0]

    def lines(self, name: str, longest: int = -1) -> Iterator[bytes]:
        yield from self._content(name).splitlines(keepends=True)

    async def entry(self, name: str) -> Entry | None:
        return next((each for each in await self.entries(name) if each.name == name), None)

    async def entries(self, prefix: str) -> list[Entry]:
        return [
            Entry(name, generation, len(content), metadata)
            for name, (content, generation, metadata) in sorted(self.objects.items())
            if name.startswith(prefix)
        ]

    async def write(
        self,
        name: str,
        content: bytes,
        *,
        generation: int | None = None,
        kind: str = "application/json",
        metadata: dict[str, str] | None = None,
    ) -> int:
        del kind
        known = self.objects.get(name, (b"", 0, {}))[1]
        if generation is not None and generation != known:
            raise Changed
        self.writes += 1
        self.objects[name] = (content, self.writes, metadata or {})
        return self.writes

    async def join(self, name: str, pieces: Sequence[Piece]) -> None:
        content = [self.objects[each.name][0][each.start : each.end] for each in pieces]
        await self.write(name, b"".join(content))

    async def compose(
        self, names: Sequence[str], target: str, scratch: str, metadata: dict[str, str]
    ) -> None:
        content = b"".join(self.objects[name][0] for name in names)
        await self.write(target, content, metadata=metadata)

    async def delete(self, name: str) -> None:
        self.objects.pop(name, None)

    async def rest(self, polls: int = 10, seconds: float = 0.01) -> None:
        """Wait until nothing has changed for as many polls."""
        before, quiet = dict(self.objects), 0
        while quiet < polls:
            await asyncio.sleep(seconds)
            quiet = quiet + 1 if self.objects == before else 0
            before = dict(self.objects)

    async def run_in_thread(self, call: Callable[..., _T], *arguments: Any) -> _T:
        return call(*arguments)
