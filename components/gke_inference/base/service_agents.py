"""Service agents: Google-managed accounts that must exist in a project before a grant."""

from dataclasses import dataclass

import pulumi
from pulumi_gcp import projects

from .inputs import under


@dataclass(frozen=True)
class ServiceAgent:
    """A service whose agent gets roles in a project.

    Services and domains: cloud.google.com/iam/docs/service-agents. The service name of Service
    Extensions comes from GoogleCloudPlatform/terraform-google-enterprise-application.
    """

    service: str
    """Name of the service, such as pubsub.googleapis.com."""
    domain: str
    """First part of its agents' domain, such as gcp-sa-pubsub."""

    def member(self, project_number: str) -> str:
        """Return the IAM member of a project's agent."""
        account = f"service-{project_number}@{self.domain}.iam.gserviceaccount.com"
        return f"serviceAccount:{account}"

    def ensure(
        self, name: str, project: pulumi.Input[str], parent: pulumi.Resource
    ) -> pulumi.Resource:
        """Create the agent of a project. Grants to it must depend on the returned resource.

        Google creates it only when the service is first used, and rejects grants until then
        (cloud.google.com/iam/docs/create-service-agents). If it exists, nothing changes, and
        deleting the resource keeps the agent.
        """
        return projects.ServiceIdentity(
            f"{name}-agent-identity", project=project, service=self.service, opts=under(parent)
        )


ARTIFACT_REGISTRY = ServiceAgent("artifactregistry.googleapis.com", "gcp-sa-artifactregistry")
MULTI_CLUSTER_INGRESS = ServiceAgent(
    "multiclusteringress.googleapis.com", "gcp-sa-multiclusteringress"
)
PUBSUB = ServiceAgent("pubsub.googleapis.com", "gcp-sa-pubsub")
SERVICE_EXTENSIONS = ServiceAgent("networkservices.googleapis.com", "gcp-sa-dep")
