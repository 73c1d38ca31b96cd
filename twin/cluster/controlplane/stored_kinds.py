"""GKE's CRDs in the form in which an API server stores them, kept for later clusters.

An API server checks each CRD that it is sent: its schema, and the cost of each of its CEL rules.
For GKE's, that is about half of its processor time until a cluster is ready. One that finds them in
etcd has nothing to check. The first cluster on a machine is sent its CRDs, and what its API server
made of them is written to the user's cache. The etcd of each later cluster with the same CRDs and
the same Kubernetes gets them before its API server starts.
"""

import json
import logging
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from twin.cluster.base.reports import timestamp
from twin.host.private_files import private_folder, write_private
from twin.toolchain import cache_root
from twin.wire.kube import JsonObject

_log = logging.getLogger(__name__)
_PREFIX = "/registry/apiextensions.k8s.io/customresourcedefinitions/"
_PUT = "/etcdserverpb.KV/Put"
_PUT_SECONDS = 10.0
_OF_ONE_CLUSTER = ("uid", "creationTimestamp", "resourceVersion", "selfLink")


@dataclass(frozen=True)
class EtcdClient:
    """How to write to an etcd."""

    address: str
    """Host and port."""
    authority: Path
    """Certificate of the authority that signed the server's."""
    certificate: Path
    key: Path

    def put(self, values: Iterable[tuple[str, bytes]]) -> None:
        """Write values under their keys.

        Raises:
            grpc.RpcError: etcd refused a value, or did not answer within 10 s.
        """
        import grpc  # noqa: PLC0415 - heavy, and needed only for a new cluster

        credentials = grpc.ssl_channel_credentials(
            self.authority.read_bytes(), self.key.read_bytes(), self.certificate.read_bytes()
        )
        with grpc.secure_channel(self.address, credentials) as channel:
            put = channel.unary_unary(_PUT)
            for key, value in values:
                request = _field(1, key.encode()) + _field(2, value)
                put(request, timeout=_PUT_SECONDS, wait_for_ready=True)


def _field(number: int, value: bytes) -> bytes:
    """Return a field of bytes in protobuf's encoding (etcd's `PutRequest` has two)."""
    left, length = len(value), bytearray()
    while left > 0x7F:
        length.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes((number << 3 | 2,)) + bytes((*length, left)) + value


def _file(key: str) -> Path:
    return cache_root().parent / "control-planes" / f"crds-{key}.json"


def keep(key: str, stored: Iterable[JsonObject]) -> None:
    """Write the established CRDs of a cluster to the user's cache, unless some are there.

    Args:
        key: what the CRDs and the form in which they are stored depend on.
        stored: the CRDs, as the API server returns them.
    """
    file = _file(key)
    if file.exists():
        return
    try:
        private_folder(file.parent)
        write_private(file, json.dumps([_of_any_cluster(crd) for crd in stored]))
    except OSError as error:  # such as beside tools of another user: they only save time
        _log.warning("not kept for later clusters: %s", error)


def _of_any_cluster(crd: JsonObject) -> JsonObject:
    metadata = {
        name: value for name, value in crd["metadata"].items() if name not in _OF_ONE_CLUSTER
    }
    return {
        **crd,
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
    }


def read(key: str) -> list[JsonObject]:
    """Return the CRDs that were kept under a key; none if no cluster has had them yet."""
    try:
        return json.loads(_file(key).read_text())
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:  # another user's, or damaged: they only save time
        _log.warning("the CRDs of an earlier cluster cannot be read: %s", error)
        return []


def write(key: str, etcd: EtcdClient) -> None:
    """Write the CRDs that were kept under a key, if any, into the etcd of a new cluster.

    An API server that does not find one there is sent it, as by the first cluster.
    """
    import grpc  # noqa: PLC0415 - heavy, and needed only for a new cluster

    try:
        etcd.put(_values(read(key)))
    except grpc.RpcError as error:
        _log.warning("the CRDs of an earlier cluster could not be written: %s", error)


def _values(kept: Iterable[JsonObject]) -> Iterator[tuple[str, bytes]]:
    now = timestamp()
    for crd in kept:
        crd["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": now}
        for condition in crd["status"]["conditions"]:
            condition["lastTransitionTime"] = now
        yield _PREFIX + crd["metadata"]["name"], json.dumps(crd).encode()
