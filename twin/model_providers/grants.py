"""IAM permissions of relays on a twin, from the resources of its cloud."""

from typing import Final

from twin.model_providers.dialects import Grants
from twin.world.store import Store

_OF_PROJECT: Final = "gcp:projects/iAMMember:IAMMember"
_OF_ACCOUNT: Final = "gcp:serviceaccount/iAMMember:IAMMember"
_OF_SERVICE: Final = "gcp:cloudrunv2/serviceIamMember:ServiceIamMember"
_RELAY: Final = "/sa/relay"


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
        # a Cloud Run host starts with the name of its service
        return any(
            each.inputs.get("role") == "roles/run.invoker"
            and host.startswith(f"{each.inputs.get('name')}-")
            and each.inputs.get("member") == f"serviceAccount:{account}"
            for each in store.find(_OF_SERVICE)
        )

    return Grants(may_use_vertex, may_make_tokens, may_invoke)
