"""Each fault of the harness's network and of its SQLite files really happens, and really heals."""

from __future__ import annotations

import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from .world import sqlite
from .world.proxy import Proxy
from .world.server import home, leave

# The network.


@contextmanager
def echo(family: int, address: Any) -> Iterator[socket.socket]:
    """A server that says back what it hears."""

    def talk(peer: socket.socket) -> None:
        with peer, suppress(OSError):
            while piece := peer.recv(1024):
                peer.sendall(piece)

    def serve(server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=talk, args=[server.accept()[0]], daemon=True).start()

    with socket.socket(family) as server:
        server.bind(address)
        server.listen()
        serving = threading.Thread(target=serve, args=[server], daemon=True)
        serving.start()
        yield server
        server.shutdown(socket.SHUT_RDWR)
        serving.join(60)


def client(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=60)


def said_back(peer: socket.socket, word: bytes) -> bytes:
    peer.sendall(word)
    return peer.recv(1024)


@pytest.fixture(params=["tcp", "unix"])
def proxy(request: pytest.FixtureRequest) -> Iterator[Proxy]:
    folder = home("wkpx")  # a short path
    unix = str(folder / "echo")
    family, address = (socket.AF_INET, ("127.0.0.1", 0)) if request.param == "tcp" else (socket.AF_UNIX, unix)
    with echo(family, address) as server:
        proxy = Proxy.start(server.getsockname())
        yield proxy
        proxy.close()
    leave(folder)


def test_a_half_open_connection_stays_and_says_nothing_until_it_heals(proxy: Proxy) -> None:
    with client(proxy) as peer:
        assert said_back(peer, b"one") == b"one"
        proxy.half_open()
        with client(proxy) as new:
            for one in (peer, new):
                one.sendall(b"two")
                one.settimeout(0.2)
                with pytest.raises(TimeoutError):
                    one.recv(1024)
                one.settimeout(20)
            proxy.heal()
            assert (peer.recv(1024), new.recv(1024)) == (b"two", b"two")


def test_a_cut_resets_every_connection_and_every_new_one_until_it_heals(proxy: Proxy) -> None:
    with client(proxy) as peer:
        assert said_back(peer, b"one") == b"one"
        assert proxy.cut() == 1
        with pytest.raises(ConnectionResetError):
            peer.recv(1024)
    with pytest.raises(ConnectionResetError), client(proxy) as new:
        new.recv(1024)
    proxy.heal()
    with client(proxy) as peer:
        assert said_back(peer, b"two") == b"two"


def test_a_reset_is_for_those_there_are(proxy: Proxy) -> None:
    with client(proxy) as peer:
        assert said_back(peer, b"one") == b"one"
        assert proxy.reset() == 1
        with pytest.raises(ConnectionResetError):
            peer.recv(1024)
    with client(proxy) as new:
        assert said_back(new, b"two") == b"two"
        assert proxy.connections() == 1


def test_a_slow_network_delivers_later(proxy: Proxy) -> None:
    proxy.delay(150)
    with client(proxy) as peer:
        began = time.monotonic()
        assert said_back(peer, b"one") == b"one"
        assert time.monotonic() - began >= 0.3  # there and back
        proxy.heal()
        assert said_back(peer, b"two") == b"two"


def test_new_connections_go_where_the_proxy_was_moved(proxy: Proxy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        proxy.move(elsewhere.getsockname())
        with client(proxy):
            elsewhere.settimeout(20)
            elsewhere.accept()[0].close()


# A SQLite file.


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "wakeful.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("pragma journal_mode = wal")
        database.execute("create table alarms (id integer primary key, text)")
        database.executemany("insert into alarms (text) values (?)", [["x" * 500]] * 50)
        database.commit()
    return path


def rows(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        return int(database.execute("select count(text) from alarms").fetchone()[0])


def add(path: Path, timeout: float = 20) -> None:
    with closing(sqlite3.connect(path, timeout=timeout)) as database:
        database.execute("insert into alarms (text) values ('new')")
        database.commit()


def test_a_foreign_lock_lets_read_and_not_write_while_the_block_lasts(file: Path) -> None:
    with sqlite.foreign_lock(file, 60):
        assert rows(file) == 50
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            add(file, timeout=0)
    add(file, timeout=0)
    assert rows(file) == 51


def test_a_foreign_lock_ends_by_itself_when_its_time_is_over(file: Path) -> None:
    with sqlite.foreign_lock(file, 0.2):
        add(file)
    assert rows(file) == 51


def test_a_long_reader_keeps_the_log_from_being_begun_anew(file: Path) -> None:
    def checkpoint() -> int:
        with closing(sqlite3.connect(file, timeout=0)) as database:
            return int(database.execute("pragma wal_checkpoint(truncate)").fetchone()[0])

    with sqlite.long_reader(file, 60):
        add(file)
        assert checkpoint() == 1  # busy
    assert checkpoint() == 0
    assert rows(file) == 51


def test_a_corrupt_page_is_noticed_and_mended(file: Path) -> None:
    with closing(sqlite3.connect(file)) as other:  # who has it open, so that new pages stay in the log
        other.executemany("insert into alarms (text) values (?)", [["x" * 500]] * 50)
        other.commit()
        mend = sqlite.corrupt_page(file)
        with pytest.raises(sqlite3.DatabaseError, match="malformed"):
            rows(file)
        mend()
        assert rows(file) == 100


def test_a_moved_file_is_gone_and_comes_back_over_what_took_its_place(file: Path) -> None:
    put_back = sqlite.move_away(file)
    assert not file.exists()
    with closing(sqlite3.connect(file)) as stranger:
        stranger.execute("create table other (id)")
    put_back()
    assert rows(file) == 50


def test_a_copy_in_its_place_is_another_file_with_the_same_rows(file: Path) -> None:
    with closing(sqlite3.connect(file)) as old:
        assert old.execute("select count(*) from alarms").fetchone() == (50,)
        before = file.stat().st_ino
        sqlite.replace_with_copy(file)
        assert file.stat().st_ino != before
        old.execute("insert into alarms (text) values ('to the old one')")
        old.commit()
        assert rows(file) == 50


def test_a_restore_goes_back_to_a_backup_that_was_made_while_others_wrote(file: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(file)) as busy:
        busy.execute("insert into alarms (text) values ('not committed yet')")
        sqlite.backup(file, tmp_path / "copy")
        busy.commit()
    assert rows(file) == 51
    sqlite.restore(file, tmp_path / "copy")
    assert rows(file) == 50


def test_a_fault_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="FileNotFoundError"):
        sqlite.backup(tmp_path / "none", tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []
