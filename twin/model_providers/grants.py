"""IAM permissions of relays on a twin, from the resources of its cloud."""

import re
from typing import Final

from twin.model_providers.dialects import Grants
from twin.world.store import Store

_OF_PROJECT: Final = "gcp:projects/iAMMember:IAMMember"
_OF_ACCOUNT: Final = "gcp:serviceaccount/iAMMember:IAMMember"
_OF_SERVICE: Final = "gcp:cloudrunv2/serviceIamMember:ServiceIamMember"
_RELAY: Final = "/sa/relay"
_HOST: Final = r"-(?:[0-9]+\.[a-z]+-[a-z]+[0-9]+|[a-z0-9]{10}-[a-z]{2}\.a)\.run\.app"


def grants_of(store: Store) -> Grants:
    """Return the permissions of the members of a twin's cloud, looked up for each request."""

    def may_use_vertex(project: str) -> bool:
        return any(
            each.inputs.get("role") == "roles/aiplatform.user"
            and each.inputs.get("project") == project
            and str(each.inputs.get("member")).endswith(_RELAY)
            for each in store.find(_OF_PROJECT)
        )

    def may_make_tokens(account: str) -> bool:
        return any(
            each.inputs.get("role") == "roles/iam.serviceAccountOpenIdTokenCreator"
            and str(each.inputs.get("serviceAccountId")).endswith(f"/{account}")
            and str(each.inputs.get("member")).endswith(_RELAY)
            for each in store.find(_OF_ACCOUNT)
        )

    def may_invoke(host: str, account: str) -> bool:
        return any(
            each.inputs.get("role") == "roles/run.invoker"
            and is_of_service(host, str(each.inputs.get("name")))
            and each.inputs.get("member") == f"serviceAccount:{account}"
            for each in store.find(_OF_SERVICE)
        )

    return Grants(may_use_vertex, may_make_tokens, may_invoke)


def is_of_service(host: str, name: str) -> bool:
    """Return whether a host name is one of the two that Cloud Run gives a service."""
    return re.fullmatch(re.escape(name) + _HOST, host) is not None
