"""NeMo Guardrails in a cluster: a service that checks prompts and answers."""

from typing import NotRequired, TypedDict

import pulumi

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import name_of, under
from gke_inference.base.manifests import register

from .nemo import PORT, nemo_objects
from .rules import check_files
from .settings import REPLICAS, GuardReplicas


class NemoGuardrailsArgs(TypedDict):
    """Inputs of `NemoGuardrails`."""

    guard_name: str
    """Kubernetes name of its objects."""
    namespace: str
    """Namespace of the `ClientGate` that calls it."""
    files: NotRequired[dict[str, str]]
    """Rails by file name: `config.yml`, Colang, `actions.py`. Default: those in the image, which
    block prompt injections and mask personal data."""
    replicas: NotRequired[GuardReplicas]
    """Replicas. Default: 2."""


class NemoGuardrails(pulumi.ComponentResource):
    """A guard that a `ClientGate` calls to check prompts and answers. It logs neither."""

    url: pulumi.Output[str]
    """URL inside the cluster."""

    def __init__(
        self, name: str, args: NemoGuardrailsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:NemoGuardrails", name, {}, opts)
        args = checked(NemoGuardrailsArgs, args)
        guard = name_of(args, "guard_name", "namespace")
        files = args.get("files", {})
        if files:
            keep(check_files("files", files))
        replicas = args.get("replicas", REPLICAS)
        made: list[pulumi.Resource] = []
        for role, obj in nemo_objects(guard, args["namespace"], replicas, files).items():
            logical = name if role == "deployment" else f"{name}-{role}"
            made.append(register(logical, obj, under(self, depends_on=list(made))))
        url = f"http://{guard}.{args['namespace']}.svc:{PORT}"
        self.url = made[-1].urn.apply(lambda _: url)
        self.register_outputs({"url": self.url})
