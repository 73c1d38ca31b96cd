"""NeMo Guardrails in a cluster: a service that checks prompts and answers."""

from typing import NotRequired, TypedDict

import pulumi

from gke_inference.base.inputs import name_of, under, whole
from gke_inference.base.manifests import register

from .nemo import PORT, nemo_objects

_LARGEST_BYTES = 1_000_000  # the API server's limit of an object is 1 MiB


class NemoGuardrailsArgs(TypedDict):
    """Inputs of `NemoGuardrails`."""

    guard_name: str
    """Kubernetes name of its objects."""
    namespace: str
    """Namespace of the `ClientGate` that calls it."""
    files: NotRequired[dict[str, str]]
    """Rails by file name: `config.yml`, Colang, `actions.py`. Default: those in the image, which
    block prompt injections and mask personal data."""
    replicas: NotRequired[int]
    """Replicas, 1 to 20. Default: 2."""


class NemoGuardrails(pulumi.ComponentResource):
    """A guard that a `ClientGate` calls to check prompts and answers. It logs neither."""

    url: pulumi.Output[str]
    """URL inside the cluster."""

    def __init__(
        self, name: str, args: NemoGuardrailsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:NemoGuardrails", name, {}, opts)
        guard = name_of(args, "guard_name", "namespace")
        files = args.get("files", {})
        if files and "config.yml" not in files:
            got = ", ".join(sorted(files))
            raise pulumi.InputPropertyError("files", f"must have config.yml, got {got}")
        size = sum(len(text.encode()) for text in files.values())
        if size > _LARGEST_BYTES:
            rule = f"must have at most {_LARGEST_BYTES} bytes together, got {size}"
            raise pulumi.InputPropertyError("files", rule)
        replicas = whole(args, "replicas", 2, least=1, most=20)
        made: list[pulumi.Resource] = []
        for role, obj in nemo_objects(guard, args["namespace"], replicas, files).items():
            logical = name if role == "deployment" else f"{name}-{role}"
            made.append(register(logical, obj, under(self, depends_on=list(made))))
        url = f"http://{guard}.{args['namespace']}.svc:{PORT}"
        self.url = made[-1].urn.apply(lambda _: url)
        self.register_outputs({"url": self.url})
