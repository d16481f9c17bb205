"""A process that lives with wakeful as users do, over HTTP, and writes down every answer, also those it never got.

python -m tests.faults.client URL FOLDER SEED RATE STREAM REPORTS: sets alarms until it is told to stop (SIGTERM), RATE
of them one by one and STREAM in batches, every second; changes some, and reports on some unless REPORTS is "no". Then
no more is set, and what was begun is ended. FOLDER/journal.jsonl holds what it knows.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from .profiles import STEADY
from .receivers import SLOW
from .records import Ack, Known, Notes, Verb

PATIENCE: Final = 5.0  # for one answer
POLICY: Final = {"backoff_base": 1, "backoff_cap": 2}
# What is said of a fire, one word after the other, and how often; what each is sent as.
REPORTS: Final = {
    ("completed",): 5,
    ("failed",): 2,
    ("snooze",): 1,
    ("working",): 1,
    ("working", "completed"): 1,
}
BODIES: Final[dict[str, dict[str, Any]]] = {
    "completed": {"outcome": "completed", "result": "done"},
    "failed": {"outcome": "failed", "reason": "it could not be done"},
    "snooze": {"outcome": "snooze", "for": "3s"},
    "working": {"outcome": "working", "for": "3h"},  # longer than any clock is set ahead
}
LASTS: Final = {"working": 3 * 3600.0}  # seconds
# A wait that late reports overrun. Silence is not told again: a second wake would be no fault then.
AWAITED: Final = POLICY | {"report_within": 3, "on_silence": "give_up"}
TAKES: Final = {"desk": 0.0, "steady": STEADY, "slow": SLOW}  # seconds, receivers whose wakes are reported on
REPORTED: Final = 0.15  # of a stream
FIRST_OF_KINDS: Final = 10_000_000  # numbers above are given by faults that set alarms of their own


def iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat()


def unix(text: str | None) -> float | None:
    return None if text is None else datetime.fromisoformat(text).timestamp()


def alarm_body(n: int, *, due: float, target: str = "honest", **more: Any) -> dict[str, Any]:
    # Twenty retries: a process without descriptors fails many a send, and that is no reason to give up.
    body = {"wake_message": f"n{n} v1", "fire_at": iso(due), "target": target, "policy": POLICY, "max_failures": 20}
    return body | more


def acknowledged(verb: Verb, n: int, sent: float, status: int, answer: Any, **more: Any) -> Ack:
    """What is known after an answer: 2xx is done, 4xx was refused, anything else may have happened or not."""
    known: Known = "ok" if 200 <= status < 300 else "refused" if 400 <= status < 500 else "unknown"
    told: dict[str, Any] = answer if isinstance(answer, dict) else {}
    if known == "ok" and verb == "cancel" and told.get("status") != "cancelled":
        known = "refused"  # it was over already: the answer says so, and nothing was promised
    if known == "ok":
        alarm = told.get("id", "") if verb != "report" else told.get("alarm_id", "")
        next_fire = unix(told.get("next_fire_at"))
        more |= {"alarm": alarm or more.get("alarm", ""), "in_flight": told.get("in_flight")}
        # Asked again under its key, it may have fired already: then it was due when it was asked for.
        if verb != "report":
            more["due"] = next_fire if next_fire is not None else more.get("due")
    said = "" if known == "ok" else f"{status} {told.get('detail', told.get('title', ''))}"[:300]
    return Ack(verb=verb, n=n, sent=sent, answered=time.time(), known=known, said=said, **more)


class Client:
    def __init__(self, url: str, folder: Path, seed: int, rate: float, stream: float, reports: bool) -> None:
        self.url, self.rate, self.stream, self.reports = url, rate, stream, reports
        self.random = random.Random(seed)
        self.notes = Notes(folder / "journal.jsonl")
        self.numbers = itertools.count(1)
        self.stopping = asyncio.Event()

    async def run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=PATIENCE)
        connector = aiohttp.TCPConnector(limit=200)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as self.session:
            async with asyncio.TaskGroup() as self.lives:
                self.lives.create_task(self.flow())
                while not self.stopping.is_set():
                    self.lives.create_task(self.live())
                    await self.sleep(self.random.expovariate(self.rate))

    async def sleep(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), seconds)

    async def live(self) -> None:
        """One alarm and what is done to it."""
        lives = {
            self.plain: 50,
            self.keyed: 12,
            self.edited: 8,
            self.moved: 6,
            self.cancelled: 10,
            self.paused: 4,
            self.snoozed: 3,
            self.series: 3,
            self.desk: 6,
            self.steady: 6,
            self.slow: 2,
            self.flaky: 4,
        }
        [life] = self.random.choices(list(lives), list(lives.values()))
        await life(next(self.numbers))

    # What is asked

    async def ask(self, verb: Verb, n: int, method: str, path: str, body: Any = None, **more: Any) -> Ack:
        sent = time.time()
        try:
            async with self.session.request(method, self.url + path, json=body) as response:
                answer = msgspec.json.decode(await response.read() or b"null")
                ack = acknowledged(verb, n, sent, response.status, answer, **more)
        except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError) as error:
            said = f"{type(error).__name__} {error}"[:300]
            ack = Ack(verb=verb, n=n, sent=sent, answered=time.time(), known="unknown", said=said, **more)
        self.notes.add(ack)
        return ack

    async def set(self, n: int, *, ahead: tuple[float, float] = (0.3, 7.0), due: float = 0.0, **more: Any) -> Ack:
        extra = {name: more.pop(name) for name in ("period", "ends") if name in more}
        due = due or time.time() + self.random.uniform(*ahead)
        body = alarm_body(n, due=due, **more)
        if extra:
            del body["fire_at"]
        key = body.get("idempotency_key", "")
        told = {"target": body["target"], "message": body["wake_message"], "key": key, "due": due}
        return await self.ask("create", n, "POST", "/v1/alarms", body, **told, **extra)

    async def change(self, verb: Verb, made: Ack, body: Any = None, **more: Any) -> Ack:
        path = f"/v1/alarms/{made.alarm}"
        method = {"edit": "PATCH", "cancel": "DELETE"}.get(verb, "POST")
        path += "" if verb in ("edit", "cancel") else f"/{verb}"
        return await self.ask(verb, made.n, method, path, body, **{"alarm": made.alarm} | more)

    # Lives

    async def plain(self, n: int) -> None:
        await self.set(n)

    async def keyed(self, n: int) -> None:
        """Asks again, under the same key, until it is told yes."""
        due = time.time() + self.random.uniform(0.3, 7.0)
        for _ in range(20):
            if (await self.set(n, due=due, idempotency_key=f"k{n}")).known != "unknown":
                return
            await self.sleep(0.5)

    async def edited(self, n: int) -> None:
        if (made := await self.set(n, ahead=(2.0, 7.0))).known == "ok":
            await self.sleep(self.random.uniform(0, 3))
            await self.change("edit", made, {"wake_message": f"n{n} v2"}, message=f"n{n} v2")

    async def moved(self, n: int) -> None:
        if (made := await self.set(n, ahead=(2.0, 5.0))).known == "ok":
            await self.sleep(self.random.uniform(0, 3))
            await self.change("edit", made, {"fire_at": iso(time.time() + self.random.uniform(1, 6))})

    async def cancelled(self, n: int) -> None:
        if (made := await self.set(n, ahead=(0.5, 4.0))).known == "ok":
            await asyncio.sleep(self.random.uniform(0, 4))
            await self.change("cancel", made)

    async def paused(self, n: int) -> None:
        if (made := await self.set(n, ahead=(1.0, 5.0))).known != "ok":
            return
        await self.sleep(self.random.uniform(0, 2))
        if (await self.change("pause", made)).known != "refused":
            await asyncio.sleep(self.random.uniform(0.5, 3))
            await self.change("resume", made)

    async def snoozed(self, n: int) -> None:
        if (made := await self.set(n, ahead=(2.0, 5.0))).known == "ok":
            await self.sleep(self.random.uniform(0, 1.5))
            await self.change("snooze", made, {"for": "4s"})

    async def series(self, n: int) -> None:
        ends = time.time() + self.random.uniform(6, 12)
        made = await self.set(n, cron_expr="@every 2s", policy=POLICY | {"ends_at": iso(ends)}, period=2.0, ends=ends)
        if made.known == "ok" and self.random.random() < 0.3:
            await asyncio.sleep(self.random.uniform(0, 6))
            await self.change("cancel", made)

    async def desk(self, n: int) -> None:
        await self.reported(n, "desk")

    async def steady(self, n: int) -> None:
        await self.reported(n, "steady")

    async def slow(self, n: int) -> None:
        await self.reported(n, "slow")

    async def flaky(self, n: int) -> None:
        await self.set(n, target="flaky")

    async def reported(self, n: int, target: str) -> None:
        if not self.reports:
            await self.set(n, target=target)
            return
        words = self.words()
        if (made := await self.set(n, target=target, **self.awaited(words))).known == "ok":
            await self.report(made, words)

    def words(self) -> tuple[str, ...]:
        [words] = self.random.choices(list(REPORTS), list(REPORTS.values()))
        return words

    def awaited(self, words: tuple[str, ...]) -> dict[str, Any]:
        """What an alarm that is reported on says besides; some failures have no retry left."""
        final = "failed" in words and self.random.random() < 0.5
        return {"policy": AWAITED, **({"max_failures": 0} if final else {})}

    async def report(self, made: Ack, words: tuple[str, ...]) -> None:
        """While the wake is under way, just as its attempt is settled, or late; again until there is an answer."""
        due, takes = made.due or 0.0, TAKES[made.target]
        when = self.random.choice([(0.1, takes), (takes - 0.02, takes + 0.05), (takes + 3, takes + 5)])
        await self.sleep(due + self.random.uniform(*when) - time.time())
        for word in words:
            for _ in range(15):
                said = await self.report_once(made, word)
                if said.known == "ok" or (said.known == "refused" and not said.said.startswith("404")):
                    break  # 404: it has not fired yet
                await self.sleep(1)
                if self.stopping.is_set():
                    return
            await self.sleep(self.random.uniform(0, 2))

    async def report_once(self, made: Ack, word: str) -> Ack:
        fire = f"{made.alarm}@{round((made.due or 0.0) * 1000)}"
        more = {"fire": fire, "alarm": made.alarm, "outcome": word, "lasts": LASTS.get(word)}
        return await self.ask("report", made.n, "POST", f"/v1/fires/{fire}/report", BODIES[word], **more)

    # The stream

    async def flow(self) -> None:
        """So many alarms every second, in ten batches, whatever becomes of the answers."""
        begun, made = time.monotonic(), 0
        while self.stream and not self.stopping.is_set():
            await self.sleep(0.1)
            count = min(1000, int((time.monotonic() - begun) * self.stream) - made)
            self.lives.create_task(self.batch(count))
            made += count

    async def batch(self, count: int) -> None:
        if count < 1:
            return
        sent = time.time()
        given: list[tuple[int, float, tuple[str, ...]]] = []
        for n in itertools.islice(self.numbers, count):
            words = self.words() if self.reports and self.random.random() < REPORTED else ()
            given.append((n, sent + self.random.uniform(1.0, 5.0), words))
        bodies = [
            alarm_body(n, due=due, target="steady", **(self.awaited(words) if words else {})) for n, due, words in given
        ]
        status, results = 599, list[dict[str, Any]]([{}] * count)
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError):
            async with self.session.post(self.url + "/v1/alarms/batch", json={"alarms": bodies}) as response:
                answer = msgspec.json.decode(await response.read() or b"null")
                status, results = response.status, answer.get("results", results)
        for (n, due, words), result in zip(given, results, strict=True):
            more = {"target": "steady", "message": f"n{n} v1", "due": due}
            ack = acknowledged("create", n, sent, result.get("status", status), result.get("alarm"), **more)
            self.notes.add(ack)
            if words and ack.known == "ok":
                self.lives.create_task(self.report(ack, words))


async def main(url: str, folder: str, seed: str, rate: str, stream: str, reports: str) -> None:
    client = Client(url, Path(folder), int(seed), float(rate), float(stream), reports != "no")
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, client.stopping.set)
    await client.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:7]))
