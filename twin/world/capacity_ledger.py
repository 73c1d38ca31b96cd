"""The ledger of allocated machines: one SQLite file for all clusters, safe across processes."""

import sqlite3
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from twin.host.paths import TwinPaths
from twin.world.capacity import Answer, Claim, Holding, World, decide, to_take_away
from twin.world.future_reservations import world_of
from twin.world.machines import Provisioning
from twin.world.rules import Rules

_SCHEMA = """
create table if not exists holdings (
    cluster text not null, owner text not null, node text not null, zone text not null,
    accelerator text not null, provisioning text not null, reservation text,
    chips integer not null, acquired real not null, primary key (cluster, node))
"""
_BUSY_SECONDS = 30.0


class Ledger:
    """The ledger, as seen by one controller of one cluster."""

    def __init__(self, paths: TwinPaths, cluster: Path, project: str, owner: str) -> None:
        """Open the ledger.

        Args:
            paths: paths of the twin.
            cluster: folder of the cluster; its name is the cluster's key.
            project: project name for error messages.
            owner: controller whose nodes `held` lists.
        """
        self._paths = paths
        self._cluster = cluster.name
        self._project = project
        self._owner = owner
        notice = Rules.of(paths).seconds("reservation.calendar.notice")
        self._notice = timedelta(seconds=notice)
        with self._connection() as connection:
            connection.execute(_SCHEMA)

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection, None, None]:
        connection = sqlite3.connect(
            self._paths.capacity_db, timeout=_BUSY_SECONDS, isolation_level=None
        )
        try:
            connection.execute("pragma synchronous=off")
            connection.execute("begin immediate")
            yield connection
            connection.execute("commit")
        finally:
            connection.close()

    def world(self) -> World:
        """Return the current world."""
        return world_of(self._paths)

    def acquire(self, claims: Sequence[Claim]) -> Answer:
        """Allocate machines, all or none, until `release`."""
        now = time.time()
        with self._connection() as connection:
            held = self._all(connection)
            answer = decide(self.world(), held, claims, self._project, self._notice)
            if answer.granted:
                connection.executemany(
                    "insert or replace into holdings values (?,?,?,?,?,?,?,?,?)",
                    [
                        (
                            self._cluster,
                            self._owner,
                            claim.node,
                            claim.zone,
                            claim.accelerator,
                            claim.provisioning,
                            claim.reservation,
                            claim.chips,
                            now,
                        )
                        for claim in claims
                    ],
                )
        return answer

    def release(self, node: str) -> None:
        """Release a node's machine; ignore a machine that is not allocated."""
        with self._connection() as connection:
            connection.execute(
                "delete from holdings where cluster=? and node=?", (self._cluster, node)
            )

    def held(self) -> set[str]:
        """Return the names of the nodes for which this owner holds machines."""
        with self._connection() as connection:
            rows = connection.execute(
                "select node from holdings where cluster=? and owner=?",
                (self._cluster, self._owner),
            )
            return {str(row[0]) for row in rows}

    @classmethod
    def everything(cls, paths: TwinPaths) -> list[Holding]:
        """Return the allocations of all clusters of a twin; empty without a twin."""
        if not paths.capacity_db.exists():
            return []
        ledger = cls(paths, paths.clusters, "", "")
        with ledger._connection() as connection:
            return ledger._all(connection)

    def to_take_away(self) -> dict[str, str]:
        """Return the nodes of this cluster that lose their machine, with the reason."""
        with self._connection() as connection:
            taken = to_take_away(self.world(), self._all(connection), self._notice)
        return {
            holding.claim.node: reason
            for holding, reason in taken.items()
            if holding.cluster == self._cluster
        }

    def _all(self, connection: sqlite3.Connection) -> list[Holding]:
        """Return every allocation, after removing those of deleted clusters."""
        rows = connection.execute(
            "select cluster, node, zone, accelerator, provisioning, reservation, chips, acquired"
            " from holdings"
        ).fetchall()
        known: dict[str, bool] = {}
        holdings: list[Holding] = []
        for cluster, node, zone, accelerator, provisioning, reservation, chips, acquired in rows:
            if cluster not in known:
                known[cluster] = (self._paths.clusters / cluster).exists()
            if not known[cluster]:
                continue
            kind: Provisioning = provisioning
            claim = Claim(node, zone, accelerator, kind, chips, reservation)
            holdings.append(Holding(claim, cluster, acquired))
        for cluster, exists in known.items():
            if not exists:
                connection.execute("delete from holdings where cluster=?", (cluster,))
        return holdings
