"""Tokens for scrape targets, from the Secrets that the collector of Managed Prometheus may read."""

import base64
import binascii
from collections.abc import Iterable
from pathlib import Path

from gke_inference.catalogue.managed_prometheus import COLLECTOR, collectors_namespace
from twin.cluster.base.context import ClusterContext
from twin.cluster.base.fields import text_map
from twin.cluster.monitoring.scrape import SecretKey
from twin.host.private_files import private_folder, write_private
from twin.wire.kube import Kube, KubeError

_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def write(ctx: ClusterContext, folder: Path, wanted: Iterable[SecretKey]) -> None:
    """Write the tokens that the collector may read, and remove all others.

    Prometheus reads a token's file before each scrape; a scrape without its file fails.
    """
    private_folder(folder)
    user = collector(autopilot=ctx.spec.autopilot)
    found = {each.file: _read(ctx.kube, user, each) for each in wanted}
    for name, token in found.items():
        file = folder / name
        if token is not None and not (file.is_file() and file.read_text() == token):
            write_private(file, token)
    for file in folder.iterdir():
        if found.get(file.name) is None:
            file.unlink()


def collector(*, autopilot: bool) -> str:
    """Return the user name of the collector."""
    return f"system:serviceaccount:{collectors_namespace(autopilot=autopilot)}:{COLLECTOR}"


def _read(kube: Kube, user: str, wanted: SecretKey) -> str | None:
    """Return the content of a Secret's key, or None if it is missing or may not be read."""
    asked = {
        "name": wanted.name,
        "namespace": wanted.namespace,
        "resource": "secrets",
        "verb": "get",
    }
    try:
        review = kube.post(_REVIEWS, {"spec": {"resourceAttributes": asked, "user": user}})
        if not review["status"]["allowed"]:
            return None
        secret = kube.get(f"/api/v1/namespaces/{wanted.namespace}/secrets/{wanted.name}")
        value = text_map(secret, "data").get(wanted.key)
        return None if value is None else base64.b64decode(value).decode()
    except (KubeError, binascii.Error, UnicodeDecodeError):
        return None
