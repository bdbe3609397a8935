"""Whether the composed programs find one another, and which of them may reach what; no engine is needed for that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.tests.programs import run
from gateway.settings_file import load_settings

FOLDER = Path("deploy/compose")


def composed() -> dict[str, Any]:
    return dict(yaml.safe_load((FOLDER / "compose.yaml").read_text()))


SERVICES: dict[str, dict[str, Any]] = composed()["services"]


def test_the_file_is_what_compose_reads() -> None:
    done = run("check-jsonschema", "--builtin-schema", "vendor.compose-spec", str(FOLDER / "compose.yaml"))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_may_do_little(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert int(service["user"].partition(":")[0]) > 0
    assert service["image"].startswith("${")
    assert not service["image"].endswith((":latest}", ":latest"))


def test_the_gateway_alone_gets_out_and_the_edge_has_no_network() -> None:
    networks = composed()["networks"]
    assert networks["watching"] == {"internal": True}
    ways = {name: set(service.get("networks", ())) for name, service in SERVICES.items()}
    assert {name for name, some in ways.items() if "out" in some} == {"gateway"}
    assert {name for name, some in ways.items() if "shown" in some} == {"grafana"}  # what shows a page to this machine
    assert SERVICES["edge"]["network_mode"] == "none"


def test_nothing_is_published_beyond_this_machine() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_every_file_that_is_mounted_is_there() -> None:
    document = composed()
    mounted = [volume.partition(":")[0] for service in SERVICES.values() for volume in service.get("volumes", ())]
    files = [path for path in mounted if path.startswith(".")]
    files += [config["file"] for config in document["configs"].values()]
    assert [path for path in files if not (FOLDER / path).exists()] == []
    named = {name for name in mounted if not name.startswith(".")}
    assert named == set(document["volumes"])


def test_the_settings_are_read_and_name_what_is_composed() -> None:
    settings = load_settings(FOLDER / "tidegate.yaml")
    otlp = str(settings.telemetry.otlp_endpoint)
    receiver = yaml.safe_load((FOLDER / "collector.yaml").read_text())["receivers"]["otlp"]["protocols"]["http"]
    assert otlp == f"http://collector:{receiver['endpoint'].rpartition(':')[2]}"
    assert SERVICES["gateway"]["ports"] == [f"127.0.0.1:8080:{settings.listen.port}"]
    scraped = yaml.safe_load(Path("deploy/prometheus/prometheus.yaml").read_text())["scrape_configs"]
    [[target]] = [each["static_configs"][0]["targets"] for each in scraped]
    host, _, port = target.partition(":")
    assert host in SERVICES["gateway"]["networks"]["watching"]["aliases"]
    assert host in settings.admin.hosts
    assert int(port) == settings.admin.port
    secrets = {f"/run/secrets/{name}" for name in composed()["secrets"]}
    assert str(settings.targets["cloud"].credential.file) in secrets  # type: ignore[union-attr]  # it names one
    assert scraped[0]["authorization"]["credentials_file"] in secrets


def test_each_part_of_a_pipeline_of_the_collector_is_declared() -> None:
    config = yaml.safe_load((FOLDER / "collector.yaml").read_text())
    for pipeline in config["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert set(pipeline[kind]) <= set(config[kind])
        assert pipeline["processors"][0] == "memory_limiter"


def test_grafana_asks_nobody_else() -> None:
    environment = SERVICES["grafana"]["environment"]
    for name in ("REPORTING_ENABLED", "CHECK_FOR_UPDATES", "CHECK_FOR_PLUGIN_UPDATES"):
        assert environment[f"GF_ANALYTICS_{name}"] == "false"
    sources = yaml.safe_load(Path("deploy/grafana/provisioning/datasources.yaml").read_text())["datasources"]
    assert sources[0]["url"] == "http://prometheus:9090"
