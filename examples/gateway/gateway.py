"""A toy message gateway with a poll loop of its own. It knows nothing of wakeful: all they share is one SQLite file.

    python examples/gateway/gateway.py messages.db --chat 123@g.us=main     # answer what is said in a chat
    python examples/gateway/gateway.py messages.db --say 123@g.us "Hello"   # say something there, and leave

Replace `answer` with whatever your agent does with a message.
"""

from __future__ import annotations

import argparse
import os
import signal
import sqlite3
import threading
from collections.abc import Sequence
from typing import Final
from uuid import uuid4

POLL = float(os.environ.get("GATEWAY_POLL", "0.5"))  # seconds between two looks at the messages
BOT: Final = "bot"
ISOLATED: Final = "scheduler-isolated"
NOW: Final = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"

MIGRATIONS: Final = (
    """
    create table messages (
        id text primary key, chat_jid text not null, sender text not null, sender_name text, content text not null,
        timestamp text not null, is_from_me integer default 0, is_bot_message integer default 0, reply_to_id text,
        topic text not null default '', routed_to text not null default '', verb text not null default '');
    create index idx_messages_chat_ts on messages (chat_jid, timestamp);
    create table chats (jid text primary key, folder text not null);
    create table sessions (folder text not null, content text not null);
    create table state (key text primary key, value text not null);
    """,
    """
    create table scheduled_tasks (
        id text primary key, owner text not null, chat_jid text not null, prompt text not null, cron text,
        next_run text, status text not null default 'active', created_at text not null,
        context_mode text not null default 'group');
    create index idx_tasks_next on scheduled_tasks (status, next_run);
    create table task_run_logs (
        id integer primary key autoincrement, task_id text not null references scheduled_tasks (id) on delete cascade,
        run_at text not null, duration_ms integer, status text not null, result text, error text);
    create index idx_task_run_logs_task on task_run_logs (task_id);
    """,
)
PICK_UP: Final = f"""
select messages.id, chat_jid, folder, sender, content, timestamp
  from messages
  join chats on chats.jid = chat_jid
 where timestamp > (select coalesce(max(value), '') from state where key = 'cursor')
   and is_bot_message = 0
   and sender not like '{BOT}%'
 order by timestamp
 limit 200
"""


class Gateway:
    def __init__(self, path: str) -> None:
        self._db = sqlite3.connect(path, timeout=5, isolation_level=None)
        self._db.execute("pragma journal_mode = wal")
        self._db.execute("pragma foreign_keys = on")

    def migrate(self) -> None:
        """Bring the tables up to date. The ledger is shared: each service keeps its own lines in it."""
        self._db.execute(
            "create table if not exists migrations (service text not null, version integer not null, "
            "applied_at text not null, primary key (service, version))"
        )
        [have] = self._db.execute(
            "select coalesce(max(version), 0) from migrations where service = 'gateway'"
        ).fetchone()
        for version, script in enumerate(MIGRATIONS[have:], start=have + 1):
            line = f"insert into migrations values ('gateway', {version}, {NOW});"
            self._db.executescript(f"begin immediate; {script} {line} commit;")

    def register(self, jid: str, folder: str) -> None:
        self._db.execute("insert or replace into chats values (?, ?)", (jid, folder))

    def say(self, jid: str, content: str, *, sender: str = "someone", reply_to: str | None = None) -> None:
        self._db.execute(
            "insert into messages (id, chat_jid, sender, content, timestamp, is_bot_message, reply_to_id) "
            f"values (?, ?, ?, ?, {NOW}, ?, ?)",
            (str(uuid4()), jid, sender, content, int(sender == BOT), reply_to),
        )

    def poll(self) -> None:
        """Answer what came since the last look, oldest first. Answer and cursor move together."""
        for id, jid, folder, sender, content, timestamp in self._db.execute(PICK_UP).fetchall():
            self._db.execute("begin immediate")
            earlier: list[str] = []
            if not sender.startswith(ISOLATED):  # those get a clean context, and leave nothing behind
                earlier = [
                    text for (text,) in self._db.execute("select content from sessions where folder = ?", (folder,))
                ]
                self._db.execute("insert into sessions values (?, ?)", (folder, content))
            self.say(jid, answer(content, earlier), sender=BOT, reply_to=id)
            self._db.execute("insert or replace into state values ('cursor', ?)", (timestamp,))
            self._db.execute("commit")
            print(f"{jid} <- {sender}: {content} | {len(earlier)} earlier", flush=True)

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self.poll()
            stop.wait(POLL)
        self._db.close()


def answer(content: str, earlier: Sequence[str]) -> str:
    """What the agent makes of a message, knowing what was said before."""
    return f"{content!r}, after {len(earlier)} others"


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    asked.add_argument("database")
    asked.add_argument("--chat", action="append", default=[], metavar="JID=FOLDER", help="a chat to answer in")
    asked.add_argument("--say", nargs=2, metavar=("JID", "TEXT"), help="say something in a chat, and leave")
    given = asked.parse_args()
    gateway = Gateway(given.database)
    gateway.migrate()
    if given.say:
        gateway.say(*given.say)
        return
    for chat in given.chat:
        jid, _, folder = chat.partition("=")
        gateway.register(jid, folder or jid)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    print(f"gateway: answering in {len(given.chat)} chats", flush=True)
    gateway.run(stop)


if __name__ == "__main__":
    main()
