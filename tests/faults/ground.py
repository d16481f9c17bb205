"""One database, `wakeful serve`, two `wakeful worker`, receivers and a client: each a process, started as users do."""

from __future__ import annotations

import asyncio
import random
import resource
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import psutil

from tests.ports import free_port
from wakeful.errors import WakefulError
from wakeful.process.application import build_store
from wakeful.settings import load
from wakeful.store import AlarmQuery, FireQuery, Store

from .client import FIRST_OF_KINDS, acknowledged, alarm_body
from .places import PLACES, Place
from .processes import WAKEFUL, Keeper, answers, crowd, python_environ, wait_until
from .profiles import USUAL, Profile
from .receivers import NOTICED, RECEIVERS
from .records import Ack, AlarmRow, Evidence, FireRow, Injection, Notes, Seen, Stall, read
from .story import HOSTILE

LEASE: Final = USUAL.lease  # for kinds of fault that wait until a lease is over
WORKERS: Final = ("worker-1", "worker-2")
DISPATCHERS: Final = ("serve", *WORKERS)
PATIENT: Final = {"slow": 20, "hang": 2}  # seconds a target waits for its receiver; the others 5
READABLE: Final = 60.0  # seconds in which the rows can be read after a fault
LONGEST_DRAIN: Final = 180.0
EACH: Final = 5.0  # seconds between two looks at how much else this machine does
AT_ONCE: Final = 600  # deliveries to the receiver of a stream, in one process
SETTINGS: Final = """
stop_within = "3s"
min_interval = "1s"
quota_active = 1000000
creates_per_minute = 1000000
requests_per_minute = 1000000
"""


T = TypeVar("T")


class Stopped(Exception):
    """Somebody wants the run to end."""


class Ground:
    def __init__(
        self,
        folder: Path,
        store: str,
        *,
        seed: int,
        stop: threading.Event,
        rate: float,
        older: Mapping[str, str] | None,
        profile: Profile = USUAL,
    ) -> None:
        self.folder, self.store, self.seed, self.rate, self.older = folder, store, seed, rate, older
        self.profile = profile
        self.random = random.Random(seed)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.stalls: list[tuple[float, float]] = []
        self.crowds: list[tuple[float, float]] = []
        self._stop = stop
        self._over = threading.Event()
        self._next_number = FIRST_OF_KINDS
        self.steps: list[Injection] = []
        self.kind = ""  # of the fault that is being done
        self.began: float | None = None
        self.keeper = Keeper(folder)
        self.place: Place

    # Coming and going

    def __enter__(self) -> Ground:
        self.folder.mkdir(parents=True)
        self.notes = Notes(self.folder / "journal.jsonl")
        try:
            self.place = PLACES[self.store](self.folder / "store")
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._over.set()
        self.keeper.close()
        if hasattr(self, "place"):
            self.place.close()
        self.notes.close()

    def _start(self) -> None:
        environ = python_environ({"FAULTS_PIDS": str(self.keeper.pids_file)})
        self.keeper.add("receivers", "tests.faults.receivers", str(self.folder), environ=environ, again=False)
        ports = self.folder / "ports.json"
        wait_until(ports.exists, "the receivers listen")
        self.ports = msgspec.json.decode(ports.read_bytes(), type=dict[str, int])
        for name in DISPATCHERS:
            self._configure(name)
            verb = "serve" if name == "serve" else "worker"
            code = python_environ(self.older)
            self.keeper.add(name, WAKEFUL, verb, "--config", f"{name}.toml", environ=code)
            if name == "serve":  # it makes the tables; workers may come after
                wait_until(self.ready, "serve is ready")
        self.keeper.watch()
        threading.Thread(target=self._feel_stalls, name="stalls", daemon=True).start()
        # The older version overwrites reports, which was a fault of it: none are made to it.
        reports = "no" if self.older else "yes"
        asked = (self.url, str(self.folder), str(self.seed), str(self.rate), str(self.profile.stream), reports)
        self.keeper.add("client", "tests.faults.client", *asked, environ=environ, again=False)

    def _configure(self, name: str) -> None:
        lease, tick = self.profile.lease, self.profile.tick
        lines = [SETTINGS, f'lease = "{lease}s"', f'tick = "{tick}s"', f"port = {self.port}", *self.place.settings()]
        for target in RECEIVERS:
            lines += [
                f"[targets.{target}]",
                'kind = "webhook"',
                f'url = "http://127.0.0.1:{self.ports[target]}/"',
                f"timeout = {PATIENT.get(target, 5)}",
                "allow_private = true",
                f'headers = {{ "x-process" = "{name}" }}',
                *(["reports = true"] if target == "desk" else []),
                *([f"concurrency = {AT_ONCE}"] if target == "steady" else []),
            ]
        (self.folder / f"{name}.toml").write_text("\n".join(lines) + "\n")

    def _feel_stalls(self) -> None:
        """Whether the machine is busy or stands still: then nobody is late."""
        looked = 0.0
        while not self._over.is_set():
            if time.monotonic() - looked > EACH:
                looked = time.monotonic()
                self.crowds.append((time.time(), crowd()))
            before = time.monotonic()
            time.sleep(0.05)
            if (more := time.monotonic() - before - 0.05) > NOTICED:
                self.stalls.append((time.time(), more))

    # For faults

    @property
    def brief(self) -> float:
        """Seconds after a fault in which no lease had to end: then nothing waits for one."""
        return min(self.profile.lease, LEASE) + self.profile.tick

    def mark(self) -> None:
        """From here on harm is done; before the first of these it was only prepared."""
        if self.began is None:
            self.began = time.time()

    def pause(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise Stopped

    def ready(self) -> bool:
        return answers(f"{self.url}/readyz")

    def everybody_up(self, *, within: float = 180.0) -> None:
        """Until every process runs and serve is ready again."""
        end = time.monotonic() + within
        while not (all(self.keeper.kept[name].running for name in DISPATCHERS) and self.ready()):
            if time.monotonic() > end:
                raise TimeoutError(f"wakeful is not ready {within:.0f} s after the fault was over")
            self.pause(0.1)

    def restart(self, name: str, environ: Mapping[str, str]) -> None:
        """An orderly restart on the way to a fault: noted for itself, since what is in flight then is handed back."""
        began = time.time()
        self.keeper.restart(name, number=signal.SIGTERM, environ=python_environ(environ))
        self.steps.append(
            Injection(
                kind=self.kind,
                store=self.store,
                began=began,
                ended=time.time(),
                hits=(name,),
                within=self.brief,
                note=name,
            )
        )

    def until_it_sends(self, name: str, *, within: float = 90.0) -> None:
        """Until a process that was just started takes part in the work."""
        since, end = time.time(), time.monotonic() + within
        while not any(w.process == name and w.at > since for w in read(self.folder / "wakes.jsonl", Seen)):
            if time.monotonic() > end:
                raise TimeoutError(f"{name} has sent nothing for {within:.0f} s")
            self.pause(0.3)

    @contextmanager
    def frozen(self, *names: str) -> Iterator[None]:
        for name in names:
            self.keeper.kept[name].send(signal.SIGSTOP)
        try:
            yield
        finally:
            for name in names:
                self.keeper.kept[name].send(signal.SIGCONT)

    @contextmanager
    def limited(self, limit: int, to: int | None, *names: str) -> Iterator[None]:
        """A soft limit of running processes; `to` None: as many descriptors as each has just now."""
        before: dict[int, tuple[int, int]] = {}
        try:
            for name in names:
                pid = self.keeper.kept[name].pid
                with suppress(ProcessLookupError, psutil.NoSuchProcess):
                    now = resource.prlimit(pid, limit)
                    value = psutil.Process(pid).num_fds() if to is None else to
                    resource.prlimit(pid, limit, (value, now[1]))
                    before[pid] = now
            yield
        finally:
            for pid, was in before.items():
                with suppress(ProcessLookupError):
                    resource.prlimit(pid, limit, was)

    def burst(self, count: int, *, target: str = "honest", ahead: float = 1.0, **more: Any) -> list[Ack]:
        """Alarms of a fault's own, all due at one moment, in the journal like the client's."""
        due, sent = time.time() + ahead, time.time()
        numbers = range(self._next_number, self._next_number + count)
        self._next_number += count
        bodies = [alarm_body(n, due=due, target=target, **more) for n in numbers]
        results = self._post("/v1/alarms/batch", {"alarms": bodies})
        told = [{}] * count if results is None else results["results"]
        acks = []
        for n, result in zip(numbers, told, strict=True):
            given = {"target": target, "message": f"n{n} v1", "due": due}
            ack = acknowledged("create", n, sent, result.get("status", 599), result.get("alarm"), **given)
            self.notes.add(ack)
            acks.append(ack)
        return acks

    def _post(self, path: str, body: Any) -> Any:
        data = msgspec.json.encode(body)
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return msgspec.json.decode(response.read())
        except (OSError, urllib.error.URLError):
            return None

    def alarm_status(self, id: str) -> str:
        try:
            with urllib.request.urlopen(f"{self.url}/v1/alarms/{id}", timeout=2) as response:
                return str(msgspec.json.decode(response.read())["status"])
        except (OSError, urllib.error.URLError):
            return ""

    # The end of a round

    def drain(self) -> None:
        """No more is set; wait until everything that is due has happened, or had every chance to."""
        for name in ("client", "receivers"):
            if not self.keeper.kept[name].running:  # the witnesses: no fault touches them
                raise RuntimeError(f"{name} ended by itself: {(self.folder / f'{name}.log').read_text()[-1500:]}")
        self.keeper.stop("client", within=90.0)  # cut short, it would not have noted an answer
        last = max((ack.due or 0.0 for ack in read(self.folder / "journal.jsonl", Ack)), default=0.0)
        self.pause(max(0.0, last - time.time()) + LEASE)
        self._wait_while_it_goes_on()
        self.pause(1.0)

    def _wait_while_it_goes_on(self) -> None:
        """Until nothing is active, or nothing has ended for so long that nothing will, also on a busy machine."""
        patience = self.profile.lease + self.profile.tick + self.profile.slack + 20 * max(1.0, min(4.0, crowd()))
        last, since = -1, time.monotonic()
        end = since + max(LONGEST_DRAIN, patience)
        while (left := self._patiently(self._pending)) and time.monotonic() < min(since + patience, end):
            if left != last:
                last, since = left, time.monotonic()
            self.pause(0.5)

    def _patiently(self, read: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What the database holds, once it can be read: a fault is over, and its store may still be busy with it."""
        end = time.monotonic() + READABLE
        while True:
            try:
                return asyncio.run(read())
            except (WakefulError, OSError, TimeoutError):
                if time.monotonic() > end:
                    raise
                self.pause(1.0)

    def _open(self) -> Store:
        return build_store(load(flags=self.place.look()))

    async def _pending(self) -> int:
        store = self._open()
        try:
            active = await _all_alarms(store, statuses=("active",))
        finally:
            await store.close()
        return sum(row.target not in HOSTILE for row in active)

    async def _rows(self) -> tuple[list[AlarmRow], list[FireRow]]:
        store = self._open()
        try:
            return await _all_alarms(store), await _all_fires(store)
        finally:
            await store.close()

    def evidence(self, injections: list[Injection]) -> Evidence:
        alarms, fires = self._patiently(self._rows)
        stalls = read(self.folder / "stalls.jsonl", Stall)
        return Evidence(
            store=self.store,
            acks=read(self.folder / "journal.jsonl", Ack),
            wakes=read(self.folder / "wakes.jsonl", Seen),
            alarms=alarms,
            fires=fires,
            injections=injections + self.steps,
            lease=self.profile.lease,
            tick=self.profile.tick,
            slack=self.profile.slack,
            read_at=time.time(),
            crowds=self.crowds,
            stalls=self.stalls + [(one.at, one.seconds) for one in stalls],
        )


async def _all_alarms(store: Store, *, statuses: tuple[str, ...] = ()) -> list[AlarmRow]:
    rows: list[AlarmRow] = []
    cursor = None
    while found := await store.find(AlarmQuery(limit=1000, cursor=cursor, statuses=statuses)):
        cursor = (found[-1].created_at, found[-1].id)
        rows += [
            AlarmRow(
                id=alarm.id,
                status=alarm.status,
                next_fire_at=alarm.next_fire_at.timestamp(),
                target=alarm.target,
                message=alarm.wake_message,
                key=alarm.idempotency_key,
                last_error=alarm.last_error,
            )
            for alarm in found
        ]
    return rows


async def _all_fires(store: Store) -> list[FireRow]:
    rows: list[FireRow] = []
    cursor = None
    while found := await store.fires(FireQuery(limit=1000, cursor=cursor)):
        cursor = (found[-1].scheduled_for, found[-1].alarm_id)
        rows += [
            FireRow(
                alarm=fire.alarm_id,
                scheduled=fire.scheduled_for.timestamp(),
                status=fire.status,
                through=None if fire.through is None else fire.through.timestamp(),
                reason=fire.reason,
            )
            for fire in found
        ]
    return rows
