"""Paged KV cache with prefix caching: blocks of tokens with chained hashes.

As in vLLM, a full block gets the hash of its tokens and of the previous block. A freed block keeps
its hash and can be reused until its space is needed; the least recently freed block is evicted
first.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from zlib import crc32

BlockHash = int


def block_hashes(tokens: Sequence[int], block_size: int, salt: int = 0) -> list[BlockHash]:
    """Return the hash of every full block of a sequence; each covers all blocks before it.

    Args:
        tokens: tokens of the sequence.
        block_size: tokens per block.
        salt: additional value that must be equal, such as that of `salt_of`.
    """
    hashes: list[BlockHash] = []
    parent = salt
    for start in range(0, len(tokens) - block_size + 1, block_size):
        parent = hash((parent, tuple(tokens[start : start + block_size])))
        hashes.append(parent)
    return hashes


def salt_of(adapter: str | None, salt: str = "") -> int:
    """Return a number for the block hashes of requests that share a prefix cache.

    It is the same everywhere. As in vLLM, only the first block contains it, and each block
    contains the one before it.

    Args:
        adapter: LoRA adapter.
        salt: `cache_salt` of the request; empty for none.
    """
    parts = f"{adapter or ''}\0{salt}" if salt else adapter
    return crc32(parts.encode()) if parts else 0


@dataclass
class Block:
    """One block of the cache."""

    number: int
    references: int = 0
    hash: BlockHash | None = None


@dataclass
class PrefixStats:
    """Counters of the prefix cache, in tokens."""

    queries: int = 0
    hits: int = 0


@dataclass
class KvCache:
    """The blocks of one engine.

    Args:
        blocks: number of blocks.
        block_size: tokens per block.
        prefix_caching: whether full blocks are reused.
    """

    blocks: int
    block_size: int
    prefix_caching: bool = True
    stats: PrefixStats = field(default_factory=PrefixStats)

    def __post_init__(self) -> None:
        self._blocks: list[Block] = []  # those used so far: most caches never fill
        # freed blocks, least recently freed first; those with a hash can still be hit
        self._free: OrderedDict[int, None] = OrderedDict()
        self._by_hash: dict[BlockHash, int] = {}
        self.on_publish: Callable[[BlockHash], None] | None = None
        """Called with each block that is newly in the cache."""

    @property
    def free_blocks(self) -> int:
        """Blocks that no sequence holds."""
        return len(self._free) + self.blocks - len(self._blocks)

    @property
    def held_tokens(self) -> int:
        """Tokens in the blocks that sequences hold, each block counted once."""
        return (self.blocks - self.free_blocks) * self.block_size

    @property
    def usage(self) -> float:
        """Fraction of the blocks that sequences hold, 0 to 1."""
        return 1.0 - self.free_blocks / self.blocks if self.blocks else 0.0

    def blocks_for(self, tokens: int) -> int:
        """Return the number of blocks for a number of tokens."""
        return -(-tokens // self.block_size)

    def cached_prefix(self, hashes: Sequence[BlockHash], tokens: int) -> int:
        """Return the number of leading blocks of a prompt in the cache.

        The last token is always computed, so a whole prompt never comes from the cache.
        """
        if not self.prefix_caching:
            return 0
        most = (tokens - 1) // self.block_size
        found = 0
        for block_hash in hashes[:most]:
            if block_hash not in self._by_hash:
                break
            found += 1
        return found

    def take_prefix(self, hashes: Sequence[BlockHash], count: int) -> list[int]:
        """Hold the first `count` cached blocks of a prompt and return their IDs."""
        numbers = [self._by_hash[block_hash] for block_hash in hashes[:count]]
        for number in numbers:
            block = self._blocks[number]
            if block.references == 0:
                del self._free[number]
            block.references += 1
        return numbers

    def free_after_prefix(self, hashes: Sequence[BlockHash], count: int) -> int:
        """Return the number of free blocks if the first `count` cached blocks are held."""
        idle = sum(self._blocks[self._by_hash[h]].references == 0 for h in hashes[:count])
        return self.free_blocks - idle

    def allocate(self, count: int) -> list[int] | None:
        """Hold `count` new blocks and return their IDs, or None if too few are free."""
        if count > self.free_blocks:
            return None
        blocks = [self._take() for _ in range(count)]
        for block in blocks:
            block.references = 1
        return [block.number for block in blocks]

    def _take(self) -> Block:
        if len(self._blocks) < self.blocks:
            self._blocks.append(Block(len(self._blocks)))
            return self._blocks[-1]
        number, _nothing = self._free.popitem(last=False)
        block = self._blocks[number]
        if block.hash is not None:
            del self._by_hash[block.hash]
            block.hash = None
        return block

    def publish(self, number: int, block_hash: BlockHash) -> None:
        """Index a full block by its hash; the first block with a hash keeps it."""
        if self.prefix_caching and block_hash not in self._by_hash:
            self._blocks[number].hash = block_hash
            self._by_hash[block_hash] = number
            if self.on_publish is not None:
                self.on_publish(block_hash)

    def release(self, numbers: Sequence[int]) -> None:
        """Free a sequence's blocks, tail first, so that prefixes remain longest."""
        for number in reversed(numbers):
            block = self._blocks[number]
            block.references -= 1
            if block.references == 0:
                self._free[number] = None
                if block.hash is None:
                    self._free.move_to_end(number, last=False)
