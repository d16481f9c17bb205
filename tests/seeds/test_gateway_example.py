"""The example gateway and wakeful on one SQLite file: two real processes that know nothing of each other."""

from __future__ import annotations

import os
import queue
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests import commands
from tests.interfaces.mcp_world import Agent

EXAMPLE = Path(__file__).parents[2] / "examples" / "gateway"
CHAT = "123@g.us"
WITHIN = 60  # seconds: this machine may have other things to do
LINE = re.compile(r"(?P<chat>\S+) <- (?P<sender>\S+): (?P<content>.*) \| (?P<earlier>\d+) earlier")


class Process:
    """A process whose lines can be waited for."""

    def __init__(self, command: list[str], cwd: Path, **environ: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("WAKEFUL_", "GATEWAY_"))}
        self._process = subprocess.Popen(
            command, cwd=cwd, env=kept | environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))

    def says(self, wanted: Callable[[str], object]) -> str:
        """The next line that is wanted."""
        ending = time.monotonic() + WITHIN
        while True:
            try:
                self.said.append(self._lines.get(timeout=max(0, ending - time.monotonic())))
            except queue.Empty:
                pytest.fail("it did not say it; it said:\n" + "\n".join(self.said))
            if wanted(self.said[-1]):
                return self.said[-1]

    def stop(self) -> list[str]:
        """Ask it to end, and all it said."""
        self._process.send_signal(signal.SIGTERM)
        try:
            assert self._process.wait(WITHIN) == 0, self.said
        finally:
            self.end()
        while not self._lines.empty():
            self.said.append(self._lines.get())
        return self.said

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    started: list[Process] = []
    yield started
    for process in started:
        process.end()


@pytest.fixture
def gateway(tmp_path: Path, processes: list[Process]) -> Process:
    command = [sys.executable, str(EXAMPLE / "gateway.py"), "messages.db", "--chat", f"{CHAT}=main"]
    processes.append(Process(command, tmp_path, GATEWAY_POLL="0.05"))
    processes[-1].says(lambda line: line.startswith("gateway: answering"))
    return processes[-1]


def wakeful(cwd: Path, *args: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WAKEFUL_")}
    done = commands.run(args, cwd=cwd, env=kept, timeout=WITHIN)
    assert done.returncode == 0, done.stderr
    return done.stdout


def sql(directory: Path, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Another program: in a process that has nothing of wakeful open."""
    with closing(sqlite3.connect(directory / "messages.db", timeout=5, isolation_level=None)) as db:
        return db.execute(statement, values).fetchall()


def soon(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


INSERT = (
    "insert into scheduled_tasks (id, owner, chat_jid, prompt, cron, next_run, created_at, context_mode) "
    "values (?, 'main', ?, ?, ?, ?, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), ?)"
)
IN_CHAT = "select count(*) from messages where chat_jid = ? and is_bot_message = 0"
BY_TIME = "select sender, content from messages where chat_jid = ? and is_bot_message = 0 order by timestamp"


async def test_tasks_by_sql_and_by_tool_reach_the_gateway_once_and_in_order(
    tmp_path: Path, gateway: Process, processes: list[Process]
) -> None:
    assert "taken over" in wakeful(tmp_path, "db", "scheduled-tasks", "--db", "messages.db")
    serve = Process(
        [*commands.PROGRAM, "serve", "--db", "messages.db", "--port", "0"], tmp_path, WAKEFUL_MCP_TASKS="true"
    )
    processes.append(serve)
    found = re.search(r" on (http://127\.0\.0\.1:\d+), ", serve.says(lambda line: " on http://" in line))
    assert found is not None

    sql(tmp_path, INSERT, "tea", CHAT, "tea is ready", None, soon(1), "group")
    sql(tmp_path, INSERT, "audit", CHAT, "check backups", None, soon(2), "isolated")
    sql(tmp_path, INSERT, "nobody", "unknown@g.us", "to no registered chat", None, soon(1), "group")
    sql(tmp_path, INSERT, "never", CHAT, "deleted in time", None, soon(3600), "group")
    sql(tmp_path, "delete from scheduled_tasks where id = 'never'")
    sql(tmp_path, INSERT, "tick", CHAT, "tick", "1000", soon(1), "group")
    async with Client(found[1] + "/mcp") as client:
        agent = Agent(client)
        mine = (await agent("schedule_task", targetJid=CHAT, prompt="by tool", cron=soon(2)))["taskId"]
        alone = (
            await agent("schedule_task", targetJid=CHAT, prompt="by tool, alone", cron=soon(3), contextMode="isolated")
        )["taskId"]
        # Until the last of these is there; meanwhile the series goes on.
        gateway.says(lambda line: "by tool, alone" in line)
        gateway.says(lambda line: "tick" in line)
        assert {task["ID"]: task["Status"] for task in (await agent("list_tasks"))["tasks"]} == {
            mine: "done",
            alone: "done",
        }
    assert serve.stop()
    ending = time.monotonic() + WITHIN
    while sql(tmp_path, "select count(*) from messages where is_bot_message = 1") != sql(tmp_path, IN_CHAT, CHAT):
        assert time.monotonic() < ending, "not everything was answered"

    lines = [found for line in gateway.stop()[1:] if (found := LINE.fullmatch(line))]
    seen = [(line["sender"], line["content"]) for line in lines]
    assert seen == sql(tmp_path, BY_TIME, CHAT)
    singles = [one for one in seen if one != ("scheduler", "tick")]
    assert sorted(singles) == sorted(
        [
            ("scheduler", "tea is ready"),
            ("scheduler-isolated:audit", "check backups"),
            ("scheduler", "by tool"),
            (f"scheduler-isolated:{alone}", "by tool, alone"),
        ]
    )
    assert len(seen) - len(singles) >= 3
    shared = 0
    for line in lines:  # who is isolated knows nothing of the others, and they nothing of it
        isolated = line["sender"].startswith("scheduler-isolated")
        assert int(line["earlier"]) == (0 if isolated else shared)
        shared += not isolated
    assert sql(tmp_path, "select count(*) from messages where chat_jid = 'unknown@g.us'") == [(1,)]
    assert sql(tmp_path, "select count(*), count(distinct reply_to_id) from messages where is_bot_message = 1") == [
        (len(seen), len(seen))
    ]
    services = sql(tmp_path, "select service, count(*) from migrations group by service order by service")
    assert [service for service, _ in services] == ["gateway", "wakeful", "wakeful-oldest"]


def test_the_readme_s_commands_do_what_it_says(tmp_path: Path, processes: list[Process]) -> None:
    readme = (EXAMPLE / "README.md").read_text()
    blocks = re.findall(r"```\n(.*?)```", readme, re.DOTALL)
    start, connect, schedule, shown, change = blocks[:5]
    processes.append(Process(_command(start), tmp_path))
    gateway = processes[0]
    gateway.says(lambda line: line.startswith("gateway: answering"))
    once, work = connect.splitlines()
    assert subprocess.run(_command(once), cwd=tmp_path, timeout=WITHIN).returncode == 0
    processes.append(Process(_command(work), tmp_path))
    processes[1].says(lambda line: "worker, store messages.db" in line)
    say, _, statement = schedule.partition("\nsqlite3 messages.db <<SQL\n")
    assert subprocess.run(_command(say), cwd=tmp_path, timeout=WITHIN).returncode == 0
    sql(tmp_path, statement.removesuffix("SQL\n"))
    gateway.says(lambda line: "Stand up" in line)
    assert gateway.said == shown.splitlines()
    for command in change.splitlines():
        _, _, text = shlex.split(command)
        found = sql(tmp_path, text)
    assert sorted(row[:2] for row in found) == [("audit", "done"), ("tea", "done")]
    for process in reversed(processes):
        process.stop()


def _command(line: str) -> list[str]:
    """A line of the readme, by this Python and from this checkout."""
    first, *rest = shlex.split(line)
    programs = {"python": [sys.executable], "wakeful": commands.PROGRAM}
    return [*programs[first], *(str(EXAMPLE.parents[1] / one) if one.startswith("examples/") else one for one in rest)]


def test_the_readme_names_the_variables_the_gateway_takes() -> None:
    names = re.findall(r'environ\.get\("(\w+)"', (EXAMPLE / "gateway.py").read_text())
    assert names
    assert [name for name in names if f"`{name}`" not in (EXAMPLE / "README.md").read_text()] == []


def test_the_gateway_knows_nothing_of_wakeful() -> None:
    code = (EXAMPLE / "gateway.py").read_text()
    assert "import wakeful" not in code
    assert "from wakeful" not in code
