"""What `deploy/` says agrees with the server: its metrics, its options and its paths. `make release` checks its schemas."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from outlast import __version__
from outlast.cli.app import Commands
from outlast.http.auth import Auth
from outlast.http.metrics import Metrics, _Ledger
from outlast.http.state import ServerState
from outlast.ledger import Ledger
from outlast.stores.memory import MemoryStore

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin"))
METRIC = re.compile(r"\b(?:outlast|process)_[a-z_]+")


def known_metrics() -> set[str]:
    class Ready:
        is_ready = True

        class engine:
            _ledger = Ledger(MemoryStore())

    state = ServerState(Auth())
    metrics = Metrics(state)
    state_of_ledger: Any = Ready()
    metrics.registry.register(_Ledger(state_of_ledger))
    names = set()
    for family in text_string_to_metric_families(metrics.text().decode()):
        ends = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
        names |= {family.name + end for end in ends}
    return names


def queries(name: str) -> list[str]:
    if name.endswith(".json"):
        board = json.loads((DEPLOY / name).read_text())
        return [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    groups = yaml.safe_load((DEPLOY / name).read_text())["groups"]
    return [rule["expr"] for group in groups for rule in group["rules"]]


def test_the_board_and_the_alerts_use_metrics_that_there_are() -> None:
    known = known_metrics()
    for name in ("grafana/outlast.json", "alerts.yaml"):
        used = {metric for query in queries(name) for metric in METRIC.findall(query)}
        assert len(used) > 5
        assert used <= known, name


def test_gauges_of_the_store_are_not_multiplied_by_servers() -> None:
    for name in ("grafana/outlast.json", "alerts.yaml"):
        for query in queries(name):
            if "outlast_store_unfinished" in query or "outlast_store_open" in query:
                assert query.startswith("max"), query


def test_the_options_of_all_commands_exist() -> None:
    serve = Commands(name="outlast").get_command(None, "serve")
    known = {option for parameter in serve.params for option in parameter.opts}
    for path in (each for each in DEPLOY.rglob("*") if each.is_file()):
        text = path.read_text()
        commands = re.findall(r"(?:outlast serve|\"outlast\", \"serve\"|args: |command: )(.*)", text)
        used = {option for command in commands for option in re.findall(r"--[a-z-]+", command)}
        assert used <= known, path


def test_manifests_are_yaml_and_probe_paths_that_exist() -> None:
    manifests = list(yaml.safe_load_all((DEPLOY / "kubernetes/outlast.yaml").read_text()))
    assert [each["kind"] for each in manifests] == ["Deployment", "Service", "PodDisruptionBudget", "Ingress"]
    (container,) = manifests[0]["spec"]["template"]["spec"]["containers"]
    probes = {name: container[name]["httpGet"]["path"] for name in ("livenessProbe", "readinessProbe")}
    assert probes == {"livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert set(compose["services"]) == {"database", "server", "proxy"}


def test_the_image_has_this_version() -> None:
    (version,) = re.findall(r"'outlast\[[a-z,]+\]==(\S+)'", (DEPLOY / "Dockerfile").read_text())
    assert version == __version__


# --- the programs that read these files, where Debian's packages have them


def accepted(*command: str, given: bytes = b"") -> str:
    """What a program prints that accepts its input."""
    program = shutil.which(command[0], path=PATH)
    if program is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(
        [program, *command[1:]], input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    assert done.returncode == 0, done.stdout.decode()
    return done.stdout.decode()


def test_prometheus_accepts_the_alert_rules_and_they_report_what_they_should() -> None:
    assert "SUCCESS" in accepted("promtool", "check", "rules", str(DEPLOY / "alerts.yaml"))
    assert "SUCCESS" in accepted("promtool", "test", "rules", str(DEPLOY / "alerts.test.yaml"))


def test_prometheus_accepts_the_metrics() -> None:
    assert accepted("promtool", "check", "metrics", given=Metrics(ServerState(Auth())).text()) == ""


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = (DEPLOY / "outlast.service").read_text().replace("/srv/workflows/.venv/bin/outlast", sys.executable)
    (tmp_path / "outlast.service").write_text(unit)
    assert accepted("systemd-analyze", "verify", str(tmp_path / "outlast.service")) == ""


def test_nginx_accepts_the_configuration(tmp_path: Path) -> None:
    site = (DEPLOY / "nginx.conf").read_text().replace("server server:8470", "server 127.0.0.1:8470")
    (tmp_path / "site.conf").write_text(site)
    places = " ".join(
        f"{name}_temp_path {tmp_path}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (tmp_path / "nginx.conf").write_text(
        f"pid {tmp_path}/pid; events {{}} http {{ access_log off; {places} include {tmp_path}/site.conf; }}"
    )
    assert "successful" in accepted("nginx", "-t", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"))
