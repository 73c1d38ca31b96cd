"""The picker's block size and prefix length match those of the engines."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, unknown
from policies.framework.reading import at
from policies.framework.rule import Invariant
from policies.objects.engines import Engine
from policies.objects.picker import PickerPlugin, plugins, servers_of
from policies.objects.world import World

_CHARACTERS = 4  # of a token, as the picker counts in its text mode
_DEFAULT_BLOCK = 16  # vLLM's, on GPU
_PREFIX = (
    "prefix-cache-scorer",
    "approx-prefix-cache-producer",
    "precise-prefix-cache-scorer",
    "precise-prefix-cache-producer",
)


def _check(world: World) -> Iterator[Finding]:
    for plugin in plugins(world):
        if plugin.type not in _PREFIX or at(plugin.parameters, "autoTune") is True:
            continue
        for pool in plugin.pools:
            for server in servers_of(world, pool):
                yield from _block(plugin, server)
                yield from _reach(plugin, server)


def _block(plugin: PickerPlugin, server: Engine) -> Iterator[Finding]:
    tokens = _tokens(plugin)
    if tokens is None:
        return
    written = server.container.line.flag("--block-size", "--page-size")
    if written is None and server.container.amount("google.com/tpu"):
        yield unknown(
            plugin.config,
            f"{plugin.field}.parameters",
            tokens,
            f"{server.container.pod.obj.title} does not set its block size, which the engine "
            "chooses on TPU",
            "set --block-size on the engine, or autoTune: true on the picker",
        )
        return
    block = int(written) if written and written.isdigit() else _DEFAULT_BLOCK
    if tokens != block:
        yield broken(
            plugin.config,
            f"{plugin.field}.parameters",
            f"{tokens:g} tokens",
            f"{server.container.pod.obj.title} caches blocks of {block} tokens: the picker "
            "looks up prefixes that are never cached",
            f"set the block size to {block} tokens, or set autoTune: true",
        )


def _tokens(plugin: PickerPlugin) -> float | None:
    """Return the block size in tokens. `blockSize` alone is in characters."""
    given = plugin.parameters
    tokens = at(given, "blockSizeTokens") or at(given, "tokenProcessorConfig", "blockSize")
    tokens = tokens or at(given, "indexerConfig", "tokenProcessorConfig", "blockSize")
    if tokens is not None:
        return float(tokens)
    characters = at(given, "blockSize") or at(given, "hashBlockSize")
    return None if characters is None else float(characters) / _CHARACTERS


def _reach(plugin: PickerPlugin, server: Engine) -> Iterator[Finding]:
    most = at(plugin.parameters, "maxPrefixTokensToMatch")
    context = server.context
    if most is None or context is None or not context.isdigit():
        return
    if int(most) != int(context):
        yield broken(
            plugin.config,
            f"{plugin.field}.parameters.maxPrefixTokensToMatch",
            most,
            f"{server.container.pod.obj.title} reads prompts of up to {context} tokens",
            f"write {context}",
        )


RULE = Invariant(
    name="picker-agrees",
    description="The picker's block size and maximum prefix match those of its engines.",
    reference="llm-d optimized-baseline router values: kept equal by a comment",
    check=_check,
)
