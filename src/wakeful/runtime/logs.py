"""Logging as text or JSON, without secrets.

Every record, ours or a library's, passes the filter here: its message, its exception and its fields. What an
alarm says (wake message, payload) is not logged at all; a line names alarms by id. A flood of one line is summed up.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar
from copy import copy
from datetime import UTC, datetime
from typing import IO, Any, Final
from urllib.parse import urlsplit

import msgspec

from wakeful.clock import stopwatch

FORMATS: Final = ("text", "json")
# The fields a line may carry beside its message; anything else stays out.
FIELDS: Final = (
    "alarm_id",
    "fire_id",
    "target",
    "attempt",
    "outcome",
    "reason",
    "ms",
    "method",
    "route",
    "status",
    "trace_id",
)
HIDDEN: Final = "[hidden]"
trace_id: ContextVar[str] = ContextVar("trace_id", default="")  # of the attempt under way in this task
FIRST: Final = 20  # lines alike that are written in a span; the others are counted
SPAN: Final = 10.0  # seconds
_KINDS: Final = 200  # of lines told apart in a span
_SHORTEST: Final = 6  # of a value that is blotted out wherever it stands; less would blot out half the language
_PATTERNS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"\b(bearer|basic)(\s+|%20)[^\s\"',;]+", re.IGNORECASE), rf"\1 {HIDDEN}"),
    (re.compile(r"wk_[A-Za-z0-9][A-Za-z0-9_-]*"), f"wk_{HIDDEN}"),
    (re.compile(r"whsec_[A-Za-z0-9+/=_-]+"), f"whsec_{HIDDEN}"),
    (
        re.compile(
            r"((?:password|passwd|pwd|secret|token|api_?key|authorization)[\"']?\s*[=:]\s*[\"']?)"
            r"(?!\[hidden|bearer\b|basic\b)[^\s&\"',;)}\]]+",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"(?<![0-9a-fA-F])[0-9a-f]{64}(?![0-9a-fA-F])"), HIDDEN),  # a report token
)


_WORD: Final = re.compile(r"[^\s\"'<>]+")
_SCHEME: Final = re.compile(r"\b[a-zA-Z][a-zA-Z0-9+.-]{0,20}://")


def _without_password(word: re.Match[str]) -> str:
    """Remove the password from a URL, up to the last @ of its word, since passwords contain @ and / too."""
    text = word[0]
    at = text.rfind("@")
    scheme = _SCHEME.search(text, 0, at) if at >= 0 else None
    return text if scheme is None else f"{text[: scheme.end()]}{HIDDEN}{text[at:]}"


def redacted(text: str, hide: Iterable[str] = ()) -> str:
    """Return the text without anything that looks like a secret, and without the given values."""
    for value in hide:
        if len(value) >= _SHORTEST:
            text = text.replace(value, HIDDEN)
    if "://" in text and "@" in text:
        text = _WORD.sub(_without_password, text)
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text


class Redacting(logging.Filter):
    """Rewrites every record: no secrets, no line breaks in a message, and the trace it belongs to.

    A record may bring values that must not appear in it: `extra={"hide": (…)}`.
    """

    def __init__(self, hide: Iterable[str] = ()) -> None:
        super().__init__()
        self._hide = tuple(sorted(set(hide), key=len, reverse=True))

    def filter(self, record: logging.LogRecord) -> bool:
        hide = (*self._hide, *getattr(record, "hide", ()))
        record.msg, record.args = printable(redacted(_message(record), hide)), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = _PLAIN.formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = _writable(redacted(record.exc_text, hide))
        if record.stack_info:
            record.stack_info = _writable(redacted(record.stack_info, hide))
        if (trace := trace_id.get()) and not hasattr(record, "trace_id"):
            record.trace_id = trace
        for name in FIELDS:
            value = record.__dict__.get(name)
            if isinstance(value, str):
                record.__dict__[name] = printable(redacted(value, hide))
        return True


class TextFormatter(logging.Formatter):
    """Time, level, logger, message, then the fields as name=value."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        return super().formatMessage(record) + fields


class Json(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:-6] + "Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            line["exception"] = record.exc_text
        if record.stack_info:
            line["stack"] = record.stack_info
        return msgspec.json.encode(line, enc_hook=str).decode()


_NUMBERS: Final = re.compile(r"0x[0-9a-f]+|\d+")  # others' messages come with them filled in
_HEAD: Final = 300  # characters of a message that tell kinds apart
Kind = tuple[str, int, str, str]


class Summing(logging.StreamHandler[IO[str]]):
    """Writes the first similar lines, then how many more there were: a flood must not fill the disk.

    Alike: logger, level, target, and the words before anything is filled in, whatever numbers are among them. The sum
    always comes: when the span is over, or when the log is closed. What is logged for finding a bug (debug) is written
    as it is.
    """

    def __init__(self, stream: IO[str], *, span: float = SPAN, watch: Callable[[], float] = stopwatch) -> None:
        super().__init__(stream)
        self._span = span
        self._watch = watch
        self._began = watch()
        self._seen: dict[Kind, int] = {}
        self._held: dict[Kind, logging.LogRecord] = {}  # the first of each kind that was not written
        self._counting = threading.Lock()
        self._timer: threading.Timer | None = None

    def handle(self, record: logging.LogRecord) -> bool:
        if record.levelno <= logging.DEBUG:
            return bool(super().handle(record))
        if self._watch() - self._began >= self._span:
            self.sum_up()
        if not self._is_first(record):
            return False
        return bool(super().handle(record))

    def sum_up(self) -> None:
        """Log how many lines were held back, and start counting again."""
        with self._counting:
            lasted, self._began = self._watch() - self._began, self._watch()
            seen, self._seen = self._seen, {}
            held, self._held = self._held, {}
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        for kind, record in held.items():
            super().handle(_summed(record, seen[kind] - FIRST, lasted))

    def close(self) -> None:
        self.sum_up()
        super().close()

    def _is_first(self, record: logging.LogRecord) -> bool:
        target = str(record.__dict__.get("target", ""))
        kind: Kind = (record.name, record.levelno, _NUMBERS.sub("#", str(record.msg)[:_HEAD]), target)
        with self._counting:
            if kind not in self._seen and len(self._seen) >= _KINDS:
                kind = (record.name, record.levelno, "", "")
            seen = self._seen[kind] = self._seen.get(kind, 0) + 1
            if seen == FIRST + 1:
                self._hold(kind, record)
        return seen <= FIRST

    def _hold(self, kind: Kind, record: logging.LogRecord) -> None:
        held = self._held[kind] = copy(record)
        held.exc_info = held.exc_text = held.stack_info = None  # else it would keep what they point to
        if self._timer is None:
            self._timer = threading.Timer(self._span, self.sum_up)
            self._timer.daemon = True
            with suppress(RuntimeError):  # no thread to be had: the next line, or the end, brings the sum
                self._timer.start()


def _summed(record: logging.LogRecord, count: int, seconds: float) -> logging.LogRecord:
    record.msg, record.args = f"{_message(record)} … and {count:,} more like this within {max(1, round(seconds))} s", ()
    return record


_PLAIN: Final = logging.Formatter()


def log_to_stderr(
    level: str, format: str = "text", *, hide: Iterable[str] = (), stream: IO[str] | None = None
) -> logging.Handler:
    """Log to stderr. Libraries log from info up only: their debug lines quote requests and answers."""
    handler = Summing(stream or sys.stderr)
    handler.setFormatter(Json() if format == "json" else TextFormatter())
    handler.addFilter(Redacting(hide))
    asked = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(level=max(asked, logging.INFO), handlers=[handler], force=True)
    logging.getLogger("wakeful").setLevel(asked)
    return handler


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # a wrong number of arguments: the line is worth more than the mistake
        return str(record.msg)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name in FIELDS if (value := record.__dict__.get(name)) not in (None, "")}


def _writable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()  # a lone surrogate is not text


def printable(text: str) -> str:
    """Return the text on one line, with unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else _escaped(sign) for sign in text)


def _escaped(sign: str) -> str:
    """Escape a character. Python's own codec is loaded at its first use, which fails when descriptors have run out."""
    code = ord(sign)
    if code < 0x100:
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(sign) or f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shown(db: str) -> str:
    """A database for people to read: never with a password."""
    if "://" not in db:
        return db
    parts = urlsplit(db)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
