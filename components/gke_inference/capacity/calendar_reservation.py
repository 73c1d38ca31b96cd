"""A reservation in calendar mode: VMs with accelerators for a period that is booked ahead."""

from typing import TypedDict

import pulumi
from pulumi_gcp import compute

from gke_inference.base.checked import checked
from gke_inference.base.inputs import rung_of, under
from gke_inference.catalogue.calendar_mode import TPU_FAMILIES, stamp
from gke_inference.catalogue.rung_settings import RungArgs
from gke_inference.catalogue.rungs import Rung


class CalendarReservationArgs(TypedDict):
    """Inputs of `CalendarReservation`."""

    project: pulumi.Input[str]
    """Project of the cluster, which pays for the reservation."""
    rung: RungArgs
    """Rung with `reservation_period` and `reservation_machines`."""


class CalendarReservation(pulumi.ComponentResource):
    """A request for a reservation in calendar mode, which Google approves or declines.

    Compute Engine fills the reservation at the start, and deletes it with its VMs at the end. The
    period is paid for whether the VMs are used or not. Google neither changes nor cancels a
    request, so that a deleted component leaves it as it is.
    """

    reservation_name: pulumi.Output[str]
    """Name of the reservation, for rungs."""

    def __init__(
        self, name: str, args: CalendarReservationArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:CalendarReservation", name, {}, opts)
        args = checked(CalendarReservationArgs, args)
        rung = rung_of(args["rung"], "rung")
        machines, period = rung.reservation_machines, rung.reservation_period
        if machines is None or period is None:
            rule = "must be the number of VMs to reserve, got none"
            raise pulumi.InputPropertyError("rung.reservationMachines", rule)
        request = compute.FutureReservation(
            name,
            auto_delete_auto_created_reservations=True,
            deletion_policy="ABANDON",
            description=f"{machines} {rung.machine_type} for {rung.label}.",
            name=rung.reservation,
            planning_status="SUBMITTED",
            project=args["project"],
            reservation_mode="CALENDAR",
            reservation_name=rung.reservation,
            specific_reservation_required=True,
            time_window={"end_time": stamp(period.end), "start_time": stamp(period.start)},
            zone=rung.reservation_zones[0],
            **_resources(rung, machines),
            opts=under(self),
        )
        # the reservation has the same name; Compute Engine creates it once it approves the request
        self.reservation_name = request.name
        self.register_outputs({"reservationName": self.reservation_name})


class _Resources(TypedDict, total=False):
    """Arguments of a request that depend on the kind of accelerator."""

    aggregate_reservation: "compute.FutureReservationAggregateReservationArgsDict"
    deployment_type: str
    specific_sku_properties: "compute.FutureReservationSpecificSkuPropertiesArgsDict"


def _resources(rung: Rung, machines: int) -> _Resources:
    """Return the VMs of a request: chips of a TPU family, or GPU machines close to each other."""
    family = TPU_FAMILIES.get(rung.machine_type.partition("-")[0])
    if family is None:
        return {
            "deployment_type": "DENSE",
            "specific_sku_properties": {
                "instance_properties": {"machine_type": rung.machine_type},
                "total_count": str(machines),
            },
        }
    chips = machines * rung.chips_per_node
    return {
        "aggregate_reservation": {
            "reserved_resources": [{"accelerator": {"accelerator_count": chips}}],
            "vm_family": family,
            "workload_type": "SERVING",
        }
    }
