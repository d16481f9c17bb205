"""Metrics: counted in plain numbers where things happen, exported in Prometheus's format on request.

Where thousands a second pass, what happened is only noted down, to be counted many at a time. Nothing takes a lock:
everything that counts runs on the event loop. The library that writes the exposition is imported with the first scrape.
No label ever names an owner, an alarm or a path as it came.
"""

from __future__ import annotations

import platform
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate, product
from typing import TYPE_CHECKING, Final, Protocol, get_args

from wakeful.model.alarm import FailReason, Interface, SkipReason

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import HistogramMetricFamily
    from prometheus_client.metrics_core import Metric

_LATE: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)
_LONG: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900)
_SHORT: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
# Only these words become labels: others could come from whoever sends a request, and never end.
_REASONS: Final = frozenset({"", "late", *get_args(SkipReason), *get_args(FailReason)})
_INTERFACES: Final = frozenset(get_args(Interface))
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_BUDGET_SCOPES: Final = ("owner", "alarm", "chain", "rewake", "agent")
_BUDGET_ACTIONS: Final = ("deferred", "skipped")

# name → its labels and what it says; docs/metrics.md has the same list.
COUNTERS: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "wakeful_fires_total": (("status", "reason"), "Fires by the status they reached"),
    "wakeful_deliveries_total": (("target", "outcome"), "Finished delivery attempts"),
    "wakeful_claims_total": ((), "Alarms leased"),
    "wakeful_leases_expired_total": ((), "Alarms leased again after a lease that was never settled"),
    "wakeful_leases_ahead_total": (
        (),
        "Alarms leased again, as their lease was in the future (a clock was set back)",
    ),
    "wakeful_clock_jumps_total": ((), "Times the store's clock moved by more than a second"),
    "wakeful_creates_total": (("via",), "Alarms created"),
    "wakeful_over_budget_total": (("scope", "action"), "Wakes not sent, as a budget was used up: deferred or skipped"),
    "wakeful_signalled_total": (
        ("action",),
        "Alarms that a signal cancelled, skipped a fire of, moved, or fired at once",
    ),
    "wakeful_checks_total": (("found",), "Looks at the checks of alarms with `only_if`, by what they found"),
    "wakeful_rezoned_total": ((), "Alarms planned again, as the rules of their time zone changed"),
    "wakeful_store_errors_total": ((), "Times the dispatcher or a probe could not reach the store"),
    "wakeful_http_requests_total": (("route", "method", "status"), "HTTP requests answered"),
}
HISTOGRAMS: Final[dict[str, tuple[tuple[str, ...], str, Sequence[float]]]] = {
    "wakeful_lateness_seconds": ((), "Seconds from the due time to the start of the first attempt", _LATE),
    "wakeful_delivery_seconds": (("target",), "Duration of delivery attempts in seconds", _LONG),
    "wakeful_settle_seconds": ((), "Duration of writing a batch of settlements in seconds", _SHORT),
    "wakeful_http_seconds": (("route",), "Duration of HTTP requests in seconds", _SHORT),
}
GAUGES: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "wakeful_due_backlog": (("target",), "Alarms that are due and not leased, at most 10000"),
    "wakeful_due_oldest_seconds": (("target",), "Seconds for which the oldest of them has been due"),
    "wakeful_inflight": ((), "Alarms this process has leased and not settled"),
    "wakeful_breaker_open": (("target",), "1 while this process sends to the target only as a probe"),
    "wakeful_owners_held": (
        ("target",),
        "Owners whose wakes to the target are held back, as it answers them with errors",
    ),
    "wakeful_build_info": (("version", "python", "store"), "1"),
}


class Ended(Protocol):
    """What is looked at of a fire."""

    @property
    def scheduled_for(self) -> datetime: ...
    @property
    def status(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def count(self) -> int: ...


class Histogram:
    __slots__ = ("_bounds", "_counts", "_lengths", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._lengths = [timedelta(seconds=bound) for bound in bounds]
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def observe_all(self, values: list[timedelta]) -> None:
        """Many at once: sorted, a bucket is found by its ends, not value by value. The list is left empty."""
        values.sort()
        passed = 0
        for index, bound in enumerate(self._lengths):
            here = bisect_right(values, bound, passed)
            self._counts[index] += here - passed
            passed = here
        self._counts[-1] += len(values) - passed
        self._sum += sum(values, timedelta(0)).total_seconds()
        values.clear()

    def tell(self, family: HistogramMetricFamily, labels: Sequence[str]) -> None:
        names = [*map(str, map(float, self._bounds)), "+Inf"]
        family.add_metric(labels, list(zip(names, accumulate(self._counts), strict=True)), self._sum)


class Metrics:
    """The counters of one process, as far as it has a clock of its own."""

    def __init__(self, *, version: str = "", store: str = "") -> None:
        self._counts: dict[str, Counter[tuple[str, ...]]] = {name: Counter() for name in COUNTERS}
        self._histograms: dict[str, defaultdict[tuple[str, ...], Histogram]] = {
            name: defaultdict(lambda bounds=bounds: Histogram(bounds))  # type: ignore[misc]  # bound at once
            for name, (_, _, bounds) in HISTOGRAMS.items()
        }
        self._gauges: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in GAUGES}
        self._gauges["wakeful_build_info"] = {(version, platform.python_version(), store): 1.0}
        for name, (labels, _) in COUNTERS.items():
            if not labels:
                self._counts[name][()] = 0  # there from the start: a rate needs two points
        # The same where all labels are known, so that the first wake over a budget is seen as an increase.
        self._counts["wakeful_over_budget_total"].update(dict.fromkeys(product(_BUDGET_SCOPES, _BUDGET_ACTIONS), 0))
        self._registry: CollectorRegistry | None = None
        # Found once, for where thousands a second pass.
        self._fires = self._counts["wakeful_fires_total"]
        self._requests = self._counts["wakeful_http_requests_total"]
        self._answers = self._histograms["wakeful_http_seconds"]
        self._settles = self._histograms["wakeful_settle_seconds"][()]
        self._late: list[timedelta] = []
        self._took: dict[tuple[str, str], list[timedelta]] = {}
        self.late: Final = self._late.append  # note how long after its due moment a first attempt began

    # What happens

    def claimed(self, unsettled: Sequence[int], *, ahead: bool = False) -> None:
        """A claim brought alarms; of each, how often it was leased without an end. `ahead`: one from the future."""
        self._count_notes()  # so that they never become many
        self._counts["wakeful_claims_total"][()] += len(unsettled)
        self._counts["wakeful_leases_expired_total"][()] += sum(1 for times in unsettled if times > 1)
        self._counts["wakeful_leases_ahead_total"][()] += ahead

    def took(self, target: str, outcome: str) -> Callable[[timedelta], None]:
        """Where to note how long an attempt took that ended so. Keep it: it stays the same."""
        return self._took.setdefault((target, outcome), []).append

    def _count_notes(self) -> None:
        if self._late:
            self._histograms["wakeful_lateness_seconds"][()].observe_all(self._late)
        for (target, outcome), lengths in self._took.items():
            if lengths:
                self._counts["wakeful_deliveries_total"][target, outcome] += len(lengths)
                self._histograms["wakeful_delivery_seconds"][target,].observe_all(lengths)

    def settled(self, seconds: float) -> None:
        self._settles.observe(seconds)

    def fires(self, before: Ended | None, after: Iterable[Ended]) -> None:
        """Fires as they were written. One that stands as it stood before is not counted again; nor is a retry."""
        for fire in after:
            if before is not None and fire.scheduled_for == before.scheduled_for and fire.status == before.status:
                continue
            self.ended(fire.status, fire.reason, fire.count)

    def ended(self, status: str, reason: str, count: int) -> None:
        """So many fires came to a status."""
        if status != "retrying":
            self._fires[status, reason if reason in _REASONS else "other"] += count

    def created(self, via: str, count: int = 1) -> None:
        if count:
            self._counts["wakeful_creates_total"][via if via in _INTERFACES else "other",] += count

    def signalled(self, **counts: int) -> None:
        for action, count in counts.items():
            if count:
                self._counts["wakeful_signalled_total"][action,] += count

    def checked(self, found: str) -> None:
        self._counts["wakeful_checks_total"][found,] += 1

    def over_budget(self, scope: str, action: str) -> None:
        self._counts["wakeful_over_budget_total"][scope, action] += 1

    def clock_jumped(self) -> None:
        self._counts["wakeful_clock_jumps_total"][()] += 1

    def rezoned(self, count: int) -> None:
        self._counts["wakeful_rezoned_total"][()] += count

    def store_failed(self) -> None:
        self._counts["wakeful_store_errors_total"][()] += 1

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        self._requests[route, method if method in _METHODS else "other", str(status)] += 1
        self._answers[route,].observe(seconds)

    # What stands just now: said by whoever is about to ask

    def backlog(self, due: Mapping[str, tuple[int, datetime]], targets: Iterable[str], *, now: datetime) -> None:
        """What is due and since when; the targets that have nothing due stand at 0."""
        counts: dict[tuple[str, ...], float] = {(target,): 0.0 for target in targets}
        ages = dict(counts)
        for target, (count, oldest) in due.items():
            counts[target,], ages[target,] = count, max(0.0, (now - oldest).total_seconds())
        self._gauges["wakeful_due_backlog"], self._gauges["wakeful_due_oldest_seconds"] = counts, ages

    def backlog_unknown(self) -> None:
        """The store did not say: an old number would be worse than none."""
        self._gauges["wakeful_due_backlog"] = {}
        self._gauges["wakeful_due_oldest_seconds"] = {}

    def dispatching(
        self, in_flight: int, open_breakers: Mapping[str, bool], owners_held: Mapping[str, int] = {}
    ) -> None:
        self._gauges["wakeful_inflight"] = {(): float(in_flight)}
        self._gauges["wakeful_breaker_open"] = {(target,): float(is_open) for target, is_open in open_breakers.items()}
        self._gauges["wakeful_owners_held"] = {(target,): float(owners_held.get(target, 0)) for target in open_breakers}

    # The exposition

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """Everything as text, and which kind of text that is."""
        from prometheus_client import CollectorRegistry, ProcessCollector
        from prometheus_client.exposition import choose_encoder

        self._count_notes()
        if self._registry is None:
            self._registry = CollectorRegistry()
            self._registry.register(self)
            ProcessCollector(registry=self._registry)
        encode, kind = choose_encoder(accept)
        return encode(self._registry), kind

    def describe(self) -> Iterator[Metric]:
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        for name, (labels, says) in COUNTERS.items():
            counter = CounterMetricFamily(name, says, labels=labels)
            for values, count in self._counts[name].items():
                counter.add_metric(values, count)
            yield counter
        for name, (labels, says, _) in HISTOGRAMS.items():
            histogram = HistogramMetricFamily(name, says, labels=labels)
            for values, told in self._histograms[name].items():
                told.tell(histogram, values)
            yield histogram
        for name, (labels, says) in GAUGES.items():
            gauge = GaugeMetricFamily(name, says, labels=labels)
            for values, value in self._gauges[name].items():
                gauge.add_metric(values, value)
            yield gauge
