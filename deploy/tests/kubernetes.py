"""Objects of Kubernetes as they are rendered, held to the schemas that a cluster would hold them to."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import yaml

VERSION = "1.37"
Manifest = dict[str, Any]
# Kinds that no published schema here knows: what each must say at least, as its operator's reference has it.
CUSTOM = {
    "ScaledObject": ("keda.sh/v1alpha1", ("scaleTargetRef", "triggers")),
    "ServiceMonitor": ("monitoring.coreos.com/v1", ("selector", "endpoints")),
    "RayService": ("ray.io/v1", ("serveConfigV2", "rayClusterConfig")),
}


def objects(text: str) -> list[Manifest]:
    """Read all documents of a stream, but the empty ones."""
    return [each for each in yaml.safe_load_all(text) if each]


def hold_to_schema(manifest: Manifest) -> None:
    """Raise `kubernetes_validate.ValidationError` or fail where a cluster would refuse it."""
    if manifest["kind"] in CUSTOM:
        version, required = CUSTOM[manifest["kind"]]
        assert manifest["apiVersion"] == version
        assert set(required) <= manifest["spec"].keys()
        assert manifest["metadata"]["name"]
    else:
        kubernetes_validate.validate(manifest, VERSION, strict=True)


def only(manifests: list[Manifest], kind: str) -> Manifest:
    """Return the one of a kind."""
    [found] = [each for each in manifests if each["kind"] == kind]
    return found
