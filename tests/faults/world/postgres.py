"""PostgreSQL that fails on demand: stopped, killed, frozen, locked, read-only, full, cut off, failed over, restored."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from .server import Server, binaries, home, leave, own_folder, until
from .session import ServerError, Session

_STOPPING = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_TOO_MANY = "53300"


class Cluster:
    """A primary on loopback, and a replica of it if wanted, with data of their own; their logs stay in `folder`.

    The replica is synchronous: what was acknowledged is there after a failover, so whatever is missing then was lost by
    the client's doing.
    """

    def __init__(self, folder: Path, *, version: int, data: Path | None, environ: Mapping[str, str]) -> None:
        self._home = home("wkpg")
        self.sockets = own_folder(self._home / "s")
        self._backup = self._home / "backup"
        folder.mkdir(parents=True, exist_ok=True)
        bin = binaries(version)
        self._servers = [
            Server(
                (data or self._home) / name, log=folder / f"{name}.log", sockets=self.sockets, bin=bin, environ=environ
            )
            for name in ("pg1", "pg2")
        ]
        self._primary, self._other = self._servers
        self._replicated = False

    @classmethod
    def start(
        cls,
        folder: Path,
        *,
        replica: bool = False,
        version: int = 18,
        data: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Cluster:
        """`data`: where the data goes, as a small disk. `environ`: for the servers, as for a clock of their own."""
        cluster = cls(folder, version=version, data=data, environ=environ or {})
        try:
            cluster._primary.create()
            cluster._primary.start()
            if replica:
                cluster._follow()
        except BaseException:
            cluster.close()
            raise
        return cluster

    def close(self) -> None:
        for server in self._servers:
            server.kill()
            server.wipe()
        leave(self._home)

    @property
    def dsn(self) -> str:
        """Of the server that is the primary now."""
        return f"postgresql://postgres@{self._primary.address}/postgres"

    @property
    def dsn_both(self) -> str:
        """Of whichever is the primary: stays right through failovers."""
        addresses = ",".join(server.address for server in self._servers)
        return f"postgresql://postgres@{addresses}/postgres?target_session_attrs=read-write"

    @property
    def port(self) -> int:
        return self._primary.port

    @property
    def running(self) -> bool:
        """Whether the primary does: it may have ended by itself, as on a full disk."""
        return self._primary.running

    @property
    def log(self) -> str:
        return self._primary.log

    def session(self, *, application: str = "fault") -> Session:
        return self._primary.session(application=application)

    # The primary stops, dies, freezes.

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """`fast` rolls back and writes all out; `immediate` is a power cut: the next start recovers from the log."""
        self._primary.stop(_STOPPING[mode])

    def kill(self) -> None:
        """SIGKILL for every process of it."""
        self._primary.kill()

    def start_again(self) -> None:
        self._primary.start()
        if self._replicated:
            self._wait_for_replica()

    def freeze(self) -> None:
        """SIGSTOP for every process of it: connections stay open, and new ones are accepted by the kernel alone."""
        self._primary.freeze()

    def thaw(self) -> None:
        self._primary.thaw()

    # Failover.

    def promote(self) -> None:
        """The replica becomes the primary. The old one is fenced off: killed, unless it is frozen, which it stays."""
        assert self._replicated, "there is no replica: start with replica=True, or rebuild_replica() first"
        if not self._primary.frozen:
            self._primary.kill()
        self._primary, self._other = self._other, self._primary
        self._replicated = False
        with self.session() as session:
            if session.value("select pg_promote(true, 30)") != "t":
                raise RuntimeError(f"the replica does not become primary: {self.log[-2000:]}")

    def rebuild_replica(self) -> None:
        """Whatever the other server was, it is wiped and follows the primary from now on."""
        self._alone()
        self._other.kill()
        self._follow()

    # Sessions, locks, limits.

    def terminate_backends(self, application: str = "wakeful") -> int:
        """End the sessions that go by this name; how many there were."""
        return self._terminate(f"application_name = '{application}'")

    def cut_listen(self, application: str = "wakeful") -> int:
        """End the sessions that only listen."""
        # A listener asks for 1 now and then, to see whether its connection lives.
        listening = "(query ilike 'listen %' or query = 'select 1')"
        return self._terminate(f"application_name = '{application}' and {listening}")

    def read_only(self, on: bool) -> None:
        """Every transaction from now on, in old sessions too, as on a server that ran out of disk or was demoted."""
        word = "on" if on else "off"
        with self.session() as session:
            session.run(f"alter system set default_transaction_read_only = {word}")
            session.run("select pg_reload_conf()")

        def heard() -> bool:
            with self.session() as session:
                return session.value("show default_transaction_read_only") == word

        until(heard, f"read only is {word}")

    @contextmanager
    def lock_table(self, seconds: float, table: str = "alarms") -> Iterator[None]:
        """Nobody else reads or writes it while the block lasts, for so many seconds at most."""
        with self._locked(seconds, f"lock table {table} in access exclusive mode"):
            yield

    @contextmanager
    def lock_rows(self, seconds: float, table: str = "alarms") -> Iterator[None]:
        """Nobody else changes the rows it has now while the block lasts, for so many seconds at most."""
        with self._locked(seconds, f"select count(*) from (select from {table} for update) locked"):
            yield

    @contextmanager
    def use_up_connections(self, application: str = "wakeful") -> Iterator[int]:
        """All there are, also those that `application` had: its sessions are ended. Gives how many we hold."""
        held: list[Session] = []
        try:
            self._take_all(held)
            until(lambda: not self._squeeze(held, application), f"{application} has no connection left")
            yield len(held)
        finally:
            for session in held:
                session.close()

    # Backup.

    def backup(self) -> None:
        """A consistent copy of now; the one before is forgotten."""
        shutil.rmtree(self._backup, ignore_errors=True)
        self._primary.copy_to(self._backup)

    def restore(self) -> None:
        """Back to what it was at the last backup(); a replica is made anew from that."""
        assert self._backup.exists(), "nothing to go back to: call backup() first"
        self._primary.kill()
        self._primary.become(self._backup)
        self._primary.start()
        if self._replicated:
            self.rebuild_replica()

    def _follow(self) -> None:
        self._other.follow(self._primary)
        self._other.start()
        self._synchronous(self._other.data.name)
        self._replicated = True
        self._wait_for_replica()

    def _alone(self) -> None:
        """Without this, nothing commits while there is no replica."""
        self._synchronous("")
        self._replicated = False

    def _synchronous(self, name: str) -> None:
        with self.session() as session:
            session.run(f"alter system set synchronous_standby_names = '{name}'")
            session.run("select pg_reload_conf()")

    def _wait_for_replica(self) -> None:
        def follows() -> bool:
            with self.session() as session:
                return session.value("select count(*) from pg_stat_replication where sync_state = 'sync'") == "1"

        until(follows, "the replica follows")

    def _terminate(self, whose: str) -> int:
        with self.session() as session:
            rows = session.run(f"select pid from pg_stat_activity where {whose} and pid <> pg_backend_pid()")
            pids = ",".join(pid for [pid] in rows if pid)
            ended = f"select count(*) from unnest('{{{pids}}}'::int[]) pid where pg_terminate_backend(pid, 5000)"
            return int(session.value(ended) or 0)

    @contextmanager
    def _locked(self, seconds: float, lock: str) -> Iterator[None]:
        with self.session(application="locker") as session:
            # If the block does not end in time, the server ends it; and we do not wait for ever for the lock.
            limit = f"idle_in_transaction_session_timeout = '{int(seconds * 1000)}ms'"
            session.run(f"set {limit}; set lock_timeout = '15s'; begin; {lock}")
            yield

    def _take_all(self, held: list[Session]) -> None:
        while True:
            try:
                held.append(self.session(application="hoarder"))
            except ServerError as full:
                if full.state == _TOO_MANY:
                    return
                raise

    def _squeeze(self, held: list[Session], application: str) -> bool:
        """Take what `application` has; whether there was anything to take."""
        where = f"from pg_stat_activity where application_name = '{application}'"
        # A session of ours must ask: there is no other left.
        ended = held[0].value(f"select count(pg_terminate_backend(pid)) {where}")
        before = len(held)
        with suppress(ConnectionError):
            self._take_all(held)  # also where nothing was ended: a session that was may be gone only now
        return ended != "0" or len(held) > before
