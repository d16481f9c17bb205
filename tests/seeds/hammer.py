"""A program that writes to a SQLite file all the time, in short transactions, until it is told to stop.

It waits five seconds for a lock, as the gateway does, and says at the end how it went. Nothing of wakeful is in it.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
import threading
import time
from typing import Final

# Between two transactions, as a program that also does something else. Without it the file is locked nearly all the
# time, and whoever waits for it in SQLite's own way, looking every 100 ms, starves: two such programs do by themselves.
BREATH: Final = 0.0002


def main(path: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    db = sqlite3.connect(path, timeout=5, isolation_level=None)
    db.execute("pragma journal_mode = wal")
    db.execute("create table if not exists hammered (id integer primary key, said text not null)")
    print("hammering", flush=True)
    transactions, refused = 0, []
    while not stop.is_set():
        try:
            db.execute("begin immediate")
            db.execute("insert into hammered (said) values (?)", ("x" * 200,))
            db.execute("update hammered set said = 'again' where id = (select max(id) - 5 from hammered)")
            db.execute("commit")
            transactions += 1
        except sqlite3.OperationalError as error:
            refused.append(str(error))
            if db.in_transaction:
                db.execute("rollback")
        time.sleep(BREATH)
    db.close()
    print(json.dumps({"transactions": transactions, "refused": refused}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
