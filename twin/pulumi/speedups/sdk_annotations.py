"""Loading of a provider's SDK without evaluating its annotations.

Most of the time that a module such as `pulumi_gcp.compute._inputs` takes to load is spent making
objects for the types of thousands of properties (`Optional[pulumi.Input['...']]`), of which a
program uses a few hundred. Compiled with postponed annotations (PEP 563), a module keeps them as
texts. The SDK evaluates those of a class when the class is used (pulumi 3.272, `_types.py`), by
`get_type_hints`, which takes texts.
"""

import __future__

import importlib.util
import marshal
import os
import re
import struct
import sys
from contextlib import suppress
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType

from twin.pulumi.speedups.finders import Finder

_MODULES = re.compile(r"pulumi_(gcp|kubernetes)\.\w.*")
_TAG = "annotations"
"""Ending of the bytecode files beside those of the interpreter: `compute.cpython-311.opt-…`."""
_HEADER = struct.Struct("<4sLL")
"""Header of these files: magic number of the interpreter, time of change and size of the source."""
_MASK = 0xFFFFFFFF


def postpone_annotations() -> None:
    """Load modules of SDKs that are imported from now on with their annotations as texts."""
    _Finder().install()


class _Finder(Finder):
    def takes(self, name: str) -> bool:
        return _MODULES.fullmatch(name) is not None

    def loader(self, spec: ModuleSpec) -> Loader | None:
        own = spec.loader
        if type(own) is not SourceFileLoader:
            return None
        return PostponedLoader(own.name, own.path)


class PostponedLoader(SourceFileLoader):
    """A loader that compiles as if the source began with `from __future__ import annotations`."""

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code of a module, from its bytecode file if that is up to date."""
        source = Path(self.get_filename(fullname))
        stats = source.stat()
        header = _HEADER.pack(
            importlib.util.MAGIC_NUMBER, int(stats.st_mtime) & _MASK, stats.st_size & _MASK
        )
        cached = bytecode_of(source)
        with suppress(OSError, EOFError, ValueError, TypeError):
            content = cached.read_bytes()
            if content.startswith(header):
                # as trustworthy as the interpreter's own files in that folder
                return marshal.loads(memoryview(content)[_HEADER.size :])  # noqa: S302
        flag = __future__.annotations.compiler_flag
        code = compile(source.read_bytes(), str(source), "exec", flags=flag, dont_inherit=True)
        if not sys.dont_write_bytecode:
            _write(cached, header + marshal.dumps(code))
        return code


def bytecode_of(source: Path) -> Path:
    """Return the bytecode file of a module with postponed annotations, which may not exist yet."""
    return Path(importlib.util.cache_from_source(str(source), optimization=_TAG))


def _write(file: Path, content: bytes) -> None:
    """Replace a bytecode file; where it cannot be written, the next run compiles again."""
    partial = file.with_suffix(f".{os.getpid()}.tmp")
    with suppress(OSError):
        file.parent.mkdir(exist_ok=True)
        partial.write_bytes(content)
        partial.replace(file)
