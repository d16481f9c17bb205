"""Write the Grafana dashboard and the Prometheus rules from the metrics there are: `python deploy/monitoring.py`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

from wakeful.runtime.metrics import COUNTERS, GAUGES, HISTOGRAMS

HERE: Final = Path(__file__).parent
DASHBOARD: Final = HERE / "grafana" / "wakeful.json"
RULES: Final = HERE / "prometheus" / "wakeful.rules.yaml"

# title, unit, what is drawn: (expression, legend)
PANELS: Final[list[tuple[str, str, list[tuple[str, str]]]]] = [
    (
        "Lateness of first attempts",
        "s",
        [
            (f"histogram_quantile({q}, sum by (le) (rate(wakeful_lateness_seconds_bucket[5m])))", f"p{name}")
            for q, name in ((0.5, "50"), (0.95, "95"), (0.99, "99"))
        ],
    ),
    ("Fires by status", "ops", [("sum by (status) (rate(wakeful_fires_total[5m]))", "{{status}}")]),
    (
        "Failed and skipped, by reason",
        "ops",
        [
            (
                'sum by (status, reason) (rate(wakeful_fires_total{status=~"failed|timed_out|skipped"}[5m]))',
                "{{status}} {{reason}}",
            )
        ],
    ),
    (
        "Wakes over a budget",
        "short",
        [
            (
                "sum by (scope, action) (increase(wakeful_over_budget_total[5m]))",
                "{{scope}} {{action}}",
            )
        ],
    ),
    (
        "Signals and checks",
        "short",
        [
            ("sum by (action) (increase(wakeful_signalled_total[5m]))", "signal: {{action}}"),
            ("sum by (found) (increase(wakeful_checks_total[5m]))", "check: {{found}}"),
        ],
    ),
    ("Due and in nobody's hands", "short", [("max by (target) (wakeful_due_backlog)", "{{target}}")]),
    ("Oldest of them", "s", [("max by (target) (wakeful_due_oldest_seconds)", "{{target}}")]),
    (
        "Deliveries by target and outcome",
        "ops",
        [("sum by (target, outcome) (rate(wakeful_deliveries_total[5m]))", "{{target}} {{outcome}}")],
    ),
    (
        "How long deliveries take, p95",
        "s",
        [
            (
                "histogram_quantile(0.95, sum by (le, target) (rate(wakeful_delivery_seconds_bucket[5m])))",
                "{{target}}",
            )
        ],
    ),
    ("In flight", "short", [("sum by (instance) (wakeful_inflight)", "{{instance}}")]),
    (
        "Targets that are down, owners held back",
        "short",
        [
            ("max by (target) (wakeful_breaker_open)", "{{target}} down"),
            ("max by (target) (wakeful_owners_held)", "{{target}} owners held"),
        ],
    ),
    ("Alarms set", "ops", [("sum by (via) (rate(wakeful_creates_total[5m]))", "{{via}}")]),
    (
        "Claims, and leases that were never settled",
        "ops",
        [
            ("sum(rate(wakeful_claims_total[5m]))", "claims"),
            ("sum(rate(wakeful_leases_expired_total[5m]))", "taken over"),
            ("sum(rate(wakeful_leases_ahead_total[5m]))", "from the future"),
        ],
    ),
    (
        "Writing settlements, p99",
        "s",
        [("histogram_quantile(0.99, sum by (le) (rate(wakeful_settle_seconds_bucket[5m])))", "p99")],
    ),
    (
        "The world",
        "short",
        [
            ("sum(increase(wakeful_store_errors_total[5m]))", "store away"),
            ("sum(increase(wakeful_clock_jumps_total[5m]))", "clock jumped"),
            ("sum(increase(wakeful_rezoned_total[5m]))", "planned again by new time zone rules"),
        ],
    ),
    (
        "HTTP requests",
        "reqps",
        [("sum by (status) (rate(wakeful_http_requests_total[5m]))", "{{status}}")],
    ),
    (
        "HTTP, p95 by route",
        "s",
        [
            (
                "histogram_quantile(0.95, sum by (le, route) "
                '(rate(wakeful_http_seconds_bucket{route!~"/v1/(inbox|events)"}[5m])))',
                "{{route}}",
            )
        ],
    ),
    (
        "Versions",
        "short",
        [("count by (version, store) (wakeful_build_info)", "{{version}} on {{store}}")],
    ),
]

# name, expression, for, severity, summary, what to do
ALERTS: Final[list[tuple[str, str, str, str, str, str]]] = [
    (
        "WakefulAlarmsLate",
        'sum(rate(wakeful_lateness_seconds_bucket{le="1.0"}[10m]))'
        " / sum(rate(wakeful_lateness_seconds_count[10m])) < 0.99",
        "10m",
        "warning",
        "More than 1 % of first attempts begin later than a second after they are due",
        "Look at the CPU of the workers and at wakeful_settle_seconds; add a worker on PostgreSQL.",
    ),
    (
        "WakefulAlarmsNotFiring",
        "max by (target) (wakeful_due_oldest_seconds) > 60",
        "2m",
        "critical",
        "Alarms for {{ $labels.target }} have been due for {{ $value | humanizeDuration }} and nobody delivers them",
        "`wakeful doctor` and `wakeful target ls` say whether a dispatcher runs and whether the target is paused.",
    ),
    (
        "WakefulTargetDown",
        "max by (target) (wakeful_breaker_open) == 1",
        "5m",
        "warning",
        "{{ $labels.target }} cannot be reached; its alarms wait and keep their retries",
        "Repair the receiver; `wakeful failed` shows what it answered last.",
    ),
    (
        "WakefulFiresFail",
        'sum(rate(wakeful_fires_total{status=~"failed|timed_out"}[15m]))'
        ' / sum(rate(wakeful_fires_total{status!="skipped"}[15m])) > 0.1',
        "15m",
        "warning",
        "More than a tenth of all fires fail",
        "`wakeful failed` lists them; `wakeful retry --failed` opens them again once the cause is gone.",
    ),
    (
        "WakefulWorkerDied",
        "sum(increase(wakeful_leases_expired_total[1h])) > 0",
        "0m",
        "info",
        "A worker died or lost its database with alarms in its hands; others have taken them over",
        "Look for its end in the logs: memory, a deployment, the machine.",
    ),
    (
        "WakefulStoreAway",
        "sum(increase(wakeful_store_errors_total[5m])) > 0",
        "5m",
        "critical",
        "The database was away again and again for five minutes: nothing fires meanwhile",
        "Bring it back; what fell due is made up for.",
    ),
    (
        "WakefulClockJumped",
        "sum(increase(wakeful_clock_jumps_total[15m])) > 0",
        "0m",
        "warning",
        "The clock that says what is due has jumped by more than a second",
        "Let NTP slew instead of step; look at `wakeful history` around the jump.",
    ),
]


def names_in(expression: str) -> set[str]:
    """The metrics an expression reads, as they are declared."""
    found = set(re.findall(r"\bwakeful_[a-z_]+", expression))
    return {re.sub(r"_(bucket|count|sum)$", "", name) if name not in COUNTERS else name for name in found}


def known() -> set[str]:
    return {*COUNTERS, *HISTOGRAMS, *GAUGES}


def dashboard() -> str:
    panels = [_panel(number, *panel) for number, panel in enumerate(PANELS)]
    source = {"type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus"}
    document = {
        "title": "wakeful",
        "uid": "wakeful",
        "tags": ["wakeful"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [source]},
        "panels": panels,
    }
    return json.dumps(document, indent=2) + "\n"


def _panel(number: int, title: str, unit: str, drawn: list[tuple[str, str]]) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "id": number + 1,
        "title": title,
        "type": "timeseries",
        "datasource": source,
        "gridPos": {"h": 8, "w": 8, "x": number % 3 * 8, "y": number // 3 * 8},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": {"fillOpacity": 8}}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": source, "expr": expression, "legendFormat": legend}
            for index, (expression, legend) in enumerate(drawn)
        ],
    }


def rules() -> str:
    lines = [
        "# Written by deploy/monitoring.py from the metrics there are.",
        "groups:",
        "  - name: wakeful",
        "    rules:",
    ]
    for name, expression, wait, severity, summary, action in ALERTS:
        lines += [
            f"      - alert: {name}",
            f"        expr: {json.dumps(expression)}",
            f"        for: {wait}",
            f"        labels: {{severity: {severity}}}",
            "        annotations:",
            f"          summary: {json.dumps(summary)}",
            f"          description: {json.dumps(action)}",
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    DASHBOARD.write_text(dashboard())
    RULES.write_text(rules())
