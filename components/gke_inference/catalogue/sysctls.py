"""Kernel parameters of nodes that GKE sets, and those that pods may set.

Source of the names and ranges: the ComputeClass as GKE serves it (cloud.google.com/v1,
`nodeSystemConfig.linuxNodeConfig.sysctls`), for the parameters that node pools have as well
(Kubernetes Engine API, LinuxNodeConfig). The two documents agree with the reference of `gcloud
container node-pools create --system-config-from-file`.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from .input_error import InputError
from .problems import join

_MAX_INT: Final = 2_147_483_647
_MAX_SHM: Final = 18_446_744_073_692_774_399
RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "fs.aio-max-nr": (65_536, 4_194_304),
    "fs.file-max": (104_857, 67_108_864),
    "fs.inotify.max_user_instances": (8_192, 1_048_576),
    "fs.inotify.max_user_watches": (8_192, 1_048_576),
    "fs.nr_open": (1_048_576, 2_147_483_584),
    "kernel.shmall": (0, _MAX_SHM),
    "kernel.shmmax": (0, _MAX_SHM),
    "kernel.shmmni": (4_096, 32_768),
    "net.core.busy_poll": (0, _MAX_INT),
    "net.core.busy_read": (0, _MAX_INT),
    "net.core.netdev_max_backlog": (1, _MAX_INT),
    "net.core.optmem_max": (1, _MAX_INT),
    "net.core.rmem_default": (2_304, _MAX_INT),
    "net.core.rmem_max": (2_304, _MAX_INT),
    "net.core.somaxconn": (128, _MAX_INT),
    "net.core.wmem_default": (4_608, _MAX_INT),
    "net.core.wmem_max": (4_608, _MAX_INT),
    "net.ipv4.tcp_max_orphans": (16_384, 262_144),
    "net.ipv4.tcp_tw_reuse": (0, 2),
    "net.netfilter.nf_conntrack_buckets": (65_536, 524_288),
    "net.netfilter.nf_conntrack_max": (65_536, 4_194_304),
    "net.netfilter.nf_conntrack_tcp_timeout_close_wait": (60, 3_600),
    "net.netfilter.nf_conntrack_tcp_timeout_established": (600, 86_400),
    "net.netfilter.nf_conntrack_tcp_timeout_time_wait": (1, 600),
    "vm.dirty_background_ratio": (1, 100),
    "vm.dirty_expire_centisecs": (0, 6_000),
    "vm.dirty_ratio": (1, 100),
    "vm.dirty_writeback_centisecs": (0, 1_000),
    "vm.max_map_count": (65_536, _MAX_INT),
    "vm.min_free_kbytes": (67_584, 1_048_576),
    "vm.overcommit_memory": (0, 2),
    "vm.overcommit_ratio": (0, 100),
    "vm.swappiness": (0, 200),
    "vm.vfs_cache_pressure": (0, 100),
    "vm.watermark_scale_factor": (10, 3_000),
}
"""Smallest and largest value of each parameter."""
_TRIPLES: Final = ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")
"""Parameters with three positive values: smallest, default and largest size in bytes."""
_TEXTS: Final = ("kernel.shmall", "kernel.shmmax")
"""Numbers that a compute class has as text, since they can be larger than its integers."""
_UNSAFE: Final = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.", "net.")
"""Beginnings of the parameters that pods may be allowed to set (Kubernetes' unsafe sysctls)."""


def check_sysctls(where: str, sysctls: Mapping[str, int | str]) -> Iterator[InputError]:
    """Yield the problems of kernel parameters.

    Args:
        where: Path of the field in the user's input.
        sysctls: Values by name.
    """
    for name, value in sysctls.items():
        path = join(where, name)
        if name in _TRIPLES:
            parts = str(value).split()
            if len(parts) != 3 or not all(part.isdigit() and int(part) for part in parts):
                rule = "must be three positive numbers such as '4096 87380 6291456'"
                yield InputError(path, rule, value)
        elif name not in RANGES:
            known = ", ".join(sorted((*RANGES, *_TRIPLES)))
            yield InputError(where, f"must have only parameters that GKE sets ({known})", name)
        elif not isinstance(value, int) or not RANGES[name][0] <= value <= RANGES[name][1]:
            least, most = RANGES[name]
            yield InputError(path, f"must be {least} to {most}", value)


def check_allowed(where: str, patterns: tuple[str, ...]) -> Iterator[InputError]:
    """Yield the problems of parameters that pods may set.

    Args:
        where: Path of the field in the user's input.
        patterns: Names, or beginnings of names with `*`.
    """
    for at, pattern in enumerate(patterns):
        if not pattern.startswith(_UNSAFE):
            groups = "kernel.shm*, kernel.msg*, kernel.sem, fs.mqueue.* and net.*"
            yield InputError(join(where, at), f"must be in {groups}", pattern)


def in_class(sysctls: Mapping[str, int | str]) -> dict[str, int | str]:
    """Return kernel parameters as a compute class has them."""
    return {name: str(value) if name in _TEXTS else value for name, value in sysctls.items()}
