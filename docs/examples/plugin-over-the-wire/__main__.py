"""Serve a model through the plugin, without importing it or sharing Python types.

An SDK that `pulumi package add` generates sends the same requests: the component's token, `remote`,
and inputs in camelCase. The engine starts the plugin, which constructs the component over gRPC.
"""

from typing import Any

import pulumi


class Remote(pulumi.ComponentResource):
    """A component of the plugin, whose outputs are read by name."""

    def __init__(
        self,
        token: str,
        name: str,
        inputs: dict[str, Any],
        outputs: list[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        props = {**dict.fromkeys(outputs), **inputs}
        super().__init__(f"gke-inference:index:{token}", name, props, opts, remote=True)

    def output(self, name: str) -> pulumi.Output[Any]:
        """Return an output that was named when the component was created."""
        return getattr(self, name)


config = pulumi.Config()
bucket = Remote(
    "ModelBucket",
    "weights",
    {
        "bucketName": f"{config.require('project')}-weights",
        "location": "us-central1",
        "project": config.require("project"),
        "softDeleteDays": 7.0,  # most languages send floating-point numbers
    },
    ["bucketName", "url"],
)
server = Remote(
    "ModelServer",
    "chat",
    {
        "computeClasses": {"gpu": "chat"},
        "context": 8192.0,
        "model": "chat",
        "namespace": "serving",
        "replicas": {"max": 1.0, "min": 1.0},
        "rungs": [{"accelerator": "nvidia-l4", "count": 1.0, "provisioning": "spot"}],
        "servedName": "llama-3.1-8b",
        "serviceAccount": "chat",
        "settings": {"engineArgs": {"max-num-batched-tokens": 4096.0}},
        "size": {"parametersBillion": 8.03},
        "weights": f"gs://{config.require('project')}-weights/llama-3.1-8b",
    },
    ["deployments", "placements", "port", "servedNames"],
)

pulumi.export("url", bucket.output("url"))
pulumi.export("placements", server.output("placements"))
pulumi.export("port", server.output("port"))
pulumi.export("servedNames", server.output("servedNames"))
