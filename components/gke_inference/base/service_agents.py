"""Service agents: accounts of Google's own services, which a project must have before a grant."""

from dataclasses import dataclass

import pulumi
from pulumi_gcp import projects

from .inputs import under


@dataclass(frozen=True)
class ServiceAgent:
    """A service whose agent gets roles in a project.

    Services and domains: cloud.google.com/iam/docs/service-agents; the service of Service
    Extensions is that of GoogleCloudPlatform/terraform-google-enterprise-application.
    """

    service: str
    """Name of the service, such as pubsub.googleapis.com."""
    domain: str
    """First part of the domain of its agents, such as gcp-sa-pubsub."""

    def member(self, project_number: str) -> str:
        """Returns the IAM member of a project's agent."""
        account = f"service-{project_number}@{self.domain}.iam.gserviceaccount.com"
        return f"serviceAccount:{account}"

    def ensure(self, name: str, project: str, parent: pulumi.Resource) -> pulumi.Resource:
        """Builds the agent of a project; grants to it must depend on what is returned.

        Google makes it by itself only when the service is first used, and refuses grants until then
        (cloud.google.com/iam/docs/create-service-agents). Where it exists nothing changes, and
        deleting the resource leaves the agent.
        """
        return projects.ServiceIdentity(
            f"{name}-agent-identity", project=project, service=self.service, opts=under(parent)
        )


PUBSUB = ServiceAgent("pubsub.googleapis.com", "gcp-sa-pubsub")
SERVICE_EXTENSIONS = ServiceAgent("networkservices.googleapis.com", "gcp-sa-dep")
