"""What `deploy/` holds names things that exist, and systemd is told the truth."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import click
import pytest
import yaml

from wakeful.cli import main
from wakeful.errors import InvalidConfig
from wakeful.runtime import systemd
from wakeful.runtime.metrics import Metrics
from wakeful.settings import Settings, load

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"


def loaded(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


monitoring = loaded(DEPLOY / "monitoring.py")


# Monitoring


def test_the_dashboard_and_the_rules_are_as_they_are_written() -> None:
    assert monitoring.DASHBOARD.read_text() == monitoring.dashboard(), "run: python deploy/monitoring.py"
    assert monitoring.RULES.read_text() == monitoring.rules(), "run: python deploy/monitoring.py"


def test_every_metric_of_the_dashboard_and_the_rules_is_in_the_exposition() -> None:
    text, _ = Metrics(version="1", store="sqlite").exposition()
    told = set(re.findall(r"^# HELP (\S+) ", text.decode(), re.MULTILINE))
    drawn = [expression for _, _, lines in monitoring.PANELS for expression, _ in lines]
    named = {
        name
        for expression in [*drawn, *(alert[1] for alert in monitoring.ALERTS)]
        for name in monitoring.names_in(expression)
    }
    assert named - told == set()
    assert told - named <= {name for name in told if name.startswith("process_")}, "a metric that nobody looks at"


def test_the_rules_can_be_read_and_say_what_to_do() -> None:
    [group] = yaml.safe_load(monitoring.RULES.read_text())["groups"]
    assert len(group["rules"]) == len(monitoring.ALERTS)
    assert all(rule["annotations"]["description"] and rule["labels"]["severity"] for rule in group["rules"])
    labels = {
        name for expression in (alert[1] for alert in monitoring.ALERTS) for name in re.findall(r"\{(\w+)=", expression)
    }
    assert labels <= {"le", "status"}


def test_every_metric_on_a_page_for_operators_exists() -> None:
    text, _ = Metrics(version="1", store="sqlite").exposition()
    told = set(re.findall(r"^# HELP (\S+) ", text.decode(), re.MULTILINE))
    pages = [*(ROOT / "docs" / "operations").glob("*.md"), ROOT / "docs" / "metrics.md"]
    named = {name for page in pages for name in re.findall(r"`(wakeful_[a-z_]+)[`{]", page.read_text())}
    assert "wakeful_lateness_seconds" in named
    assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in named} <= told | {f"{one}_total" for one in told}


# Units, images, manifests: what they start can be started


def check_command(words: list[str]) -> None:
    """A command line of wakeful that its own parser takes, without running it."""
    context = main.make_context("wakeful", list(words), resilient_parsing=True)
    name, command, rest = main.resolve_command(context, words)
    assert command is not None, name
    while isinstance(command, click.Group):
        name, command, rest = command.resolve_command(click.Context(command), rest)
        assert command is not None
    command.make_context(str(name), list(rest))


def check_variables(names: set[str]) -> None:
    known = {f"WAKEFUL_{name.upper()}" for name in Settings.__struct_fields__} | {"WAKEFUL_CONFIG"}
    assert {name for name in names if name.startswith("WAKEFUL_")} <= known


@pytest.mark.parametrize("name", ["wakeful.service", "wakeful-worker@.service"])
def test_a_unit_starts_a_command_that_exists_and_waits_until_it_is_ready(name: str) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string((DEPLOY / name).read_text())
    service = unit["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert program.endswith("/wakeful")
    check_command(words)
    check_variables({pair.partition("=")[0] for pair in service["Environment"].split()})
    assert (service["Type"], service["Restart"], service["User"]) == ("notify", "always", "wakeful")
    assert int(service["WatchdogSec"]) >= 30


def test_the_steps_for_systemd_make_what_the_unit_needs(tmp_path: Path) -> None:
    """A settings file that is named has to be there: without it nothing starts."""
    steps, unit = (ROOT / "docs/operations/deploy.md").read_text(), (DEPLOY / "wakeful.service").read_text()
    [file] = re.findall(r"WAKEFUL_CONFIG=(\S+)", unit)
    for text in (steps, unit.partition("[Unit]")[0]):
        assert f"wakeful init {file}" in text
        assert f"chmod 640 {file}" in text
    named = tmp_path / "wakeful.toml"
    with pytest.raises(InvalidConfig, match="does not exist"):
        load(named, environ={"HOME": "/"})
    subprocess.run([sys.executable, "-m", "wakeful.cli", "init", str(named)], timeout=60, check=True)
    assert load(named, environ={"HOME": "/"}).port == Settings().port


def test_compose_starts_commands_that_exist() -> None:
    document = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services = {name: one for name, one in document["services"].items() if one.get("image") == "wakeful"}
    assert set(services) == {"serve", "worker"}
    for service in services.values():
        check_variables(set(service["environment"]))
        check_command(service.get("command", ["serve"]))
        assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).exists()


def test_kubernetes_starts_commands_that_exist_as_nobody_in_particular() -> None:
    documents = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "wakeful.yaml").read_text()))
    assert [one["kind"] for one in documents] == ["Deployment", "Deployment", "Service"]
    for deployment in documents[:2]:
        pod = deployment["spec"]["template"]["spec"]
        [container] = pod["containers"]
        check_command(container["args"])
        check_variables({one["name"] for one in container["env"]})
        assert pod["securityContext"]["runAsNonRoot"]
        assert container["livenessProbe"]


def test_the_image_copies_what_there_is_and_does_not_run_as_root() -> None:
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE) for word in line.split()[:-1]]
    assert copied
    assert all((ROOT / word).exists() for word in copied)
    assert re.search(r"^USER 4747$", text, re.MULTILINE)
    entry, command = (
        yaml.safe_load(found) for found in re.findall(r"^(?:ENTRYPOINT|CMD) (\[.*\])$", text, re.MULTILINE)
    )
    assert entry == ["wakeful"]
    check_command(command)


# systemd


@contextmanager
def listening(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(30)
        yield listener


@pytest.mark.parametrize("args", [["serve", "--port", "0"], ["worker"]])
def test_systemd_is_told_ready_alive_and_stopping(tmp_path: Path, args: list[str]) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("WAKEFUL_")}
    environ |= {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
    with listening(tmp_path) as systemd_socket:
        command = [sys.executable, "-m", "wakeful.cli", *args, "--db", str(tmp_path / "wakeful.db")]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environ)
        try:
            told: list[str] = []

            def until(line: str) -> None:
                while line not in told:
                    told.extend(systemd_socket.recv(4096).decode().splitlines())

            until(systemd.READY)
            told.clear()
            until(systemd.ALIVE)
            told.clear()
            until(systemd.ALIVE)  # again and again
            process.send_signal(signal.SIGTERM)
            until(systemd.STOPPING)
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()
            process.wait()


def test_a_process_that_stands_still_says_nothing(tmp_path: Path) -> None:
    environ = dict(os.environ) | {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "100000"}
    with listening(tmp_path) as systemd_socket:
        command = [sys.executable, "-m", "wakeful.cli", "worker", "--db", str(tmp_path / "wakeful.db")]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environ)
        try:
            while systemd.ALIVE not in systemd_socket.recv(4096).decode():
                pass
            process.send_signal(signal.SIGSTOP)
            systemd_socket.settimeout(1)
            with pytest.raises(TimeoutError):  # what was sent before it stood still is read first
                [systemd_socket.recv(4096) for _ in range(100)]
        finally:
            process.kill()
            process.wait()


def test_nothing_is_sent_where_systemd_did_not_start_it(tmp_path: Path) -> None:
    assert not systemd.notify(systemd.READY, environ={})
    assert not systemd.notify(systemd.READY, environ={"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    assert systemd.watchdog_interval({}) is None
    assert systemd.watchdog_interval({"WATCHDOG_USEC": "60000000"}) == 30
    assert systemd.watchdog_interval({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}) is None


def test_an_abstract_socket_is_told_too() -> None:
    name = f"wakeful-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{name}")
        assert systemd.notify(systemd.READY, "STATUS=here", environ={"NOTIFY_SOCKET": f"@{name}"})
        assert listener.recv(100) == b"READY=1\nSTATUS=here"
