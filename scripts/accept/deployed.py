"""The deployed platform as the checks see it, wherever it runs."""

import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from infra.plan import Plan, RegionPlan
from infra.plan.endpoint import endpoint, port_of
from infra.plan.front import has_internal_gateways
from infra.plan.names import Names
from scripts.accept.row import Row, Subject
from scripts.shared.google_cloud import Cloud, CloudError
from scripts.shared.model_client import open_client
from scripts.terminal.console import CommandError
from twin.cluster.monitoring.promql import QueryError, Sample
from twin.wire.kube import KubeError

if TYPE_CHECKING:
    from openai import OpenAI

_CONNECT_SECONDS: Final = 5.0
Object = dict[str, Any]
"""An object of Kubernetes."""


class Api(Protocol):
    """What is used of a cluster's API server."""

    def list(
        self, path: str, label_selector: str | None = None, field_selector: str | None = None
    ) -> list[Object]:
        """Return the items of a collection."""
        ...

    def get(self, path: str, **query: Any) -> Object:
        """Return one object."""
        ...

    def delete(self, path: str, body: Object | None = None, **query: Any) -> Object:
        """Delete one object."""
        ...


Query = Callable[[str], Sequence[Sample]]
"""Answers PromQL; raises `QueryError` or `CloudError`."""


class Unreachable(Exception):
    """A gateway that this machine cannot connect to, and that clients elsewhere may."""


@dataclass(frozen=True)
class Cluster:
    """A region's cluster."""

    plan: RegionPlan
    api: Api
    query: Query

    @property
    def name(self) -> str:
        """Return the name of the cluster."""
        return self.plan.cluster_name

    @property
    def namespace(self) -> str:
        """Return the namespace of the models."""
        return self.plan.namespace

    @property
    def matchers(self) -> str:
        """Return PromQL matchers of the cluster: Cloud Monitoring has the series of all."""
        return f'cluster="{self.name}",location="{self.plan.location}"'

    @property
    def load_balancer_matchers(self) -> str:
        """Return PromQL matchers of its region's load balancers, whose series name no cluster."""
        return f'region="{"-".join(self.plan.location.split("-")[:2])}"'

    def pods(self, label_selector: str | None = None) -> list[Object]:
        """Return the pods of the models' namespace.

        Raises:
            KubeError: The cluster does not answer.
        """
        return self.api.list(f"/api/v1/namespaces/{self.namespace}/pods", label_selector)


@dataclass(frozen=True)
class Door:
    """Where clients of one region come in."""

    url: str
    address: str
    """The region's own: with several regions, the name of the URL leads to the nearest."""

    def client(self, subject: str) -> "AbstractContextManager[OpenAI]":
        """Return a client of this region; its errors are `CommandError` about the subject."""
        return open_client(self.url, subject, address=self.address)


@dataclass(frozen=True)
class Deployed:
    """A stack, and where it is deployed."""

    plan: Plan
    stack: str
    """Name of the stack's file."""
    place: str
    """Where it is deployed, for people."""
    cloud: Cloud
    clusters: Mapping[str, Cluster]
    """By region, in the order of the stack."""
    is_twin: bool = False
    speed: float = 1.0
    """How much faster than real time its clock runs; only a twin's does."""
    sleep: Callable[[float], None] = field(default=time.sleep)
    _reached: dict[str, bool] = field(default_factory=dict[str, bool])
    """Which internal gateways this machine reaches, by address."""

    def door(self, region: str) -> "Door":
        """Return where clients of a region come in, by the address that its Gateway object reports.

        Raises:
            CommandError: The gateway has no address.
            Unreachable: It is internal, and this machine has no way to its network.
            KubeError: The cluster does not answer, or has no gateway.
        """
        addresses: list[Object] = self.gateway(region).get("status", {}).get("addresses") or []
        if not addresses:
            raise CommandError(f"the gateway of {region} has no address")
        address, gateway = str(addresses[0]["value"]), self.plan.platform.gateway
        if has_internal_gateways(gateway) and not self.is_twin:
            self._check_reach(address, port_of(gateway))
        return Door(endpoint(gateway, address), address)

    def _check_reach(self, address: str, port: int) -> None:
        if address not in self._reached:
            try:
                socket.create_connection((address, port), _CONNECT_SECONDS).close()
            except OSError:
                self._reached[address] = False
            else:
                self._reached[address] = True
        if not self._reached[address]:
            raise Unreachable(
                f"the gateway is internal and {address}:{port} does not answer: run this on a"
                " machine in the VPC network, or in one that is connected to it"
            )

    def gateway(self, region: str) -> Object:
        """Return the Gateway object of a region.

        Raises:
            KubeError: The cluster does not answer, or has none.
        """
        names = Names(self.plan.platform)
        namespaces = "/apis/gateway.networking.k8s.io/v1/namespaces"
        path = f"{namespaces}/{names.gateway_namespace()}/gateways/{names.gateway()}"
        return self.clusters[region].api.get(path)


Check = Callable[[Deployed], Iterator[Row]]
"""Yields the rows of one group; what is refused becomes a row that was not checked."""


def seen(subject: Subject, look: Callable[[], Row]) -> Row:
    """Return the row of a look; what the platform refuses to clients is not met.

    What a cluster or Google refuses, or answers in another form, is not seen.
    """
    try:
        return look()
    except CommandError as error:
        return subject.not_met(str(error))
    except Unreachable as error:
        return subject.unseen(str(error))
    except KubeError as error:
        return subject.unseen(f"the cluster refuses or does not answer: {error.message}")
    except (CloudError, QueryError) as error:
        return subject.unseen(str(error))
    except (KeyError, TypeError, ValueError) as error:
        return subject.unseen(f"the answer has another form than documented: {error!r}")
