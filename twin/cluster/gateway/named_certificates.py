"""Certificates of the cloud by name, and whether a regional gateway can use them."""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from twin.host.paths import TwinPaths
from twin.wire.property_values import Json, as_list, as_object, last_segment
from twin.world.capacity import World
from twin.world.store import Record, list_resources

_MANAGED = "gcp:certificatemanager/certificate:Certificate"
_AUTHORIZATION = "gcp:certificatemanager/dnsAuthorization:DnsAuthorization"
_RECORD = "gcp:dns/recordSet:RecordSet"
_ZONE = "gcp:dns/managedZone:ManagedZone"
_UPLOADED = "gcp:compute/regionSslCertificate:RegionSslCertificate"
_TYPES = (_MANAGED, _AUTHORIZATION, _RECORD, _ZONE, _UPLOADED)


def is_active(paths: TwinPaths, region: str, name: str, world: World | None = None) -> bool:
    """Return whether a certificate of a region exists and is ACTIVE (rule gateway.certificates).

    Args:
        paths: Files of the twin.
        region: Region of the gateway; certificates of other regions and global ones are not found.
        name: Name of the certificate in the gateway.
        world: Resources that exist without a stack; by default those in the twin's file.
    """
    given = (world or World.load(paths.capacity_file)).certificates
    if any(each.name == name and fnmatchcase(region, each.region) for each in given):
        return True
    records = [each for each in list_resources(paths, _TYPES) if each.status != "creating"]
    for each in records:
        if each.name != last_segment(name) or each.type not in (_MANAGED, _UPLOADED):
            continue
        if _place(each) == region and not list(_unproven(each.outputs, records)):
            return True
    return False


def is_wide(paths: TwinPaths, name: str, world: World | None = None) -> bool:
    """Return whether a certificate is global, ACTIVE and of the scope ALL_REGIONS."""
    given = (world or World.load(paths.capacity_file)).certificates
    if any(each.name == name and each.region == "global" for each in given):
        return True
    found = [each for each in list_resources(paths, _TYPES) if each.name == last_segment(name)]
    is_scoped = any(each.inputs.get("scope") == "ALL_REGIONS" for each in found)
    return is_scoped and is_active(paths, "global", name, world)


def _place(record: Record) -> str:
    return str(record.outputs.get("location") or record.outputs.get("region") or "global")


def _unproven(certificate: Json, records: list[Record]) -> Iterator[str]:
    """Yield the DNS authorizations of a managed certificate whose record is in no public zone.

    A managed certificate without a DNS authorization uses load balancer authorization, which
    regional certificates do not support; it is not authorized either.
    """
    managed = as_object(certificate.get("managed"))
    if managed is None:
        return
    asked = [str(each) for each in as_list(managed.get("dnsAuthorizations")) or []]
    if not asked:
        yield "no authorization"
    for authorization in asked:
        if not any(_is_proven(each, records) for each in records if _is(each, authorization)):
            yield authorization


def _is(record: Record, authorization: str) -> bool:
    return record.type == _AUTHORIZATION and authorization.endswith(record.id)


def _is_proven(authorization: Record, records: list[Record]) -> bool:
    wanted = [
        as_object(each) or {}
        for each in as_list(authorization.outputs.get("dnsResourceRecords")) or []
    ]
    hidden = {
        (each.project, each.name)
        for each in records
        if each.type == _ZONE and each.outputs.get("visibility") == "private"
    }
    made = [
        each.outputs
        for each in records
        if each.type == _RECORD
        and (each.project, last_segment(str(each.outputs.get("managedZone")))) not in hidden
    ]
    return bool(wanted) and all(
        any(
            (has.get("name"), has.get("type"), has.get("rrdatas"))
            == (one.get("name"), one.get("type"), [one.get("data")])
            for has in made
        )
        for one in wanted
    )
