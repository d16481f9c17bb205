"""Where a fault run keeps its alarms: a SQLite file, PostgreSQL behind a proxy, behind pgbouncer, or with a replica."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

from .world import disk as disks
from .world.bouncer import Bouncer
from .world.postgres import Cluster
from .world.proxy import Proxy

DISK_MB: Final = 96


class Place(Protocol):
    def settings(self) -> list[str]:
        """Lines of wakeful.toml."""
        ...

    def look(self) -> dict[str, Any]:
        """Settings for the harness's own look at the rows, past whatever can be broken."""
        ...

    def close(self) -> None: ...


class SqlitePlace:
    """On a disk of its own where there is one, so that it can be full."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.disk = disks.SmallDisk.start(folder / "disk", DISK_MB) if disks.available() else None
        self.file = (self.disk.path if self.disk else folder) / "wakeful.db"
        self.spare = folder  # for copies: not on the small disk

    def settings(self) -> list[str]:
        return [f'db = "{self.file}"']

    def look(self) -> dict[str, Any]:
        return {"db": str(self.file)}

    def close(self) -> None:
        if self.disk is not None:
            self.disk.close()


class PostgresPlace:
    """Reached through a proxy, so that the network can break."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.cluster = Cluster.start(folder)
        try:
            self.proxy = Proxy.start(to=("127.0.0.1", self.cluster.port))
        except BaseException:
            self.cluster.close()
            raise

    def settings(self) -> list[str]:
        return [f'db = "postgresql://postgres@127.0.0.1:{self.proxy.port}/postgres"']

    def look(self) -> dict[str, Any]:
        return {"db": self.cluster.dsn}

    def close(self) -> None:
        self.proxy.close()
        self.cluster.close()


class BouncerPlace:
    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.cluster = Cluster.start(folder / "pg")
        try:
            self.bouncer = Bouncer.start(folder / "bouncer", self.cluster)
        except BaseException:
            self.cluster.close()
            raise

    def settings(self) -> list[str]:
        return [f'db = "{self.bouncer.dsn}"', "pgbouncer = true"]

    def look(self) -> dict[str, Any]:
        return {"db": self.cluster.dsn}

    def close(self) -> None:
        self.bouncer.close()
        self.cluster.close()


class FailoverPlace:
    """A primary and its replica; wakeful knows both addresses."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.cluster = Cluster.start(folder, replica=True)

    def settings(self) -> list[str]:
        return [f'db = "{self.cluster.dsn_both}"']

    def look(self) -> dict[str, Any]:
        return {"db": self.cluster.dsn}

    def close(self) -> None:
        self.cluster.close()


PLACES: Final[dict[str, Callable[[Path], Place]]] = {
    "sqlite": SqlitePlace,
    "postgres": PostgresPlace,
    "bouncer": BouncerPlace,
    "failover": FailoverPlace,
}
