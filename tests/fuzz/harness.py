"""Inputs for one parser until its time is over: which one broke it, and which one took it longest.

What wakeful refuses on purpose is fine. Anything else that comes out is not, and neither is an input that takes long.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import HypothesisWarning
from hypothesis.strategies import SearchStrategy
from msgspec import Struct

from wakeful.errors import WakefulError

SLOW: Final = 0.050  # seconds of CPU that no input may take
ROUND: Final = 100  # inputs before everything is made anew: what many of them leave behind must not slow the next
TRIES: Final = 5  # of the slowest: other processes cost CPU too, and the least of a few measurements says what is ours
WORTH: Final = 0.005  # seconds from which on that is done

Parse = Callable[[Any], Awaitable[None]]
Open = Callable[[], AbstractAsyncContextManager[Parse]]


class Broke(AssertionError):
    """What came out is neither an answer nor a refusal."""


class Parser(Struct, frozen=True):
    """Something that reads what others wrote. `open`: what reads it, good for a round.

    `by_callback`: an input may take longer in all, since it lets others through in between: what counts is how long it
    holds the event loop at once.
    """

    name: str
    inputs: SearchStrategy[Any]
    open: Open
    by_callback: bool = False


class Finding(Struct):
    """What became of a parser's inputs."""

    name: str
    inputs: int = 0
    taken: int = 0  # those that were not refused: a fuzzer whose inputs are all refused tries little
    slowest: float = 0.0  # seconds of CPU
    worst: Any = None  # the input that took so long
    broke: str = ""
    first: Any = None  # the input that broke it
    culprit: Any = None  # the same made as small as it goes: what the ones before left behind may mislead here
    seed: int = 0  # of the round it was met in
    worth: float = WORTH  # seconds from which on it is measured again

    @property
    def is_slow(self) -> bool:
        return self.slowest > SLOW

    @property
    def is_bad(self) -> bool:
        return bool(self.broke) or self.is_slow


def pure(read: Callable[[Any], object]) -> Open:
    """A parser that is a plain function."""

    @asynccontextmanager
    async def open() -> Any:
        async def parse(value: Any) -> None:
            read(value)

        yield parse

    return open


def fuzz(parser: Parser, *, seconds: float, start: int) -> Finding:
    """Rounds of inputs until the time is over; the first input that breaks the parser ends it."""
    finding = Finding(parser.name, worth=SLOW / 2 if parser.by_callback else WORTH)
    until = time.monotonic() + seconds
    number = start
    while not finding.broke and (not finding.inputs or time.monotonic() < until):
        with asyncio.Runner() as runner, alarms() as heard, warnings.catch_warnings(), _tidy():
            warnings.simplefilter("ignore", HypothesisWarning)  # how long the description of a strategy is
            _round(parser, finding, runner, heard, number, until)
        number += 1
    return finding


def _round(
    parser: Parser, finding: Finding, runner: asyncio.Runner, heard: list[str], number: int, until: float
) -> None:
    opened = parser.open()
    parse = runner.run(opened.__aenter__())

    def took(value: Any) -> tuple[float, bool]:
        with _longest_callback() if parser.by_callback else _whole() as measured:
            is_taken = runner.run(_is_taken(parse, value))
        spent = measured()
        if heard:
            raise Broke(heard.pop())
        return spent, is_taken

    def one(value: Any) -> None:
        if time.monotonic() > until and finding.inputs and not finding.broke:
            return
        finding.inputs += 1
        try:
            _note(finding, value, took)
        except Exception as error:
            finding.first = finding.first if finding.broke else value
            finding.broke, finding.culprit, finding.seed = f"{type(error).__name__}: {error}", value, number
            raise

    try:
        _many(parser.inputs, one, number)
    except Exception:
        if not finding.broke:
            raise  # a mistake of the harness's own
    finally:
        runner.run(opened.__aexit__(None, None, None))


@contextmanager
def _whole() -> Iterator[Callable[[], float]]:
    """The CPU time of all that is done."""
    begun = time.process_time()
    yield lambda: time.process_time() - begun


@contextmanager
def _longest_callback() -> Iterator[Callable[[], float]]:
    """The CPU time of the callback of the event loop that used the most."""
    longest = 0.0
    handles: Any = asyncio.Handle
    run = handles._run

    def measured(handle: Any) -> None:
        nonlocal longest
        begun = time.thread_time()
        try:
            run(handle)
        finally:
            longest = max(longest, time.thread_time() - begun)

    handles._run = measured
    try:
        yield lambda: longest
    finally:
        handles._run = run


def _many(inputs: SearchStrategy[Any], one: Callable[[Any], None], number: int) -> None:
    how = settings(
        max_examples=ROUND,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )

    def each(value: Any) -> None:
        one(value)

    seed(number)(how(given(inputs)(each)))()


async def _is_taken(parse: Parse, value: Any) -> bool:
    try:
        await parse(value)
    except WakefulError:
        return False
    return True


def _note(finding: Finding, value: Any, took: Callable[[Any], tuple[float, bool]]) -> None:
    """Count it, and note the slowest. What seems slow is measured again: another process may have been in the way."""
    (spent, is_taken), tries = took(value), 1
    finding.taken += is_taken
    while spent > max(finding.worth, finding.slowest) and tries < TRIES:
        spent, tries = min(spent, took(value)[0]), tries + 1
    if spent > finding.slowest:
        finding.slowest, finding.worst = spent, value


@contextmanager
def _tidy() -> Iterator[None]:
    """Rubbish is taken out before and not in between: looking for it takes longer than most inputs do."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def alarms() -> Iterator[list[str]]:
    """Errors that somebody caught and only logged: they are bugs all the same."""
    heard: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info or record.levelno >= logging.ERROR:
                what = record.exc_info[1] if record.exc_info else ""
                heard.append(f"{record.name} logged: {record.getMessage()} {what!r}")

    ear = Ear()
    names = ("wakeful", "asyncio", "mcp", "starlette")
    kept = [(logger := logging.getLogger(name), logger.propagate, logger.level) for name in names]
    for logger, _, _ in kept:
        logger.addHandler(ear)
        logger.propagate = False
    try:
        yield heard
    finally:
        for logger, propagate, level in kept:
            logger.removeHandler(ear)
            logger.propagate = propagate
            logger.setLevel(level)
