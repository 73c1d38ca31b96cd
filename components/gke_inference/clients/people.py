"""People behind Identity-Aware Proxy as a team of clients, for the gate of a region."""

from typing import Any, Final, TypedDict

from gke_inference.settings.fields import Audience, Name

IAP_HEADER: Final = "x-goog-iap-jwt-assertion"
"""Header with the signed identity of a person
(docs.cloud.google.com/iap/docs/signed-headers-howto)."""
IAP_ISSUER: Final = "https://cloud.google.com/iap"
IAP_KEYS: Final = "https://www.gstatic.com/iap/verify/public_key-jwk"


class ClientPeopleArgs(TypedDict):
    """People who sign in at the global load balancer in front of the Gateway."""

    audience: Audience
    """Audience of their tokens: `/projects/NUMBER/global/backendServices/ID` of the backend service
    of a `GlobalFront` for people. Pulumi rounds this ID, so it cannot be an output."""
    team: Name
    """Their team."""


def token_of_people(people: ClientPeopleArgs) -> dict[str, Any]:
    """Return the issuer of their tokens in the program's format.

    The role of the front decides who signs in, so everyone is in the team: it is that of the
    issuer.
    """
    return {
        "audiences": [people["audience"]],
        "claim": "iss",
        "header": IAP_HEADER,
        "issuer": IAP_ISSUER,
        "jwks_uri": IAP_KEYS,
        "teams": {IAP_ISSUER: people["team"]},
    }
