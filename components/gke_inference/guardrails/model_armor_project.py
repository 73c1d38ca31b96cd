"""Project prerequisites of Model Armor calls, and the project's floor setting."""

from typing import Any, NotRequired, TypedDict, cast

import pulumi
from pulumi_gcp import modelarmor, projects

from gke_inference.base.checked import checked
from gke_inference.base.inputs import under
from gke_inference.base.propagation import until_effective
from gke_inference.base.service_agents import SERVICE_EXTENSIONS

from .model_armor import filter_config
from .settings import ArmorFilters

ROLES = (
    "roles/modelarmor.calloutUser",
    "roles/modelarmor.user",
    "roles/serviceusage.serviceUsageConsumer",
)
"""Roles of the agent that calls Model Armor for a load balancer
(cloud.google.com/service-extensions/docs/configure-extensions-to-google-services)."""


class ModelArmorProjectArgs(TypedDict):
    """Inputs of `ModelArmorProject`."""

    project: str
    """Project of the Gateways and templates."""
    project_number: str
    """Number of the project, part of the agent's name."""
    floor: NotRequired[ArmorFilters]
    """Minimum filters of every template in the project. Default: no floor."""


class ModelArmorProject(pulumi.ComponentResource):
    """Roles of the Google agent that calls Model Armor, and the project's floor setting."""

    agent: pulumi.Output[str]
    """IAM member of the agent."""

    def __init__(
        self, name: str, args: ModelArmorProjectArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ModelArmorProject", name, {}, opts)
        args = checked(ModelArmorProjectArgs, args)
        member = SERVICE_EXTENSIONS.member(args["project_number"])
        identity = SERVICE_EXTENSIONS.ensure(name, args["project"], self)
        hooks = until_effective(self, name)
        for role in ROLES:
            projects.IAMMember(
                f"{name}-{role.split('.')[-1]}",
                member=member,
                project=args["project"],
                role=role,
                opts=under(self, depends_on=[identity], hooks=hooks),
            )
        floor = args.get("floor")
        if floor is not None:
            modelarmor.Floorsetting(
                f"{name}-floor",
                enable_floor_setting_enforcement=True,
                filter_config=cast("Any", filter_config(floor)),  # the SDK has two equal types
                location="global",
                parent=f"projects/{args['project']}",
                opts=under(self),
            )
        self.agent = pulumi.Output.from_input(member)
        self.register_outputs({"agent": self.agent})
