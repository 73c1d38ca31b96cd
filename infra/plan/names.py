"""Names of the platform's resources in the cloud and in clusters."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from gke_inference.catalogue.files.buckets import bucket_in
from gke_inference.catalogue.names import physical_name, router_name
from infra.stack import Layer, Platform
from workloads.engine.weights_manifest import split

NAMESPACE = "models"
"""Namespace that a platform creates."""
GATEWAY_NAMESPACE = "inference-gateway"
"""Namespace of the gateway that teams share."""


@dataclass(frozen=True)
class Names:
    """Physical names of one platform. Each raises ValueError if it breaks Google's naming rules."""

    prefix: str
    """First part of every name."""
    environment: str
    """Second part of every name."""
    layer: Layer
    """Part of the platform that the stack deploys."""
    team: str | None
    """Team of a serving stack."""
    existing_namespace: str | None
    """Namespace of the models that the stack does not create."""
    existing_buckets: Mapping[str, str]
    """Buckets of weights that the stack does not create, by region."""

    def network(self) -> str:
        """Return the name of the VPC."""
        return self._name("compute", "net")

    def accelerator_networks(self) -> str:
        """Return the prefix of the names of the networks of accelerators' interfaces."""
        return self._name("compute", "accelerators")

    def cluster(self, region: str) -> str:
        """Return the name of a region's cluster."""
        return self._name("cluster", region)

    def node_account(self, region: str) -> str:
        """Return the service account ID of a region's nodes."""
        return self._name("service_account", region)

    def namespace(self) -> str:
        """Return the namespace of gateway, pools and servers. A pool selects only pods in its own.

        It is the same in every cluster, and so are the principals of its service accounts. A team's
        models are in the team's own namespace, and their shared gateway is in another.
        """
        if self.layer is Layer.PLATFORM:
            return GATEWAY_NAMESPACE
        if self.layer is Layer.SERVING:
            return str(self.team)
        return self.existing_namespace or NAMESPACE

    def gateway_namespace(self) -> str:
        """Return the namespace of the Gateway."""
        return self.namespace() if self.layer is Layer.ALL else GATEWAY_NAMESPACE

    def field_manager(self) -> str:
        """Return the field manager of the stack's objects in every cluster."""
        return "-".join(("gke-inference", *self._parts))

    def title(self) -> str:
        """Return the name of the stack in dashboards and alerts."""
        return " ".join(self._parts)

    @property
    def _parts(self) -> list[str]:
        team = [] if self.team is None else [self.team]
        return [self.prefix, self.environment, *team]

    def gateway(self) -> str:
        """Return the name of the Gateway, the same in every cluster."""
        return self._name("compute", "gateway")

    def body_router(self) -> str:
        """Return the name of the Gateway's body router, the same in every cluster."""
        return router_name(self.gateway())

    def bucket(self, role: str, region: str, team: str | None = None) -> str:
        """Return the global name of a region's bucket: role `models` or `caches`.

        Args:
            role: Content of the bucket.
            region: Region of the bucket.
            team: Team that owns the caches. Default: the stack's own team.
        """
        if role == "models" and region in self.existing_buckets:
            return self.existing_buckets[region]
        owner = (team or self.team) if role == "caches" else None
        return self._name("bucket", "-".join(filter(None, (role, region, owner))))

    def batches(self, region: str) -> str:
        """Return the global name of the batch bucket."""
        return self._name("bucket", f"batches-{region}")

    def personal(self) -> str:
        """Return the name of the service for personalized images, and of its topic."""
        return self._name("compute", "personal")

    def personal_account(self) -> str:
        """Return the service account ID of that service."""
        return self._name("service_account", "personal")

    def personal_bucket(self, region: str) -> str:
        """Return the global name of the bucket of its users' data."""
        return self._name("bucket", f"personal-{region}")

    def guardrail(self, name: str) -> str:
        """Return the name of a guardrail's template, the same in every region."""
        return self._name("compute", name)

    def address(self) -> str:
        """Return the name of the gateway's IP address, the same in every region."""
        return self._name("compute", "gateway")

    def front(self) -> str:
        """Return the name of the front, which is also the prefix of its parts' names."""
        return self._name("compute", "front")

    def front_router(self) -> str:
        """Return the name of the front's services on Cloud Run, the same in every region."""
        return self._name("run_service", "front")

    def front_router_account(self) -> str:
        """Return the service account ID of these services."""
        return self._name("service_account", "front")

    def front_of(self, model: str) -> str:
        """Return the name of the front's backends for one model."""
        return self._name("compute", f"front-{object_name(model)}")

    def disk(self, model: str, region: str) -> str:
        """Return the name of a model's disks in a region."""
        return self._name("compute", f"{object_name(model)}-{region}")

    def placement(self, capacity: str) -> str:
        """Return the name of the placement policy of a capacity's nodes."""
        return self._name("compute", f"{capacity}-placement")

    def filestore(self, region: str) -> str:
        """Return the name of a region's Filestore instance."""
        return self._name("compute", f"shared-{region}")

    def archive(self, name: str) -> str:
        """Return the global name of an archive's bucket."""
        return self._name("bucket", f"archive-{name}")

    def lustre(self, region: str) -> str:
        """Return the name of a region's Managed Lustre instance."""
        return self._name("compute", f"lustre-{region}")

    def weights(self, path: str, region: str) -> str:
        """Return `gs://BUCKET/PATH` of weights as a region reads them, with `@VERSION` if named."""
        folder, version = split(path)
        found = folder.rstrip("/")
        if bucket_in(found) is None:
            found = f"gs://{self.bucket('models', region)}/{found}"
        return found if version is None else f"{found}@{version}"

    def client_keys(self) -> str:
        """Return the name of the secret with the hashes of client keys."""
        return self._name("compute", "client-keys")

    def apigee(self, region: str) -> str:
        """Return the name of a region's API proxy. Names of an Apigee organization are global."""
        return self._name("compute", f"apigee-{region}")

    def apigee_product(self, product: str, region: str) -> str:
        """Return the name of an API product of a region's proxy, in the Apigee organization."""
        return self._name("compute", f"{product}-{region}")

    def apigee_app(self, app: str) -> str:
        """Return the name of an app of a developer, in the Apigee organization."""
        return self._name("compute", app)

    def backend_secret(self, secret: str) -> str:
        """Return the name of the secret with an API key."""
        return self._name("compute", secret)

    def backend_caller(self) -> str:
        """Return the service account ID that calls backends on Cloud Run."""
        return self._name("service_account", "relay")

    def run_service(self, backend: str, at: int) -> str:
        """Return the name of the Cloud Run service of a backend's target, the same in every region.

        Args:
            backend: Name of the backend.
            at: Number of the target in the backend.
        """
        return self._name("run_service", run_role(backend, at))

    def run_account(self, backend: str, at: int, region: str) -> str:
        """Return the service account ID of such a service in a region.

        It has a hash of both names, because an ID has at most 30 characters.
        """
        digest = sha256(f"{backend}/{at}/{region}".encode()).hexdigest()
        return self._name("service_account", f"run-{digest[:6]}")

    def counters(self) -> str:
        """Return the name of the counter store, the same in every region."""
        return self._name("compute", "counters")

    def answers(self) -> str:
        """Return the name of the answer store, the same in every region."""
        return self._name("compute", "answers")

    def stream(self, name: str) -> str:
        """Return the name of a stream's topic and subscription, and prefix of related names."""
        return self._name("compute", f"stream-{name}")

    def pipeline(self, name: str) -> str:
        """Return the name of a pipeline's job, subscription and topic of events."""
        return self._name("compute", f"pipeline-{name}")

    def pipeline_account(self, name: str) -> str:
        """Return the service account ID of a pipeline's workers."""
        return self._name("service_account", f"pipe-{name}")

    def pipeline_bucket(self, name: str) -> str:
        """Return the global name of the bucket of a pipeline's template and temporary files."""
        return self._name("bucket", f"pipeline-{name}")

    def image_builder(self) -> str:
        """Return the service account ID of image builds."""
        return self._name("service_account", "images")

    def image_sources(self) -> str:
        """Return the global name of the bucket with the sources of image builds."""
        return self._name("bucket", "image-sources")

    def attestor(self) -> str:
        """Return the name of the image attestor and its note."""
        return self._name("compute", "images")

    def _name(self, kind: str, role: str) -> str:
        return physical_name(kind, self.prefix, self.environment, role)


def resolve_names(platform: Platform) -> Names:
    """Return the names of a stack's resources."""
    buckets = {name: region.existing.bucket for name, region in platform.regions.items()}
    return Names(
        prefix=platform.prefix,
        environment=platform.environment,
        layer=platform.layer,
        team=platform.team,
        existing_namespace=platform.existing.namespace,
        existing_buckets={name: bucket for name, bucket in buckets.items() if bucket is not None},
    )


def run_role(backend: str, at: int) -> str:
    """Return the name of a backend's target on Cloud Run, without the prefix of a stack."""
    role = f"run-{object_name(backend)}"
    return f"{role}-{at}" if at else role


def object_name(model: str) -> str:
    """Return a model's name in Kubernetes objects: `llama-3-1-8b` for `llama-3.1-8b`."""
    return model.replace(".", "-").replace("_", "-")


def version_name(name: str, version: str) -> str:
    """Return the name of a model's second version: `NAME-VERSION`."""
    return f"{name}-{version}"


def claim_name(model: str) -> str:
    """Return the name of the claim for a model's disks."""
    return f"{object_name(model)}-weights"


def pool_name(capacity: str, at: int) -> str:
    """Return the node pool name of a capacity's rung, numbered as in the stack."""
    return f"{capacity}-{at}"
