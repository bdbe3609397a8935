"""The overlays: Kustomize renders them, a cluster's schemas and the gateway take them."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from deploy.kustomize.render import FOLDER, NAMESPACE, OVERLAYS, rendered
from deploy.tests.kubernetes import Manifest, hold_to_schema, objects, only
from deploy.tests.programs import run
from gateway.settings import Settings
from routing_policies.policy.loader import load_text


def kustomized(overlay: str) -> list[Manifest]:
    done = run("kubectl", "kustomize", str(FOLDER / overlay))
    assert done.returncode == 0, done.stderr
    return objects(done.stdout)


@pytest.fixture(params=OVERLAYS)
def overlay(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_there_is_one_for_the_edge_for_the_house_and_for_two_ways_to_run_the_large_model() -> None:
    assert OVERLAYS == ("cloud-vllm", "k3s-edge", "kuberay", "onprem")


def test_what_it_builds_upon_is_what_the_chart_renders(overlay: str) -> None:
    assert (FOLDER / overlay / "tidegate.yaml").read_text() == rendered(overlay), "python -m deploy.kustomize.render"


def test_a_cluster_takes_every_object_and_all_are_in_one_namespace(overlay: str) -> None:
    manifests = kustomized(overlay)
    for each in manifests:
        hold_to_schema(each)
        expected = None if each["kind"] == "Namespace" else NAMESPACE
        assert each["metadata"].get("namespace") == expected
    assert only(manifests, "Namespace")["metadata"]["name"] == NAMESPACE


def test_the_gateway_takes_the_settings_and_the_policy(overlay: str) -> None:
    data = only(kustomized(overlay), "ConfigMap")["data"]
    settings = Settings.model_validate(yaml.safe_load(data["tidegate.yaml"]))
    policy = load_text(data["policy.yaml"], "policy.yaml")
    assert policy.policy.targets.keys() == settings.targets.keys()


def test_the_namespace_holds_pods_to_as_much_as_they_can_keep() -> None:
    kept = {
        name: only(kustomized(name), "Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        for name in OVERLAYS
    }
    assert kept == {"cloud-vllm": "restricted", "onprem": "restricted", "kuberay": "baseline", "k3s-edge": "privileged"}


def test_the_box_has_room_for_it() -> None:
    pod = only(kustomized("k3s-edge"), "Deployment")["spec"]["template"]["spec"]
    limits = [_mib(container["resources"]["limits"]["memory"]) for container in pod["containers"]]
    assert sum(limits) <= 1024


def test_ray_is_asked_by_the_name_that_its_operator_gives_it() -> None:
    manifests = kustomized("kuberay")
    ray = only(manifests, "RayService")
    settings = Settings.model_validate(yaml.safe_load(only(manifests, "ConfigMap")["data"]["tidegate.yaml"]))
    [endpoint] = settings.targets["cloud"].endpoints
    assert urlsplit(endpoint).netloc == f"{ray['metadata']['name']}-serve-svc.{NAMESPACE}.svc:8000"
    [application] = yaml.safe_load(ray["spec"]["serveConfigV2"])["applications"]
    [model] = application["args"]["llm_configs"]
    assert set(settings.targets["cloud"].models.values()) == {model["model_loading_config"]["model_id"]}


def test_no_pod_of_ray_tells_its_makers_that_it_runs() -> None:
    cluster = only(kustomized("kuberay"), "RayService")["spec"]["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        for container in group["template"]["spec"]["containers"]:
            assert {"name": "RAY_USAGE_STATS_ENABLED", "value": "0"} in container["env"]


def test_vllm_serves_the_model_that_the_gateway_asks_for() -> None:
    values: dict[str, Any] = yaml.safe_load((FOLDER / "cloud-vllm/vllm-production-stack.values.yaml").read_text())
    settings = yaml.safe_load((FOLDER / "cloud-vllm/values.yaml").read_text())["settings"]
    served = {model["modelURL"] for model in values["servingEngineSpec"]["modelSpec"]}
    assert set(settings["targets"]["cloud"]["models"].values()) == served


def _mib(memory: str) -> int:
    assert memory.endswith("Mi")
    return int(memory.removesuffix("Mi"))
