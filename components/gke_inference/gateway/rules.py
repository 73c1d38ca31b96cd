"""Rules between the settings of gateways that hold for stacks and for components."""

from collections.abc import Iterator, Mapping

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join

from .settings import Exposure


def check_hostname(
    where: str, hostname: str | None, certificate: str | None
) -> Iterator[InputError]:
    """Yield the problem of a hostname without a certificate."""
    if hostname is not None and certificate is None:
        path = join(where, "hostname")
        yield InputError(path, "needs 'certificate'", hostname, " without one")


def check_hostnames(
    gateway: Mapping[str, str | None], hosts: Mapping[str, str | None]
) -> Iterator[InputError]:
    """Yield the hostnames that another listener has.

    Args:
        gateway: Hostname of the gateway, or None, by its path.
        hosts: The same of each further listener.
    """
    owners = {host: path for path, host in gateway.items() if host is not None}
    for path, host in hosts.items():
        if host is not None and host in owners:
            yield InputError(path, f"must differ from {owners[host]}", host)
        if host is not None:
            owners.setdefault(host, path)


def check_exposure(
    where: str, exposure: Exposure, *, requests_per_minute: int | None, global_access: bool
) -> Iterator[InputError]:
    """Yield the settings that a gateway's exposure excludes."""
    if exposure is Exposure.INTERNAL and requests_per_minute is not None:
        rule = "must not be set when exposure is internal: Cloud Armor guards external gateways"
        yield InputError(join(where, "requests_per_minute"), rule, requests_per_minute)
    if exposure is Exposure.EXTERNAL and global_access:
        rule = "must not be set when exposure is external: the internet reaches every region"
        yield InputError(join(where, "global_access"), rule, value=True)
