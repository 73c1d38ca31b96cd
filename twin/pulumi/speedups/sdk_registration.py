"""Faster versions of SDK functions that run for each registered resource.

With 622 resources, two of the original functions took a fifth of a program's time.
"""

import functools
import importlib
import sys
import traceback
from typing import Any, cast

_resource: Any = importlib.import_module("pulumi.runtime.resource")
_depends_on: Any = importlib.import_module("pulumi.runtime._depends_on")
_position: Any = _resource._get_source_position_for_frame
_resolve: Any = _depends_on._resolve_depends_on
_urn: Any = _resource.create_urn
_settings: Any = importlib.import_module("pulumi.runtime.settings")
_utils: Any = importlib.import_module("pulumi._utils")
_Output: Any = importlib.import_module("pulumi.output").Output
_Resource: Any = importlib.import_module("pulumi.resource").Resource


def register_quickly() -> None:
    """Install faster lookups of settings, source positions, dependencies and URNs."""
    _utils.ContextProperty.__get__ = _setting
    _resource.traceback = _Frames()
    _resource._get_source_position_for_frame = _position_of
    _depends_on._resolve_depends_on = _dependencies
    _resource.create_urn = _urn_of


def _setting(self: Any, obj: Any, _owner: Any) -> Any:
    """Return a setting of the run from one lookup; a mapping stays behind its property."""
    if obj is None:
        return self
    value = self._data.get(self._ContextProperty__default)
    return self if isinstance(value, dict) else value


class _Frames:
    """The module traceback without reading sources, because the SDK needs only files and lines."""

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)

    def extract_stack(self) -> list[traceback.FrameSummary]:
        """Return the frames of the caller, outermost first."""
        frame = sys._getframe(1)
        frames: list[traceback.FrameSummary] = []
        while frame is not None:
            code = frame.f_code
            frames.append(
                traceback.FrameSummary(
                    code.co_filename, frame.f_lineno, code.co_name, lookup_line=False
                )
            )
            frame = frame.f_back
        frames.reverse()
        return frames


def _position_of(frame: traceback.FrameSummary) -> Any:
    return _position_at(frame.filename, frame.lineno)


@functools.cache
def _position_at(filename: str, line: int | None) -> Any:
    return _position(traceback.FrameSummary(filename, line, "", lookup_line=False))


async def _dependencies(depends_on: Any) -> set[Any]:
    """Return the resources of `depends_on`; plain resources need no output."""
    if isinstance(depends_on, list) and all(
        isinstance(each, _Resource) for each in cast("list[Any]", depends_on)
    ):
        return set(cast("list[Any]", depends_on))
    return await _resolve(depends_on)


def _urn_of(
    name: Any, type_: Any, parent: Any = None, project: str | None = None, stack: str | None = None
) -> Any:
    """Return the URN of a resource as an output; plain texts need one output, not seven.

    The SDK (pulumi 3.272, `do_register`) asks for the URN of every resource, and uses it only where
    there is no engine.
    """
    if not (isinstance(name, str) and isinstance(type_, str) and isinstance(parent, str | None)):
        return _urn(name, type_, parent, project, stack)
    if parent is not None:
        before = parent[: parent.rfind("::")] + "$"
    else:
        stack = _settings.get_stack() if stack is None else stack
        project = _settings.get_project() if project is None else project
        before = f"urn:pulumi:{stack}::{project}::"
    return _Output.from_input(f"{before}{type_}::{name}")
