"""Developers and their apps in an Apigee organization, whose keys the API products admit."""

from collections.abc import Sequence
from typing import Annotated, Final, TypedDict

import pulumi
from pulumi_gcp import apigee
from pydantic import Field

from gke_inference.base.checked import checked
from gke_inference.base.inputs import under

from .settings import ApigeeApp

_CALLBACK: Final = "https://localhost"
"""The provider requires a URL for OAuth, which API keys do not use."""


class ApigeeAppsArgs(TypedDict):
    """Inputs of `ApigeeApps`."""

    apps: Annotated[dict[str, ApigeeApp], Field(min_length=1)]
    """Apps by name. Their products must exist in the organization."""
    project: pulumi.Input[str]
    """Project of the Apigee organization."""


class ApigeeApps(pulumi.ComponentResource):
    """Registers the developers of apps, and creates the apps with their keys.

    The state contains the keys, encrypted by the secrets provider of the stack.
    """

    keys: pulumi.Output[dict[str, str]]
    """Keys by app, as a secret."""

    def __init__(
        self, name: str, args: ApigeeAppsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ApigeeApps", name, {}, opts)
        args = checked(ApigeeAppsArgs, args)
        organization = pulumi.Output.concat("organizations/", args["project"])
        developers = {
            email: _developer(f"{name}-{email}", email, organization, under(self))
            for email in sorted({app.developer for app in args["apps"].values()})
        }
        apps = {
            title: apigee.DeveloperApp(
                f"{name}-{title}",
                api_products=list(app.products),
                callback_url=_CALLBACK,
                developer_email=developers[app.developer].email,
                name=title,
                org_id=organization,
                opts=pulumi.ResourceOptions(parent=self, additional_secret_outputs=["credentials"]),
            )
            for title, app in args["apps"].items()
        }
        found = {title: app.credentials.apply(_key) for title, app in apps.items()}
        self.keys = pulumi.Output.secret(pulumi.Output.all(**found))
        self.register_outputs({"keys": self.keys})


def _developer(
    name: str, email: str, organization: pulumi.Output[str], opts: pulumi.ResourceOptions
) -> apigee.Developer:
    """Return a developer. Apigee requires names, which are the parts of the address."""
    local, _, domain = email.partition("@")
    return apigee.Developer(
        name,
        email=email,
        first_name=local,
        last_name=domain,
        org_id=organization,
        user_name=email,
        opts=opts,
    )


def _key(credentials: Sequence[apigee.outputs.DeveloperAppCredential]) -> str:
    return credentials[0].consumer_key or "" if credentials else ""
