"""A model on Cloud Run: a service with a GPU that scales to zero, for a model on one GPU."""

from typing import Annotated, Any, Final, NotRequired, TypedDict

import pulumi
from pulumi_gcp import cloudrunv2, serviceaccount, storage
from pydantic import Field

from gke_inference.base.checked import camel_path, checked
from gke_inference.base.inputs import name_of, under, user_labels
from gke_inference.base.run_services import grant_callers
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.names import service_account_email
from gke_inference.catalogue.versions import image
from gke_inference.cluster.workload_identity import ACCESS
from gke_inference.intent.cloud_run import RUN_IMAGE, CloudRunSettings, Ingress, run_problems
from gke_inference.intent.settings import RequestSeconds
from gke_inference.serving.launcher.spec import Serving
from gke_inference.serving.model_server import MAPS
from gke_inference.serving.weights import bucket_path

from .container import container, run_serving

_INGRESS: Final = {
    Ingress.INTERNAL: "INGRESS_TRAFFIC_INTERNAL_ONLY",
    Ingress.INTERNAL_AND_LOAD_BALANCER: "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER",
}


class CloudRunModelArgs(TypedDict):
    """Inputs of `CloudRunModel`."""

    account_id: str
    """ID of the service's own service account."""
    model: CloudRunSettings
    """The model, its GPU and its instances. Weights are `gs://BUCKET/PATH@VERSION`."""
    project: str
    """Project of all resources."""
    region: str
    """Region of the service, which must have the GPU."""
    served_name: Annotated[str, Field(min_length=1, max_length=200)]
    """Name that clients send in `model`."""
    service_name: str
    """Name of the service."""
    bucket: NotRequired[pulumi.Input[str]]
    """Bucket of the weights, such as `ModelBucket.bucket_name`. Default: that of `model.weights`,
    which exists already."""
    callers: NotRequired[list[str]]
    """IAM members that may call the service. Default: none; `BackendAccess` allows relays."""
    image: NotRequired[str]
    """Image of the engine, which Cloud Run can pull from Artifact Registry or Docker Hub. Default:
    that of the lock."""
    labels: NotRequired[dict[str, str]]
    """Additional labels."""
    timeout_seconds: NotRequired[RequestSeconds]
    """Maximum time of a request, streams included. Default: 300."""


TIMEOUT_SECONDS: Final = 300


class CloudRunModel(pulumi.ComponentResource):
    """A Cloud Run service that runs vLLM on one GPU, and an account that reads only its weights.

    It scales to zero, unless the model has `min_instances`. Each instance streams the weights from
    the bucket at its start. Callers need an ID token for the URL and the role of an invoker; nobody
    has it by default, and requests from the internet are refused in any case.

    The deployment does not wait for a healthy instance, because a bucket of the same program has no
    weights yet. Push them before the first request.
    """

    account_email: pulumi.Output[str]
    """Address of the service's own service account."""
    service_id: pulumi.Output[str]
    """`projects/P/locations/L/services/S`."""
    url: pulumi.Output[str]
    """URL of the service; the OpenAI-compatible API is below `/v1`."""

    def __init__(
        self, name: str, args: CloudRunModelArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:CloudRunModel", name, {}, opts)
        args = self._args = checked(CloudRunModelArgs, args)
        model, served = args["model"], args["served_name"]
        seconds = args.get("timeout_seconds", TIMEOUT_SECONDS)
        try:
            for problem in run_problems(served, model, seconds, args["region"]):
                raise problem.at(f"model.{problem.path}")
            serving = run_serving(served, model, seconds, model.weights, "model.weights")
        except InputError as error:
            path = camel_path(error.path, MAPS)
            raise pulumi.InputPropertyError(path, error.message) from error
        account = serviceaccount.Account(
            name,
            account_id=name_of(args, "account_id", "service_account"),
            display_name=f"Serves {served} on Cloud Run"[:100],
            project=args["project"],
            opts=under(self),
        )
        reads = storage.BucketIAMMember(
            f"{name}-weights",
            bucket=args.get("bucket") or bucket_path(model.weights, "model.weights").bucket,
            member=f"serviceAccount:{self._email}",
            role=ACCESS["read"],
            opts=under(self, depends_on=[account]),
        )
        service = cloudrunv2.Service(
            f"{name}-service",
            deletion_protection=False,  # it has no data
            ingress=_INGRESS[model.ingress],
            labels=user_labels(args, "cloud-run"),
            location=args["region"],
            name=name_of(args, "service_name", "run_service"),
            project=args["project"],
            template=self._template(serving, model, seconds),
            opts=under(self, depends_on=[reads]),
        )
        grant_callers(
            name,
            service,
            args.get("callers", []),
            location=args["region"],
            project=args["project"],
            parent=self,
        )
        self.account_email = account.email
        self.service_id = service.id
        self.url = service.uri
        self.register_outputs(
            {"accountEmail": self.account_email, "serviceId": self.service_id, "url": self.url}
        )

    @property
    def _email(self) -> str:
        return service_account_email(self._args["account_id"], self._args["project"])

    def _template(self, serving: Serving, model: CloudRunSettings, seconds: int) -> Any:
        """Return the template of revisions."""
        args = self._args
        return {
            "containers": [
                container(serving, model, args.get("image") or image(RUN_IMAGE).reference)
            ],
            "execution_environment": "EXECUTION_ENVIRONMENT_GEN2",
            "gpu_zonal_redundancy_disabled": not model.zonal_redundancy,
            "health_check_disabled": True,  # weights are pushed after the bucket exists
            "max_instance_request_concurrency": model.concurrency,
            "node_selector": {"accelerator": model.accelerator},
            "scaling": {
                "max_instance_count": model.max_instances,
                "min_instance_count": model.min_instances,
            },
            "service_account": self._email,
            "timeout": f"{seconds}s",
        }
