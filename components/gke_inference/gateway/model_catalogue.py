"""The model catalog: a small web server for `GET /v1/models` and `GET /v1/models/NAME`.

It also answers the probes of uptime checks and of Cloud DNS (`load_balancing.HEALTH_PATH`).

It also rejects the Responses API and Anthropic's Messages API of models with prefill and decode
replicas, whose picker cannot read them (`routes.RESPONSES_PATH`), in the error format of each.

No model server knows the others, so the answers for the whole gateway are rendered from the stack
and served as they are. Their form, for simulators:

- container `catalogue`, an unprivileged nginx, port 8080 (named `http`);
- ConfigMap key `models.json`, mounted at `/srv/catalogue/models.json`, is the body of
  `GET /v1/models` (content type `application/json`);
- ConfigMap key `default.conf`, mounted at `/etc/nginx/conf.d/default.conf`, is the nginx server;
- `GET /v1/models/NAME` answers with the entry of that name, or 404 with an error;
- a method other than GET and HEAD on these paths gets 405 with an error, since GKE's gateways do
  not match methods (kubernetes-sigs/gateway-api, conformance/reports/v1.6/gke-gateway);
- `GET /healthz` answers 200, also behind a team's prefix, `/v1/responses` and what is below it 404
  with an error, `/v1/messages` too if a model has such replicas, and anything else 404.
"""

import json

from gke_inference.base.manifests import (
    HARDENED_CONTAINER,
    Manifest,
    available,
    deployment,
    disruption_budget,
    hardened_pod,
    labels_for,
    manifest,
    service,
)
from gke_inference.catalogue.load_balancing import (
    CATALOGUE_PATH,
    CATALOGUE_PORT,
    HEALTH_PATH,
    health_path,
)
from gke_inference.catalogue.versions import image

PORT = CATALOGUE_PORT
COMPONENT = "model-catalogue"
"""Value of `app.kubernetes.io/component` on its objects."""
_UNPRIVILEGED_NGINX_USER = 101


def _error(code: str, message: str, param: str | None = None) -> str:
    fields = {"code": code, "message": message, "param": param, "type": "invalid_request_error"}
    return json.dumps({"error": fields})


_REFUSED = _error(
    "unknown_url", "This model does not serve the Responses API: use /v1/chat/completions."
)
_NO_MESSAGES = json.dumps(
    {
        "error": {
            "message": "This model does not serve the Messages API: use /v1/chat/completions.",
            "type": "not_found_error",
        },
        "type": "error",
    }
)
_UNKNOWN = _error("model_not_found", "The model does not exist.", "model")
_WRITTEN = _error("method_not_allowed", "The method must be GET.")
_READ_ONLY = f"if ($request_method !~ ^(GET|HEAD)$) {{ return 405 '{_WRITTEN}'; }}"
_OK = f'{{ {_READ_ONLY} return 200 "ok"; }}'
_SERVER = f"""\
server {{
    listen 8080;
    server_tokens off;
    access_log off;
    default_type application/json;
    location = {HEALTH_PATH} {_OK}
    location = {CATALOGUE_PATH} {{ {_READ_ONLY} alias /srv/catalogue/models.json; }}
    location /v1/responses {{ return 404 '{_REFUSED}'; }}
    location / {{ return 404; }}
}}
"""


def catalogue_document(models: dict[str, list[str]]) -> str:
    """Return the OpenAI model list for served models and their adapters.

    Args:
        models: Served model name to the names of its adapters.
    """
    return json.dumps({"object": "list", "data": _entries(models)}, indent=1)


def _entries(models: dict[str, list[str]]) -> list[Manifest]:
    data: list[Manifest] = []
    for model in sorted(models):
        data.append(_entry(model, parent=None))
        data.extend(_entry(adapter, parent=model) for adapter in sorted(models[model]))
    return data


def catalogue_objects(
    name: str,
    namespace: str,
    models: dict[str, list[str]],
    replicas: int,
    path: str = CATALOGUE_PATH,
    *,
    refuses_messages: bool = False,
) -> list[Manifest]:
    """Return the catalog's ConfigMap, Deployment, budget and Service, in creation order.

    Args:
        name: Name of the objects.
        namespace: Their namespace.
        models: Served model name to the names of its adapters.
        replicas: Replicas of the Deployment.
        path: Path of the list.
        refuses_messages: Whether a model has no Messages API.
    """
    labels = labels_for(name, COMPONENT)
    listed = f"    location = {CATALOGUE_PATH} "
    server = _SERVER.replace(listed, f"{_single(models, path)}    location = {path} ")
    if refuses_messages:
        refused = "    location /v1/responses "
        messages = f"    location /v1/messages {{ return 404 '{_NO_MESSAGES}'; }}\n"
        server = server.replace(refused, f"{messages}{refused}")
    if (own := health_path(path)) != HEALTH_PATH:
        probes = f"    location = {HEALTH_PATH} "
        server = server.replace(probes, f"    location = {own} {_OK}\n{probes}")
    files = {"default.conf": server, "models.json": catalogue_document(models)}
    return [
        manifest("config_map", name, namespace, labels=labels, data=files),
        deployment(name, namespace, COMPONENT, available(name, _pod(name)), replicas, files=files),
        disruption_budget(name, namespace, COMPONENT),
        service(
            name,
            namespace,
            COMPONENT,
            [{"name": "http", "port": PORT, "targetPort": "http"}],
        ),
    ]


def _single(models: dict[str, list[str]], path: str) -> str:
    """Return the locations below the list: one for each name, and one for all others."""
    found = {f"{path}/": f"404 '{_UNKNOWN}'"}
    found |= {f"= {path}/{each['id']}": f"200 '{json.dumps(each)}'" for each in _entries(models)}
    return "".join(
        f"    location {at} {{ {_READ_ONLY} return {says}; }}\n" for at, says in found.items()
    )


def _pod(name: str) -> Manifest:
    return {
        "automountServiceAccountToken": False,
        "containers": [
            {
                "image": image("model_catalogue").reference,
                "name": "catalogue",
                "ports": [{"containerPort": PORT, "name": "http"}],
                "readinessProbe": {"httpGet": {"path": HEALTH_PATH, "port": "http"}},
                "resources": {
                    "limits": {"memory": "64Mi"},
                    "requests": {"cpu": "20m", "memory": "32Mi"},
                },
                "securityContext": HARDENED_CONTAINER,
                "volumeMounts": [
                    {"mountPath": "/etc/nginx/conf.d", "name": "server", "readOnly": True},
                    {"mountPath": "/srv/catalogue", "name": "models", "readOnly": True},
                    {"mountPath": "/tmp", "name": "scratch"},  # noqa: S108 (an emptyDir of the pod)
                ],
            }
        ],
        "securityContext": hardened_pod(_UNPRIVILEGED_NGINX_USER),
        "volumes": [
            _file_volume("server", name, "default.conf"),
            _file_volume("models", name, "models.json"),
            {"emptyDir": {"sizeLimit": "16Mi"}, "name": "scratch"},
        ],
    }


def _file_volume(volume: str, config_map: str, key: str) -> Manifest:
    return {
        "configMap": {"items": [{"key": key, "path": key}], "name": config_map},
        "name": volume,
    }


def _entry(name: str, parent: str | None) -> Manifest:
    entry: Manifest = {"created": 0, "id": name, "object": "model", "owned_by": "gke-inference"}
    if parent is not None:
        entry["parent"] = parent
    return entry
