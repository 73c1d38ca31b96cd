"""Environment variables that users may set, and what each does."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Variable:
    """An environment variable that users may set."""

    name: str
    effect: str
    """Markdown, with links relative to docs/reference."""
    default: str = "unset"


VARIABLES = (
    Variable(
        "GKE_INFERENCE_KEY",
        "key of a client, for `ask` and `accept` on a stack with [clients](../api-keys.md)",
    ),
    Variable(
        "GKE_INFERENCE_ON",
        "`cloud` makes Google Cloud the default of `--on` "
        "([commands in Google Cloud](../google-cloud-commands.md#selecting-google-cloud))",
        "`twin`",
    ),
    Variable(
        "GKE_INFERENCE_PROMETHEUS_TOKEN",
        "bearer token for `calibrate --prometheus` ([calibration](../calibration.md#metrics))",
    ),
    Variable("GKE_INFERENCE_TWIN_DIR", "folder of the twin", "`build/twin` of the checkout"),
    Variable(
        "GKE_INFERENCE_TOOLS",
        "folder of the [tools](../tools.md)",
        "`~/.cache/gke-inference/tools`, or in `$XDG_CACHE_HOME`",
    ),
    Variable(
        "GKE_INFERENCE_TOOLS_FROM",
        "`source` builds tools from Go modules without asking for official binaries",
    ),
    Variable(
        "GKE_INFERENCE_TOOLS_MIRROR", "URL of a mirror of the tools' release files and images"
    ),
    Variable(
        "GKE_INFERENCE_NO_SPEEDUPS",
        "`1` runs the unmodified SDKs, without the patches that save seconds "
        "([benchmarks](../benchmarks.md#preview))",
    ),
    Variable(
        "PULUMI_HOME",
        "your Pulumi home, where `--official` looks for plugins; runs on the twin have their own",
        "`~/.pulumi`",
    ),
    Variable("HF_TOKEN", "token of Hugging Face, for `models push --from-hub`"),
    Variable("HF_ENDPOINT", "address of another hub, for `models push --from-hub`"),
    Variable("COLUMNS", "width of piped tables", "every column in its row"),
    Variable(
        "PIP_INDEX_URL, UV_DEFAULT_INDEX, GOPROXY",
        "mirrors of Python packages and Go modules, read by pip, uv and Go",
    ),
)
"""In the order of the reference."""

OF_CI = (
    Variable(
        "GKE_INFERENCE_IDENTITY_PROVIDER, GKE_INFERENCE_SERVICE_ACCOUNT",
        "federated identity that the CI files use; [`bootstrap`](../bootstrap.md) prints them",
    ),
    Variable(
        "GKE_INFERENCE_STATE_BUCKET",
        "bucket of the state, for the CI files; [`bootstrap`](../bootstrap.md) prints it",
    ),
    Variable(
        "GKE_INFERENCE_COMMENT_TOKEN",
        "token that may comment on merge requests of GitLab ([verdict in CI](../verdict-in-ci.md))",
    ),
)
"""Variables of the CI examples."""

INTERNAL = (
    "GKE_INFERENCE_GUARD",
    "GKE_INFERENCE_NO_CLUSTERS",
    "GKE_INFERENCE_ROOT",
    "GKE_INFERENCE_SIM_",
    "GKE_INFERENCE_STACK_OUTPUTS",
    "GKE_INFERENCE_TWIN_RECEIVERS",
    "GKE_INFERENCE_UNBUILT_IMAGES",
)
"""Beginnings of names that commands and the twin set for processes that they start."""
