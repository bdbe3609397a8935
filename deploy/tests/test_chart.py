"""The Helm chart: Helm renders it with several values, and what comes out is what a cluster and the gateway take."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from helm_python import Chart, lint
from helm_python.errors import HelmValuesError

from deploy.tests.kubernetes import Manifest, hold_to_schema, objects, only
from gateway.metrics import instruments
from gateway.settings import Settings
from observability.prometheus import family_name
from routing_policies.policy.loader import load_text

CHART = Path("deploy/helm/tidegate")
VALUES = {"default": {}} | {
    path.stem.removesuffix("-values"): yaml.safe_load(path.read_text()) for path in sorted(CHART.glob("ci/*.yaml"))
}


def rendered(values: dict[str, Any]) -> list[Manifest]:
    with Chart.load(CHART) as chart:
        return objects("\n---\n".join(chart.render(values, name="front", namespace="inference").values()))


@pytest.fixture(params=VALUES)
def manifests(request: pytest.FixtureRequest) -> list[Manifest]:
    return rendered(VALUES[request.param])


def test_helm_has_nothing_to_say_against_the_chart() -> None:
    report = lint(CHART, strict=True)

    assert report["total_charts_linted"] == 1
    assert [each for each in report["messages"] if each["severity"] > 1] == []
    assert report["errors"] == []


def test_a_cluster_takes_every_object(manifests: list[Manifest]) -> None:
    assert {"Deployment", "Service", "ConfigMap", "NetworkPolicy"} <= {each["kind"] for each in manifests}
    for each in manifests:
        hold_to_schema(each)


def test_the_gateway_takes_the_settings_and_the_policy(manifests: list[Manifest]) -> None:
    data = only(manifests, "ConfigMap")["data"]
    settings = Settings.model_validate(yaml.safe_load(data["tidegate.yaml"]))
    policy = load_text(data["policy.yaml"], "policy.yaml")

    assert settings.auth.required
    assert (settings.listen.host, settings.admin.port, settings.policy) == (
        "0.0.0.0",
        8081,
        "/etc/tidegate/policy.yaml",
    )
    assert policy.policy.targets.keys() == settings.targets.keys()  # no target without a promise about it


def test_every_container_may_write_to_its_volumes_and_do_nothing_else(manifests: list[Manifest]) -> None:
    pod = only(manifests, "Deployment")["spec"]["template"]["spec"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    for container in pod["containers"]:
        may = container["securityContext"]
        assert may["readOnlyRootFilesystem"] is True
        assert may["allowPrivilegeEscalation"] is False
        assert may["capabilities"] == {"drop": ["ALL"]}
        assert "latest" not in container["image"]
        assert {"startupProbe", "livenessProbe", "resources"} <= container.keys()


def test_streams_have_the_time_to_finish_that_the_settings_promise(manifests: list[Manifest]) -> None:
    settings = Settings.model_validate(yaml.safe_load(only(manifests, "ConfigMap")["data"]["tidegate.yaml"]))
    pod = only(manifests, "Deployment")["spec"]["template"]["spec"]
    waits = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]

    assert pod["terminationGracePeriodSeconds"] > waits + settings.timeouts.drain_s


def test_the_gateway_goes_out_only_to_its_targets_and_to_the_names_of_the_cluster() -> None:
    allowed = VALUES["edge"]["networkPolicy"]["targets"]
    policy = only(rendered(VALUES["edge"]), "NetworkPolicy")["spec"]
    names, *rest = policy["egress"]

    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert {each["port"] for each in names["ports"]} == {53}
    assert rest == allowed
    assert only(rendered({"networkPolicy": {"targets": []}}), "NetworkPolicy")["spec"]["egress"] == [names]


def test_nobody_reaches_the_admin_port_who_is_not_named() -> None:
    closed = only(rendered({}), "NetworkPolicy")["spec"]["ingress"]
    open_to = only(rendered(VALUES["edge"]), "NetworkPolicy")["spec"]["ingress"]

    assert [port["port"] for rule in closed for port in rule["ports"]] == ["http"]
    assert open_to[1]["from"] == VALUES["edge"]["networkPolicy"]["operators"]
    services = [each for each in rendered(VALUES["keda"]) if each["kind"] == "Service"]
    assert [each["spec"]["type"] for each in services] == ["LoadBalancer", "ClusterIP"]


def test_what_the_platform_names_is_where_it_belongs() -> None:
    pod = only(rendered(VALUES["edge"]), "Deployment")["spec"]["template"]["spec"]
    gateway, edge = pod["containers"]

    assert gateway["image"].startswith("registry.inside.example/tidegate/gateway@sha256:")
    assert edge["image"] == "registry.inside.example/tidegate/edge:0.1.0"
    assert pod["imagePullSecrets"] == [{"name": "inside-registry"}]
    assert {"name": "SSL_CERT_FILE", "value": "/etc/tidegate-ca/ca.crt"} in gateway["env"]
    assert "/run/secrets/tidegate/llm" in {each["mountPath"] for each in gateway["volumeMounts"]}


@pytest.mark.parametrize(
    ("kind", "values"), [("HorizontalPodAutoscaler", VALUES["hpa"]), ("ScaledObject", VALUES["keda"])]
)
def test_pods_are_scaled_by_what_the_gateway_measures(kind: str, values: dict[str, Any]) -> None:
    manifests = rendered(values)
    told = set(re.findall(r"tidegate_\w+", str(only(manifests, kind)["spec"])))

    assert told == {family_name(instruments.TARGET_WAITING), family_name(instruments.IN_FLIGHT)}
    assert "replicas" not in only(manifests, "Deployment")["spec"]


def test_other_settings_are_other_pods() -> None:
    def mark(values: dict[str, Any]) -> str:
        return only(rendered(values), "Deployment")["spec"]["template"]["metadata"]["annotations"]["checksum/settings"]

    assert mark({}) == mark({})
    assert mark({"settings": {"limits": {"concurrent_requests": 5}}}) != mark({})


@pytest.mark.parametrize(
    "values",
    [
        {"replica": 3},
        {"replicas": "3"},
        {"images": {"registry": "https//?"}},
        {"images": {"gateway": {"digest": "latest"}}},
        {"edge": {"enabled": True}},
        {"autoscaling": {"kind": "vpa"}},
        {"settings": {"listen": {"host": "127.0.0.1"}}},
        {"settings": {"targets": {}, "policy": "balanced"}},
        {"networkPolicy": {"targets": [{"to": []}]}},
        {"serviceMonitor": {"enabled": True}},
        {"secrets": ["Not a name"]},
        {"podDisruptionBudget": {"maxUnavailable": 0}},
        {"credential": "sk-1234"},
    ],
    ids=str,
)
def test_values_that_mean_nothing_are_refused(values: dict[str, Any]) -> None:
    with Chart.load(CHART) as chart, pytest.raises(HelmValuesError):
        chart.render(values, name="front", namespace="inference")


def test_every_value_is_in_the_schema() -> None:
    with Chart.load(CHART) as chart:
        schema, values = chart.schema, chart.values
        chart.validate_schema({})

    assert schema is not None
    assert values.keys() == schema["properties"].keys() - {"global"}
