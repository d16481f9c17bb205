"""One wakeful with several owners: a database, `wakeful serve` (on PostgreSQL a worker too), receivers, a quiet one."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import aiohttp
import apsw
import asyncpg
import msgspec
import psutil
from msgspec import Struct

from tests.faults.places import Place, PostgresPlace
from tests.faults.processes import Kept, answers, python_environ, wait_until
from tests.faults.records import read
from tests.ports import free_port
from wakeful.http.security.auth import mint
from wakeful.process.application import build_store
from wakeful.settings import load

from . import quiet
from .records import Asked, Evidence, Sample, Stall, Window, Woken

FILES: Final = 1024  # descriptors a process of wakeful's may have here: as many as a plain shell gives
STORED: Final = 50_000_000
PATIENCE: Final = 20.0
OWNERS: Final = (quiet.NAME, quiet.LOUD, "hoarder", "reader", "crowd", "looper", "spy", "eve", "diary", "sleeper")
SETTINGS: Final = f"""
tick = "200ms"
did_auth = true
backoff_base = "1s"
quota_active = 20000
quota_bytes = {STORED}
creates_per_minute = 20000
"""
PROGRAM: Final = """
create table messages (
    id text primary key, chat_jid text not null, sender text not null, content text not null, timestamp text not null);
create table scheduled_tasks (
    id text primary key, owner text, chat_jid text, prompt text, cron text, next_run text, status text, created_at text,
    error text);
"""


class Reply(Struct, frozen=True):
    """0: no answer came, or the connection was closed."""

    status: int
    text: str = ""

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.text)

    @property
    def kind(self) -> str:
        return str(self.status) if self.status else "hung up"


class FilePlace:
    """SQLite, on whatever disk there is."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.file = folder / "wakeful.db"

    def settings(self) -> list[str]:
        return [f'db = "{self.file}"']

    def look(self) -> dict[str, Any]:
        return {"db": str(self.file)}

    def close(self) -> None:
        """Its folder goes with the run's."""


class House:
    def __init__(self, folder: Path, store: str) -> None:
        self.folder, self.store = folder, store
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.processes = ("serve",) if store == "sqlite" else ("serve", "worker")
        self.kept: dict[str, Kept] = {}
        self.tokens: dict[str, str] = {}
        self.ended_tokens: dict[str, str] = {}
        self.samples: list[Sample] = []
        self._over = threading.Event()
        self.place: Place

    # Coming and going

    def __enter__(self) -> House:
        self.folder.mkdir(parents=True)
        try:
            self.place = (FilePlace if self.store == "sqlite" else PostgresPlace)(self.folder / "store")
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._over.set()
        for kept in self.kept.values():
            kept.end(signal.SIGKILL)
            kept.log.close()
        if hasattr(self, "place"):
            self.place.close()

    def _start(self) -> None:
        self._run("quiet", "tests.neighbours.quiet", str(self.folder))
        self._run("receivers", "tests.neighbours.receivers", str(self.folder))
        self.ports = self._told("ports.json") | self._told("hostile.json")
        self._configure()
        asyncio.run(self.sql(*PROGRAM.strip().split(";\n")))
        for verb in (("db", "migrate"), ("db", "scheduled-tasks")):
            self._command(*verb)
        for name in self.processes:
            self._run(name, "wakeful.cli", name, "--config", "wakeful.toml", files=FILES)
        wait_until(lambda: answers(f"{self.url}/readyz"), "serve is ready")
        asyncio.run(self._make_tokens())
        told = {"url": self.url, "token": self.tokens[quiet.NAME]}
        new = self.folder / "quiet.new"
        new.write_bytes(msgspec.json.encode(told))
        new.rename(self.folder / "quiet.json")
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def _run(self, name: str, module: str, *args: str, files: int = 0) -> None:
        command = [sys.executable, "-m", module, *args]
        if files:  # as its hard limit: it cannot raise it by itself
            command = ["sh", "-c", f'ulimit -n {files} && exec "$0" "$@"', *command]
        kept = self.kept[name] = Kept(name, command, self.folder, python_environ())
        kept.start()

    def _told(self, name: str) -> dict[str, int]:
        path = self.folder / name
        wait_until(path.exists, f"{name} is written")
        return msgspec.json.decode(path.read_bytes(), type=dict[str, int])

    def _configure(self) -> None:
        lines = [SETTINGS, f"port = {self.port}", *self.place.settings()]
        for target, port in self.ports.items():
            lines += [f"[targets.{target}]", 'kind = "webhook"', f'url = "http://127.0.0.1:{port}/"']
            lines += ['timeout = "5s"', "allow_private = true"]
        lines += ["[targets.private]", 'kind = "webhook"', f'url = "http://127.0.0.1:{self.ports["desk"]}/"']
        lines += [f'owners = ["{quiet.NAME}"]', "allow_private = true"]
        path = self.folder / "wakeful.toml"
        path.write_text("\n".join(lines) + "\n")
        path.chmod(0o600)

    def _command(self, *verb: str) -> None:
        command = [sys.executable, "-m", "wakeful.cli", *verb, "--config", "wakeful.toml"]
        done = subprocess.run(
            command, cwd=self.folder, env=python_environ(), capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode:
            raise RuntimeError(f"wakeful {' '.join(verb)}: {done.stdout}{done.stderr}")

    async def _make_tokens(self) -> None:
        store = build_store(load(flags=self.place.look()))
        now = datetime.now(UTC)
        try:
            for owner in OWNERS:
                self.tokens[owner], token = mint(owner, ["read", "write"], now=now)
                await store.access.add_token(token)
            past = now - timedelta(hours=1)
            for kind in ("expired", "revoked"):
                lasts = timedelta(minutes=1) if kind == "expired" else None
                self.ended_tokens[kind], token = mint(quiet.NAME, ["read", "write"], now=past, lasts=lasts)
                await store.access.add_token(token)
            await store.access.update_token(token.id, revoked_at=now)
            self.ended_tokens["read-only"], token = mint(quiet.NAME, ["read"], now=now)
            await store.access.add_token(token)
        finally:
            await store.close()

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            for name in self.processes:
                with suppress(psutil.Error):
                    one = psutil.Process(self.kept[name].pid)
                    rss, descriptors = one.memory_info().rss, one.num_fds()
                    self.samples.append(Sample(at=time.time(), process=name, rss=rss, descriptors=descriptors))

    # For attacks

    async def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """As another program on the same database, in one transaction each; rows of the last."""
        db = str(self.place.look()["db"])
        rows: list[tuple[Any, ...]] = []
        if "://" in db:
            connection = await asyncpg.connect(db)
            try:
                for statement in statements:
                    rows = [tuple(row) for row in await connection.fetch(statement)]
            finally:
                await connection.close()
            return rows
        file = apsw.Connection(db)
        file.set_busy_timeout(10_000)
        try:
            for statement in statements:
                rows = await asyncio.to_thread(lambda said: file.execute(said).fetchall(), statement)
        finally:
            file.close()
        return rows

    @asynccontextmanager
    async def as_owner(self, owner: str, **headers: str) -> AsyncIterator[Visitor]:
        given = {"authorization": f"Bearer {self.tokens[owner]}"} if owner else {}
        async with self.anyone(given | headers) as visitor:
            yield visitor

    @asynccontextmanager
    async def anyone(self, headers: Mapping[str, str]) -> AsyncIterator[Visitor]:
        timeout = aiohttp.ClientTimeout(total=PATIENCE)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(self.url, headers=headers, timeout=timeout, connector=connector) as session:
            yield Visitor(session)

    def hits(self, receiver: str, since: float) -> Counter[str]:
        """How often each alarm was delivered to a hostile receiver."""
        seen = read(self.folder / "hostile.jsonl", Woken)
        return Counter(one.alarm for one in seen if one.receiver == receiver and one.at >= since)

    # The end

    def evidence(self, windows: list[Window]) -> Evidence:
        self.kept["quiet"].end(signal.SIGTERM)
        log = sum((self.folder / f"{name}.log").stat().st_size for name in self.processes)
        return Evidence(
            store=self.store,
            asked=read(self.folder / "asked.jsonl", Asked),
            woken=read(self.folder / "woken.jsonl", Woken),
            stalls=read(self.folder / "stalls.jsonl", Stall),
            windows=windows,
            samples=self.samples,
            log_bytes=log,
            ended=[name for name in self.processes if not self.kept[name].running],
            read_at=time.time(),
        )


class Visitor:
    """Somebody who asks over HTTP, and counts what came back."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session
        self.came: Counter[str] = Counter()

    async def __call__(self, method: str, path: str, body: Any = None, **more: Any) -> Reply:
        try:
            async with self.session.request(method, path, json=body, **more) as response:
                reply = Reply(response.status, await response.text(errors="replace"))
        except (OSError, aiohttp.ClientError, TimeoutError):
            reply = Reply(0)
        self.came[reply.kind] += 1
        return reply
