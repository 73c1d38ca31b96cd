"""Rules about client certificates: a load balancer that validates them, and known teams."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TypeVar

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.problems import join
from gke_inference.clients.rules import check_identities
from gke_inference.front.client_certificates import is_certificate
from infra.stack import Clients, Front, Platform

_AT = "clients.certificates"
_Kind = TypeVar("_Kind", bound=x509.ExtensionType)


def check_certificates(platform: Platform, clients: Clients) -> Iterator[InputError]:
    """Yield the problems of client certificates."""
    certificates = clients.certificates
    if certificates is None:
        return
    if platform.gateway.front is not Front.GLOBAL:
        rule = (
            "must not be set unless gateway.front is global: how a Gateway of GKE names the policy"
            " that validates certificates is not documented"
        )
        yield InputError(_AT, rule)
    elif platform.gateway.publish is not None:
        rule = (
            "must not be set when gateway.publish is set: connections of consumers come from the"
            " same range as those of the global load balancer, and could pose as any team"
        )
        yield InputError(_AT, rule)
    for name in platform.regions_with_gateway():
        if platform.regions[name].existing.subnet is not None:
            where = join("regions", name, "existing", "subnet")
            rule = (
                f"must not be set when {_AT} is set: the range of its published subnet is unknown"
            )
            yield InputError(where, rule)
    for at, text in enumerate(certificates.authorities):
        if problem := _problem_of(text):
            yield InputError(join(_AT, "authorities", at), *problem)
    yield from check_identities(join(_AT, "teams"), certificates.teams, clients.teams)


def _problem_of(text: str) -> tuple[str, Bare] | None:
    """Return the rule of Google's load balancers that an authority breaks, and its value.

    docs.cloud.google.com/load-balancing/docs/mtls, certificate requirements. An authority without
    extended key usage is valid for every use.
    """
    form = "must be one certificate in PEM format"
    if not is_certificate(text):
        return form, Bare(repr(text[:40]))
    try:
        certificate = x509.load_pem_x509_certificate(text.strip().encode())
        extensions = certificate.extensions
        key = certificate.public_key()
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        return form, Bare(f"one that cannot be read: {error}")
    subject = repr(certificate.subject.rfc4514_string())
    basic = _extension(extensions, x509.BasicConstraints)
    usage = _extension(extensions, x509.KeyUsage)
    uses = _extension(extensions, x509.ExtendedKeyUsage)
    end = certificate.not_valid_after_utc
    rules = {
        "must be of an authority (basic constraints with CA)": basic is not None and basic.ca,
        "must have the key usage keyCertSign": usage is not None and usage.key_cert_sign,
        "must have clientAuth in its extended key usage, or no extended key usage": (
            uses is None or ExtendedKeyUsageOID.CLIENT_AUTH in uses
        ),
        "must have an RSA or ECDSA key": isinstance(
            key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey
        ),
        f"must not be expired (its end is {end.date().isoformat()})": end > datetime.now(UTC),
    }
    broken = next((rule for rule, is_kept in rules.items() if not is_kept), None)
    return None if broken is None else (broken, Bare(subject))


def _extension(extensions: x509.Extensions, kind: type[_Kind]) -> _Kind | None:
    try:
        return extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None
