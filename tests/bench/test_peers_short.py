"""The comparison with peers cannot rot: wakeful and the bare loop are measured as in a whole run, with tiny counts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import psutil
import pytest
from bench.peers.command import Report, main, told
from bench.peers.contestants import BY_NAME, PEERS, Contestant
from bench.peers.drivers import measuring
from bench.peers.drivers.wakeful import each_woken_once
from bench.peers.drivers.worker_process import Handled
from bench.peers.figures import Figures, Run
from bench.peers.goals import GOALS, verdicts
from bench.peers.installing import DRIVERS, NotInstalled, installed, pins
from bench.peers.places import Places
from bench.peers.plan import SHORT, Measure
from bench.peers.running import run_all
from bench.peers.stopping import Stop

ROOT = Path(__file__).parents[2]
MACHINE = {
    "cores": 2,
    "cpu": "",
    "python": "",
    "sqlite": {"wakeful": "", "peers": ""},
    "node": "",
    "load_before": 0,
    "load_after": 0,
    "postgres": {"fsync": "on", "synchronous_commit": "on", "server_version": ""},
}


def test_a_short_run_measures_wakeful_and_the_bare_loop_on_both_stores(tmp_path: Path) -> None:
    kept = tmp_path / "report.json"
    command = [sys.executable, "-m", "bench", "peers", "wakeful", "--short", "--only", "drain"]
    done = subprocess.run(
        [*command, "--json", str(kept)], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    report = msgspec.json.decode(kept.read_bytes(), type=Report)
    assert {(run.measure, run.store, run.contestant) for run in report.runs} == {
        ("drain", "postgres", "wakeful"),
        ("drain", "postgres", "bare loop"),
        ("drain", "sqlite", "wakeful"),
        ("drain", "sqlite", "bare loop"),
    }
    assert [run.answer["recorded"] for run in report.runs] == [SHORT.jobs] * 4
    assert all(run.answer["per_s"] > 0 for run in report.runs)
    assert report.machine["postgres"]["synchronous_commit"] == report.machine["postgres"]["fsync"] == "on"
    for goal in GOALS:
        assert goal.measure in done.stdout
    shown = subprocess.run(
        [sys.executable, "-m", "bench", "peers", "--show", str(kept)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == done.stdout


def test_a_run_that_is_stopped_tells_what_it_found_and_leaves_no_process_behind() -> None:
    command = [sys.executable, "-m", "bench", "peers", "wakeful", "--short", "--rounds", "100", "--only", "drain"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("round 1, drain, postgres, wakeful"):
                break
        started = psutil.Process(process.pid).children(recursive=True)  # the server, and the driver of the second run
        process.terminate()
        try:
            said, _ = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 1
    assert "stopped in round 1 of 100" in said
    assert "| wakeful" in said
    _, alive = psutil.wait_procs(started, timeout=60)
    assert not alive


def test_a_stop_that_comes_between_two_drivers_ends_the_run_too(tmp_path: Path) -> None:
    stop = Stop()
    silent = Contestant("silent", "own", "measuring", ("sqlite",), "")
    measure = Measure("drain", "sqlite", "", {"measure": "drain", "jobs": 1}, (silent,))
    runs, failures = run_all([measure], Places(tmp_path, None), {}, 3, stop, lambda _: stop.ask())
    assert not runs
    assert [line.partition(": ")[0] for line in failures] == [
        "round 1, drain, sqlite, silent",
        "stopped in round 2 of 3",
    ]


@pytest.mark.parametrize(
    "given",
    [["--rounds", "0"], ["--jobs", "-1"], ["--json", "/no/such/folder/found.json"], ["--only", "nothing"], ["x"]],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_measured(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        main(given)
    assert refused.value.code == 2
    assert given[-1] in capsys.readouterr().err


def test_unlogged_tables_and_peers_that_are_missing_are_named() -> None:
    answer = {"version": "1", "per_s": 5.0, "unlogged": ["leases"]}
    report = Report(
        taken="2026-11-16",
        machine=MACHINE,
        sizes=SHORT,
        rounds=1,
        missing={"pg-boss": "not installed: no node"},
        failures=[],
        runs=[Run(1, "drain", "postgres", "wakeful", answer)],
    )
    assert "Unlogged tables, which a crash of the server empties: wakeful: leases" in told(report)
    assert "pg-boss: not installed: no node" in told(report)


def run(measure: str, store: str, contestant: str, **answer: float) -> Run:
    return Run(1, measure, store, contestant, {"version": "1", **answer})


def marks(*runs: Run) -> dict[tuple[str, str], str]:
    return {(one.measure, one.goal): one.mark for one in verdicts(Figures(list(runs)))}


def test_a_goal_is_marked_by_the_medians_of_all_rounds() -> None:
    ours = [run("drain", "postgres", "wakeful", per_s=rate) for rate in (10, 20, 30)]
    found = marks(
        *ours, run("drain", "postgres", "graphile-worker", per_s=20), run("drain", "postgres", "pg-boss", per_s=21)
    )
    assert found["drain, PostgreSQL, history kept", "≥ 1.0 × graphile-worker"] == "✓"
    assert found["drain, PostgreSQL, history kept", "≥ 1.0 × pg-boss"] == "✗"
    assert found["drain, SQLite", "≥ 0.7 of the bare loop"] == "–"


def test_creating_is_compared_with_the_best_peer() -> None:
    runs = [run("create", "sqlite", "wakeful", per_s=60), run("create", "sqlite", "huey", per_s=13)]
    key = ("create, 64 at once, SQLite", "≥ 5 × the best peer")
    assert marks(*runs, run("create", "sqlite", "apscheduler", per_s=5))[key] == "✗"
    assert marks(runs[0], run("create", "sqlite", "apscheduler", per_s=5))[key] == "✓"


def test_a_herd_may_take_a_fifth_longer_than_a_plain_drain() -> None:
    key = ("herd: cron alarms at one moment, time, SQLite", "≤ 1.2 × a plain drain")
    plain = run("empty", "sqlite", "wakeful", per_s=120)
    assert marks(plain, run("herd", "sqlite", "wakeful", per_s=101))[key] == "✓"
    assert marks(plain, run("herd", "sqlite", "wakeful", per_s=99))[key] == "✗"


@pytest.mark.parametrize(("four", "mark"), [(150, "✓"), (120, "✗")])
def test_more_workers_may_not_be_slower(four: float, mark: str) -> None:
    rates = {"workers 1": 100, "workers 2": 150, "workers 4": four}
    found = marks(*(run(name, "postgres", "wakeful", per_s=rate) for name, rate in rates.items()))
    assert found["1, 2, 4 workers on one PostgreSQL", "never falls; none twice"] == mark


@pytest.mark.parametrize("ran", [[0, 1, 1], [0, 1], [0, 1, 3], [0, 1, 2, 2]])
def test_a_peer_whose_jobs_did_not_each_run_once_has_no_figure(ran: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "numbers", ran)
    with pytest.raises(SystemExit, match="each once"):
        measuring.each_ran_once(3)


@pytest.mark.parametrize("fires", [(["a", "b"], ["b"]), (["a"], ["b"]), (["a", "b"], ["c", "d"])])
def test_workers_that_woke_one_twice_have_no_figure(fires: tuple[list[str], list[str]]) -> None:
    with pytest.raises(SystemExit, match="each once"):
        each_woken_once([Handled(one, [], 0, 0) for one in fires], 3)


def test_of_a_hundred_the_latest_is_not_the_99th() -> None:
    late = measuring.lateness([float(n) for n in range(100, 0, -1)])
    assert late == {"jobs": 100, "p50_ms": 50.0, "p95_ms": 95.0, "p99_ms": 99.0, "max_ms": 100.0}


def test_nobody_may_be_early() -> None:
    with pytest.raises(SystemExit, match="early"):
        measuring.lateness([2.0, -5.0])


def test_without_node_a_peer_for_node_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("bench.peers.installing.CACHE", tmp_path)
    with pytest.raises(NotInstalled, match="no node"):
        installed(BY_NAME["pg-boss"])


def test_a_driver_that_fails_is_a_finding_and_the_others_go_on(tmp_path: Path) -> None:
    broken = Contestant("broken", "own", "huey", ("sqlite",), "")  # Huey is not in this environment
    silent = Contestant("silent", "own", "measuring", ("sqlite",), "")
    measure = Measure("drain", "sqlite", "", {"measure": "drain", "jobs": 1}, (broken, silent))
    runs, failures = run_all([measure], Places(tmp_path, None), {}, 1, Stop(), lambda _: None)
    assert not runs
    assert [line.partition(": ")[0] for line in failures] == [
        "round 1, drain, sqlite, broken",
        "round 1, drain, sqlite, silent",
    ]
    assert "huey" in failures[0]
    assert "said nothing" in failures[1]


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_every_peer_is_pinned_without_an_address(peer: Contestant) -> None:
    text = pins(peer).read_text()
    assert "://" not in text
    if peer.kind == "node":
        assert (DRIVERS / peer.driver).exists()
        versions = msgspec.json.decode(text)["dependencies"]
        assert peer.name in versions
        assert all(version.replace(".", "").isdigit() for version in versions.values())
    else:
        assert (DRIVERS / f"{peer.driver}.py").exists()
        assert f"\n{peer.name}==" in f"\n{text}"
        assert text.count("==") <= text.count("--hash=sha256:")
