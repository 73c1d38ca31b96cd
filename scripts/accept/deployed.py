"""A deployed platform as the checks see it, on the twin or in Google Cloud."""

import os
import socket
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from infra.plan import Plan, RegionPlan
from scripts.accept.row import Row, Subject
from scripts.client_keys.permissions import teams_by_name, unaskable
from scripts.shared.google_cloud import Cloud, CloudError
from scripts.shared.model_client import KEY_VARIABLE, models, open_client
from scripts.terminal.console import CommandError
from twin.cluster.monitoring.promql import History, QueryError, Sample
from twin.wire.kube import KubeError

if TYPE_CHECKING:
    from openai import OpenAI

_CONNECT_SECONDS: Final = 5.0
NO_ACCESS: Final = "does not exist or you do not have access to it"
"""What the gate answers for a model that the caller's team may not ask
(workloads/gateway/callout/internal/openai/errors.go)."""
Object = dict[str, Any]
"""An object of Kubernetes."""


class Api(Protocol):
    """Methods of a cluster's API server."""

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
    """What this run cannot ask, although other clients may: a gateway, or a model."""


class NotOffered(Exception):
    """A model that the stack lets nobody ask."""


@dataclass(frozen=True)
class Cluster:
    """A region's cluster."""

    plan: RegionPlan
    api: Api
    query: Query
    history: History
    """Raises `QueryError` or `CloudError`."""
    inside: Callable[[Object, str], AbstractContextManager[Any]]
    """Opens a container of a pod, by name, as a host of testinfra; raises `Unreachable`."""

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
        """Return PromQL matchers for the cluster; Cloud Monitoring has the series of all."""
        return f'cluster="{self.name}",location="{self.plan.location}"'

    @property
    def load_balancer_matchers(self) -> str:
        """Return PromQL matchers for the region's load balancers; their series have no cluster."""
        return f'region="{"-".join(self.plan.location.split("-")[:2])}"'

    def pods(self, label_selector: str | None = None) -> list[Object]:
        """Return the pods of the models' namespace.

        Raises:
            KubeError: The cluster does not answer.
        """
        return self.api.list(f"/api/v1/namespaces/{self.namespace}/pods", label_selector)


@dataclass(frozen=True)
class Door:
    """The entry point for clients of one region."""

    url: str
    address: str
    """Address of the region; with several regions, the URL's name leads to the nearest one."""

    def client(self, subject: str) -> "AbstractContextManager[OpenAI]":
        """Return a client for this region; it raises `CommandError` about the subject."""
        return open_client(self.url, subject, address=self.address)

    def models(self, subject: str) -> list[str]:
        """Return the models that are listed here; errors are about the subject.

        Raises:
            CommandError: The gateway does not answer, or refuses.
        """
        return models(self.url, subject, self.address)


@dataclass(frozen=True)
class Deployed:
    """A stack and its location."""

    plan: Plan
    stack: str
    """Name of the stack's file."""
    place: str
    """Location of the deployment, for messages."""
    cloud: Cloud
    clusters: Mapping[str, Cluster]
    """By region, in the order of the stack."""
    is_twin: bool = False
    speed: float = 1.0
    """Speed of its clock as a multiple of real time; always 1 in Google Cloud."""
    sleep: Callable[[float], None] = field(default=time.sleep)
    _reached: dict[str, bool] = field(default_factory=dict[str, bool])
    """Whether this machine reaches an internal gateway, by address."""

    def door(self, region: str) -> "Door":
        """Return the entry point of a region, with the address that its Gateway object reports.

        Raises:
            CommandError: The gateway has no address.
            Unreachable: It is internal, and this machine has no way to its network.
            KubeError: The cluster does not answer, or has no gateway.
        """
        addresses: list[Object] = self.gateway(region).get("status", {}).get("addresses") or []
        if not addresses:
            raise CommandError(f"the gateway of {region} has no address")
        address, gateway = str(addresses[0]["value"]), self.plan.platform.gateway
        if gateway.has_internal_gateways and not self.is_twin:
            self._check_reach(address, gateway.listening_port)
        return Door(gateway.endpoint(address), address)

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

    def offered(self, names: Iterable[str]) -> list[str]:
        """Return the models and adapters, of some, that any client may ask."""
        names = list(names)
        refused = unaskable(self.plan, names)
        return [name for name in names if name not in refused]

    def lists(self, names: Iterable[str]) -> list[list[str]]:
        """Return the lists of models that the gateway may show to the keys of this command.

        For the user's key, it is that of any team, otherwise that of all keys together.

        Args:
            names: Models and adapters.
        """
        offered = self.offered(names)
        if not os.environ.get(KEY_VARIABLE):
            return [offered]
        teams = teams_by_name(self.plan, offered)
        every = {team for may in teams.values() for team in may}
        return [[name for name in offered if team in teams[name]] for team in sorted(every)] or [
            offered
        ]

    @contextmanager
    def asking(self, door: Door, name: str) -> "Generator[OpenAI]":
        """Yield a client for requests to a model or adapter; it raises `CommandError`.

        Args:
            door: Entry point of a region, or of the front.
            name: Model or adapter.

        Raises:
            CommandError: The gateway or the model refuses.
            NotOffered: No team of clients may ask it.
            Unreachable: The team of the user's key may not ask it, but others may.
        """
        teams = teams_by_name(self.plan, [name]).get(name)
        if teams is not None and not teams:
            raise NotOffered("no team may ask it (clients.teams)")
        try:
            with door.client(name) as client:
                yield client
        except CommandError as error:
            if teams is None or NO_ACCESS not in str(error) or not os.environ.get(KEY_VARIABLE):
                raise
            raise Unreachable(
                f"{error} {KEY_VARIABLE} must be a key of a team that may ask it:"
                f" {', '.join(teams)}"
            ) from None

    def gateway(self, region: str) -> Object:
        """Return the Gateway object of a region.

        Raises:
            KubeError: The cluster does not answer, or has none.
        """
        names = self.plan.names
        namespaces = "/apis/gateway.networking.k8s.io/v1/namespaces"
        path = f"{namespaces}/{names.gateway_namespace()}/gateways/{names.gateway()}"
        return self.clusters[region].api.get(path)


Check = Callable[[Deployed], Iterator[Row]]
"""Yields the rows of one group; a refused request becomes a row that was not checked."""


def seen(subject: Subject, look: Callable[[], Row]) -> Row:
    """Return the row of a check; a refusal of the platform to clients means not met.

    A refusal or an undocumented answer of a cluster or of Google means that it cannot be seen.
    """
    try:
        return look()
    except NotOffered as error:
        return subject.skipped(str(error))
    except CommandError as error:
        return subject.not_met(str(error))
    except Unreachable as error:
        return subject.unseen(str(error))
    except KubeError as error:
        return subject.unseen(
            f"the cluster refuses the request or does not answer: {error.message}"
        )
    except (CloudError, QueryError) as error:
        return subject.unseen(str(error))
    except (KeyError, TypeError, ValueError) as error:
        return subject.unseen(f"the answer does not have the documented form: {error!r}")
