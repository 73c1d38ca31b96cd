"""The tools of a twin: registry, sources, and cache."""

from twin.toolchain.background import obtain, prepare_beside, wait_for
from twin.toolchain.cache import cache_root, is_cached, origin_of
from twin.toolchain.find import envoy, is_on_path, missing, official, share, tool
from twin.toolchain.install import provide
from twin.toolchain.registry import (
    MODULES,
    Module,
    ToolError,
    module_of,
    modules,
    named,
    needed_by,
    recipe,
    usual_modules,
)

__all__ = [
    "MODULES",
    "Module",
    "ToolError",
    "cache_root",
    "envoy",
    "is_cached",
    "is_on_path",
    "missing",
    "module_of",
    "modules",
    "named",
    "needed_by",
    "obtain",
    "official",
    "origin_of",
    "prepare_beside",
    "provide",
    "recipe",
    "share",
    "tool",
    "usual_modules",
    "wait_for",
]
