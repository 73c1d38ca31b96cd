"""Computed outputs of single resource types."""

import hashlib
import secrets
import time
import uuid
from base64 import b64encode
from collections.abc import Callable

from gke_inference.catalogue.versions import Channel, channel, minor_of
from twin.providers.gcp.resources import dataflow, lustre, memorystore, service_agents
from twin.providers.gcp.resources.identity import (
    COMPUTE_API,
    digest,
    digits,
    names_in,
    project_number,
)
from twin.providers.gcp.schema import Resource
from twin.wire.property_values import (
    Json,
    as_list,
    as_object,
    asset_signature,
    get_path,
    last_segment,
)
from twin.world.regions import default_zones, region_of

GKE_API = "https://container.googleapis.com/v1beta1/"
DEFAULT_VERSION = channel("regular").default
"""Version of clusters that name neither version nor channel."""


def special(known: Resource, values: Json, resource_id: str, seed: str, project: str) -> Json:
    """Return the special outputs of a new resource."""
    make = _SPECIAL.get(known.kind)
    return {} if make is None else make(values, resource_id, seed, project)


def version_of(values: Json) -> str:
    """Return the GKE version of a cluster: the requested one, completed, or the default."""
    asked, seen = values.get("minMasterVersion"), channel_of(values)
    if not isinstance(asked, str) or asked in ("", "latest", "-"):
        return seen.default
    if "-gke." in asked:
        return asked
    for known in (seen.newest, seen.default):
        if minor_of(asked) == minor_of(known):
            return known
    return f"{asked}-gke.1000000" if asked.count(".") >= 2 else f"{asked}.1-gke.1000000"


def channel_of(values: Json) -> Channel:
    """Return the known versions of a cluster's release channel."""
    name = str(get_path(values, "releaseChannel.channel") or "REGULAR").lower()
    return channel("regular" if name == "unspecified" else name)


def _cluster(values: Json, resource_id: str, _seed: str, project: str) -> Json:
    location, version = str(values["location"]), version_of(values)
    zones = names_in(values.get("nodeLocations") or list(default_zones(location)))
    autopilot = values.get("enableAutopilot") is True
    found: Json = {
        "masterVersion": version,
        "nodeVersion": version,
        "nodeLocations": zones,
        "operation": f"operation-{digest(resource_id)[:13]}",
        "selfLink": GKE_API + resource_id,
        "servicesIpv4Cidr": "34.118.224.0/20",
        "networkingMode": values.get("networkingMode")
        or ("ROUTES" if values.get("clusterIpv4Cidr") else "VPC_NATIVE"),
        "defaultMaxPodsPerNode": values.get("defaultMaxPodsPerNode") or 110,
        "loggingService": values.get("loggingService") or "logging.googleapis.com/kubernetes",
        "monitoringService": values.get("monitoringService")
        or "monitoring.googleapis.com/kubernetes",
        "project": project,
    }
    if autopilot and not values.get("workloadIdentityConfig"):
        found["workloadIdentityConfig"] = {"workloadPool": f"{project}.svc.id.goog"}
    return found


def _node_pool(values: Json, resource_id: str, seed: str, project: str) -> Json:
    cluster = last_segment(str(values["cluster"]))
    zones = names_in(values.get("nodeLocations"))
    suffix = digest(seed)[:8]
    groups = [
        f"{COMPUTE_API}projects/{project}/zones/{zone}/instanceGroupManagers/"
        f"gke-{cluster}-{values['name']}-{suffix}-grp"
        for zone in zones
    ]
    return {
        "instanceGroupUrls": groups,
        "managedInstanceGroupUrls": [url.replace("Managers", "s") for url in groups],
        "operation": "",
        "version": values.get("version") or DEFAULT_VERSION,
        "maxPodsPerNode": values.get("maxPodsPerNode") or 110,
    }


def _developer(_values: Json, _resource_id: str, _seed: str, _project: str) -> Json:
    return {"status": "active"}


def _developer_app(values: Json, _resource_id: str, seed: str, _project: str) -> Json:
    """Return the credential of a new app."""
    products = [
        {"apiproduct": name, "status": "approved"} for name in names_in(values.get("apiProducts"))
    ]
    credential = {
        "apiProducts": products,
        "attributes": [],
        "consumerKey": values.get("consumerKey") or secrets.token_urlsafe(36),
        "consumerSecret": values.get("consumerSecret") or secrets.token_urlsafe(48),
        "expiresAt": "-1",
        "issuedAt": str(int(time.time() * 1000)),
        "scopes": names_in(values.get("scopes")),
        "status": "approved",
    }
    return {
        "appId": str(uuid.UUID(digest(seed)[:32])),
        "credentials": [credential],
        "status": values.get("status") or "approved",
    }


def _account(values: Json, _resource_id: str, seed: str, _project: str) -> Json:
    email = str(values["email"])
    return {
        "name": f"projects/{values['project']}/serviceAccounts/{email}",
        "uniqueId": digits(seed, length=21),
    }


def _network(values: Json, resource_id: str, seed: str, _project: str) -> Json:
    number = digits(seed, length=19)
    return {
        "networkId": number,
        "numericId": number,
        "routingMode": values.get("routingMode") or "REGIONAL",
        "mtu": values.get("mtu") or 1460,
        "selfLink": COMPUTE_API + resource_id,
    }


def _subnetwork(values: Json, _resource_id: str, seed: str, _project: str) -> Json:
    ranges = str(values.get("ipCidrRange", ""))
    base, _, _ = ranges.partition("/")
    octets = base.split(".")
    gateway = ".".join([*octets[:3], str(int(octets[3]) + 1)]) if len(octets) == 4 else ""
    return {
        "gatewayAddress": gateway,
        "subnetworkId": int(digits(seed, length=15)),
        "purpose": values.get("purpose") or "PRIVATE",
        "stackType": values.get("stackType") or "IPV4_ONLY",
    }


def _bucket(values: Json, resource_id: str, _seed: str, project: str) -> Json:
    return {
        "url": f"gs://{resource_id}",
        "selfLink": f"https://www.googleapis.com/storage/v1/b/{resource_id}",
        "location": str(values["location"]).upper(),
        "project": project,
        "projectNumber": int(project_number(project)),
        "publicAccessPrevention": values.get("publicAccessPrevention") or "inherited",
        "uniformBucketLevelAccess": values.get("uniformBucketLevelAccess") or False,
        "softDeletePolicy": values.get("softDeletePolicy") or {"retentionDurationSeconds": 604_800},
    }


def _bucket_object(values: Json, _resource_id: str, seed: str, _project: str) -> Json:
    content = values.get("content")
    source = as_object(values.get("source"))
    text = content if isinstance(content, str) else str((source or {}).get("text", ""))
    body = text.encode()
    bucket, name = values["bucket"], values["name"]
    found: Json = {
        "outputName": name,
        "selfLink": f"https://www.googleapis.com/storage/v1/b/{bucket}/o/{name}",
        "mediaLink": f"https://storage.googleapis.com/download/storage/v1/b/{bucket}/o/{name}",
        "storageClass": values.get("storageClass") or "STANDARD",
        "generation": int(digits(seed, length=16)),
        "contentType": values.get("contentType") or "text/plain; charset=utf-8",
    }
    if asset_signature(source) is None or (source is not None and "text" in source):
        md5 = hashlib.md5(body, usedforsecurity=False)
        found["md5hash"] = b64encode(md5.digest()).decode()
        found["md5hexhash"] = md5.hexdigest()
    return found


def _repository(values: Json, _resource_id: str, _seed: str, project: str) -> Json:
    where = f"{values['location']}-docker.pkg.dev/{project}/{values['repositoryId']}"
    return {"name": values["repositoryId"], "registryUri": where}


def _zone(_values: Json, _resource_id: str, seed: str, _project: str) -> Json:
    letter = "abcde"[int(digest(seed), 16) % 5]
    servers = [f"ns-cloud-{letter}{number}.googledomains.com." for number in (1, 2, 3, 4)]
    return {"nameServers": servers, "managedZoneId": digits(seed, length=19)}


def _authorization(values: Json, resource_id: str, seed: str, _project: str) -> Json:
    """Return the record that authorizes a domain (rule cloud.dns-authorization-record)."""
    location = str(values.get("location") or "global")
    kind = values.get("type") or ("FIXED_RECORD" if location == "global" else "PER_PROJECT_RECORD")
    where = "/".join(resource_id.split("/")[:4])
    mark = "" if kind == "FIXED_RECORD" else f"_{digest(where)[:16]}"
    record: Json = {
        "data": f"{digest(seed)[:32]}.1.authorize.certificatemanager.goog.",
        "name": f"_acme-challenge{mark}.{values['domain']}.",
        "type": "CNAME",
    }
    return {"dnsResourceRecords": [record], "type": kind}


def _certificate(values: Json, _resource_id: str, _seed: str, _project: str) -> Json:
    managed = as_object(values.get("managed"))
    found: Json = {"sanDnsnames": (managed or {}).get("domains") or []}
    return found if managed is None else {**found, "managed": {**managed, "state": "PROVISIONING"}}


def _sink(values: Json, _resource_id: str, _seed: str, project: str) -> Json:
    own = f"serviceAccount:service-{project_number(project)}@gcp-sa-logging.iam.gserviceaccount.com"
    shared = "serviceAccount:cloud-logs@system.gserviceaccount.com"
    return {"writerIdentity": shared if values.get("uniqueWriterIdentity") is False else own}


def _pool(values: Json, _resource_id: str, _seed: str, project: str) -> Json:
    pool = values["workloadIdentityPoolId"]
    number = project_number(project)
    return {
        "name": f"projects/{number}/locations/global/workloadIdentityPools/{pool}",
        "state": "ACTIVE",
    }


def _secret(values: Json, _resource_id: str, _seed: str, project: str) -> Json:
    return {"name": f"projects/{project_number(project)}/secrets/{values['secretId']}"}


def _run(values: Json, _resource_id: str, seed: str, project: str) -> Json:
    host = f"{values['name']}-{project_number(project)}.{values['location']}.run.app"
    return {"uri": f"https://{host}", "urls": [f"https://{host}"], "uid": digest(seed)[:32]}


def _service_identity(values: Json, _resource_id: str, _seed: str, project: str) -> Json:
    return service_agents.outputs(values, project_number(project))


def _custom_role(_values: Json, resource_id: str, _seed: str, _project: str) -> Json:
    return {"name": resource_id, "deleted": False}


def _connection_policy(_values: Json, _id: str, _seed: str, _project: str) -> Json:
    return {"infrastructure": "PSC", "pscConnections": []}


def _filestore(values: Json, _resource_id: str, seed: str, _project: str) -> Json:
    networks = [{**(as_object(item) or {})} for item in as_list(values.get("networks")) or []]
    for network in networks:
        network["ipAddresses"] = [f"10.{int(digest(seed)[:2], 16)}.0.2"]
    return {"networks": networks}


def _address(values: Json, _resource_id: str, _seed: str, _project: str) -> Json:
    tier = "PREMIUM" if values.get("addressType", "EXTERNAL") == "EXTERNAL" else None
    found: Json = {"users": []}
    if tier and not values.get("networkTier"):
        found["networkTier"] = tier
    region = get_path(values, "region")
    return {**found, "region": region_of(str(region))} if region else found


_SPECIAL: dict[str, Callable[[Json, str, str, str], Json]] = {
    "apigee/developer": _developer,
    "apigee/developerApp": _developer_app,
    "artifactregistry/repository": _repository,
    "certificatemanager/certificate": _certificate,
    "certificatemanager/dnsAuthorization": _authorization,
    "cloudrunv2/service": _run,
    "compute/address": _address,
    "compute/network": _network,
    "compute/subnetwork": _subnetwork,
    "container/cluster": _cluster,
    "container/nodePool": _node_pool,
    "dataflow/flexTemplateJob": dataflow.outputs,
    "dns/managedZone": _zone,
    "filestore/instance": _filestore,
    "iam/workloadIdentityPool": _pool,
    "logging/projectSink": _sink,
    "lustre/instance": lustre.outputs,
    "memorystore/instance": memorystore.outputs,
    "networkconnectivity/serviceConnectionPolicy": _connection_policy,
    "projects/iAMCustomRole": _custom_role,
    "projects/serviceIdentity": _service_identity,
    "secretmanager/secret": _secret,
    "serviceaccount/account": _account,
    "storage/bucket": _bucket,
    "storage/bucketObject": _bucket_object,
}
