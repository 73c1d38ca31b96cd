"""Identifiers of resources in Google Cloud: IDs, links, numbers, email addresses.

Templates contain inputs (`{name}`), the project, or values that this module derives.
"""

import hashlib
import re
import uuid
from typing import Any

from twin.providers.gcp.schema import Resource
from twin.wire.property_values import Json, as_list, as_object, last_segment

COMPUTE_API = "https://www.googleapis.com/compute/v1/"
_P = "projects/{project}/"
_L = _P + "locations/{location}/"
_TEMPLATES: dict[str, str] = {
    "artifactregistry/repository": _L + "repositories/{repositoryId}",
    "artifactregistry/repositoryIamMember": _L + "repositories/{repository}/{role}/{member}",
    "apigee/developer": "{orgId}/developers/{email}",
    "apigee/developerApp": "{orgId}/developers/{developerEmail}/apps/{name}",
    "apigee/envGroup": "{orgId}/envgroups/{name}",
    "apigee/environment": "{orgId}/environments/{name}",
    "apigee/instance": "{orgId}/instances/{name}",
    "apigee/organization": "organizations/{projectId}",
    "bigquery/datasetAccess": _P
    + "datasets/{datasetId}/{role}/{iamMember}{userByEmail}{groupByEmail}{domain}{specialGroup}",
    "bigquery/iamMember": _P + "datasets/{datasetId}/tables/{tableId}/{role}/{member}",
    "billing/budget": "billingAccounts/{billingAccount}/budgets/{uuid}",
    "binaryauthorization/attestor": _P + "attestors/{name}",
    "binaryauthorization/attestorIamMember": _P + "attestors/{attestor}/{role}/{member}",
    "binaryauthorization/policy": _P + "policy",
    "certificatemanager/certificate": _L + "certificates/{name}",
    "certificatemanager/certificateMap": _P + "locations/global/certificateMaps/{name}",
    "certificatemanager/certificateMapEntry": _P
    + "locations/global/certificateMaps/{map}/certificateMapEntries/{name}",
    "certificatemanager/dnsAuthorization": _L + "dnsAuthorizations/{name}",
    "certificatemanager/trustConfig": _L + "trustConfigs/{name}",
    "cloudbuild/trigger": _L + "triggers/{uuid}",
    "cloudrunv2/job": _L + "jobs/{name}",
    "cloudrunv2/service": _L + "services/{name}",
    "cloudrunv2/serviceIamMember": _L + "services/{name}/{role}/{member}",
    "compute/disk": _P + "zones/{zone}/disks/{name}",
    "compute/futureReservation": _P + "zones/{zone}/futureReservations/{name}",
    "compute/globalNetworkEndpoint": "{globalNetworkEndpointGroup}/{ipAddress}/{fqdn}/{port}",
    "compute/globalNetworkEndpointGroup": _P + "global/networkEndpointGroups/{name}",
    "compute/globalAddress": _P + "global/addresses/{name}",
    "compute/globalForwardingRule": _P + "global/forwardingRules/{name}",
    "compute/managedSslCertificate": _P + "global/sslCertificates/{name}",
    "compute/networkEndpointGroup": _P + "zones/{zone}/networkEndpointGroups/{name}",
    "compute/regionBackendService": _P + "regions/{region}/backendServices/{name}",
    "compute/regionHealthCheck": _P + "regions/{region}/healthChecks/{name}",
    "compute/regionNetworkEndpointGroup": _P + "regions/{region}/networkEndpointGroups/{name}",
    "compute/regionTargetHttpsProxy": _P + "regions/{region}/targetHttpsProxies/{name}",
    "compute/regionUrlMap": _P + "regions/{region}/urlMaps/{name}",
    "compute/reservation": _P + "zones/{zone}/reservations/{name}",
    "compute/resourcePolicy": _P + "regions/{region}/resourcePolicies/{name}",
    "compute/routerNat": "{project}/{region}/{router}/{name}",
    "compute/securityPolicy": _P + "global/securityPolicies/{name}",
    "compute/instanceTemplate": _P + "global/instanceTemplates/{name}",
    "compute/snapshot": _P + "global/snapshots/{name}",
    "compute/sSLPolicy": _P + "global/sslPolicies/{name}",
    "compute/targetHttpsProxy": _P + "global/targetHttpsProxies/{name}",
    "compute/sharedVPCHostProject": "{project}",
    "compute/sharedVPCServiceProject": "{hostProject}/{serviceProject}",
    "compute/subnetworkIAMMember": _P + "regions/{region}/subnetworks/{subnetwork}/{role}/{member}",
    "compute/uRLMap": _P + "global/urlMaps/{name}",
    "containeranalysis/noteIamMember": _P + "notes/{note}/{role}/{member}",
    "containeranalysis/note": _P + "notes/{name}",
    "container/cluster": _L + "clusters/{name}",
    "container/nodePool": _L + "clusters/{cluster}/nodePools/{name}",
    "dataflow/flexTemplateJob": "{digits}",
    "dns/managedZone": _P + "managedZones/{name}",
    "dns/recordSet": _P + "managedZones/{managedZone}/rrsets/{name}/{type}",
    "gkehub/feature": _L + "features/{name}",
    "gkehub/featureMembership": _L + "features/{feature}/membershipId/{membership}",
    "gkehub/fleet": _P + "locations/global/fleets/default",
    "gkehub/membership": _L + "memberships/{membershipId}",
    "iap/webBackendServiceIamMember": _P
    + "iap_web/compute/services/{webBackendService}/{role}/{member}",
    "iam/workloadIdentityPool": _P
    + "locations/global/workloadIdentityPools/{workloadIdentityPoolId}",
    "iam/workloadIdentityPoolProvider": _P
    + "locations/global/workloadIdentityPools/{workloadIdentityPoolId}"
    + "/providers/{workloadIdentityPoolProviderId}",
    "kms/cryptoKey": "{keyRing}/cryptoKeys/{name}",
    "kms/cryptoKeyIAMMember": "{cryptoKeyId}/{role}/{member}",
    "kms/keyRing": _L + "keyRings/{name}",
    "logging/metric": "{name}",
    "logging/projectSink": _P + "sinks/{name}",
    "lustre/instance": _L + "instances/{instanceId}",
    "memorystore/instance": _L + "instances/{instanceId}",
    "modelarmor/floorsetting": "{parent}/locations/{location}/floorSetting",
    "modelarmor/template": _L + "templates/{templateId}",
    "monitoring/alertPolicy": _P + "alertPolicies/{digits}",
    "monitoring/customService": _P + "services/{serviceId}",
    "monitoring/dashboard": "projects/{projectNumber}/dashboards/{uuid}",
    "monitoring/notificationChannel": _P + "notificationChannels/{digits}",
    "monitoring/slo": "projects/{projectNumber}/services/{service}/serviceLevelObjectives/{sloId}",
    "networkconnectivity/serviceConnectionPolicy": _L + "serviceConnectionPolicies/{name}",
    "networksecurity/serverTlsPolicy": _L + "serverTlsPolicies/{name}",
    "networkservices/serviceLbPolicies": _L + "serviceLbPolicies/{name}",
    "orgpolicy/policy": "{parent}/policies/{name}",
    "projects/iAMCustomRole": _P + "roles/{roleId}",
    "projects/iAMMember": "{project}/{role}/{member}",
    "projects/service": "{project}/{service}",
    "projects/serviceIdentity": _P + "services/{service}",
    "pubsub/subscription": _P + "subscriptions/{name}",
    "pubsub/subscriptionIAMMember": _P + "subscriptions/{subscription}/{role}/{member}",
    "pubsub/topic": _P + "topics/{name}",
    "pubsub/topicIAMMember": _P + "topics/{topic}/{role}/{member}",
    "secretmanager/secret": _P + "secrets/{secretId}",
    "secretmanager/secretIamMember": _P + "secrets/{secretId}/{role}/{member}",
    "secretmanager/secretVersion": "{secret}/versions/{number}",
    "serviceaccount/account": _P + "serviceAccounts/{accountId}@{project}.iam.gserviceaccount.com",
    "serviceaccount/iAMMember": "{serviceAccountId}/{role}/{member}",
    "servicenetworking/connection": "{network}:{service}",
    "storage/anywhereCache": "{bucket}/{zone}",
    "storage/bucket": "{name}",
    "storage/bucketIAMMember": "b/{bucket}/{role}/{member}",
    "storage/bucketObject": "{bucket}-{name}",
    "storage/managedFolder": "{bucket}/{name}",
    "vertex/aiEndpoint": _L + "endpoints/{name}",
    "vertex/aiEndpointWithModelGardenDeployment": _L + "endpoints/{digits}",
}
_LAST_ONLY = {
    "cluster",
    "map",
    "router",
    "managedZone",
    "subscription",
    "topic",
    "service",
    "repository",
    "subnetwork",
}
"""Inputs that can be links; an ID contains only the name."""


def digest(*parts: str) -> str:
    """Return a stable hexadecimal digest."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def digits(*parts: str, length: int) -> str:
    """Return a stable number without a leading zero, like Google's numeric IDs."""
    low = 10 ** (length - 1)
    return str(low + int(digest(*parts), 16) % (9 * low))


def project_number(project: str) -> str:
    """Return the twelve-digit number of a project."""
    return digits("project", project, length=12)


def resource_id(known: Resource, inputs: Json, project: str, urn: str) -> str:
    """Return the id of a resource.

    Args:
        known: type of the resource.
        inputs: checked inputs, all known, with default locations.
        project: project of the resource.
        urn: URN, for types whose IDs Google generates randomly.
    """
    template = _TEMPLATES.get(known.kind) or _general(known, inputs)
    seed = f"{project}/{urn}"
    derived: Json = {
        "uuid": str(uuid.UUID(digest(seed)[:32])),
        "digits": digits(seed, length=19),
        "number": "1",
        "projectNumber": project_number(project),
        "sloId": digest(seed)[:22],
        "location": "global",
    }

    def part(match: re.Match[str]) -> str:
        key = match[1]
        if key == "project":
            return str(inputs.get("project") or project)
        value: Any = inputs.get(key)
        value = derived.get(key, "") if value is None else value
        return last_segment(str(value)) if key in _LAST_ONLY else str(value)

    found = re.sub(r"\{(\w+)\}", part, template)
    if known.kind.lower().endswith("iammember"):
        condition = as_object(inputs.get("condition")) or {}
        return f"{found}/{condition['title']}" if condition.get("title") else found
    if known.kind == "container/nodePool":
        return _below_cluster(inputs, found)
    if known.kind == "servicenetworking/connection":
        return found.replace("/", "%2F")
    return found


def _below_cluster(inputs: Json, found: str) -> str:
    cluster = str(inputs.get("cluster"))
    name = last_segment(found)
    return f"{cluster}/nodePools/{name}" if cluster.startswith("projects/") else found


def _general(known: Resource, inputs: Json) -> str:
    service, _, noun = known.kind.partition("/")
    noun = re.sub(r"^(global|region)(?=[A-Z])", "", noun)
    noun = noun[0].lower() + noun[1:]
    plural = noun + ("es" if noun.endswith(("s", "x")) else "s")
    plural = re.sub(r"([^aeiou])ys$", r"\1ies", plural)
    if inputs.get("zone"):
        place = "zones/{zone}/" if service == "compute" else "locations/{zone}/"
    elif inputs.get("region"):
        place = "regions/{region}/" if service == "compute" else "locations/{region}/"
    elif inputs.get("location"):
        place = "locations/{location}/"
    else:
        place = "global/" if service == "compute" else ""
    return f"{_P}{place}{plural}/{{name}}"


def names_in(value: Any) -> list[str]:
    """Return the strings of a list, or of one string."""
    items = as_list(value)
    found = items if items is not None else [value]
    return [item for item in found if isinstance(item, str)]
