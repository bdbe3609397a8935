"""LiteLLM's proxy and Portkey's gateway, each installed once in a folder of its own and set to one upstream."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.parts.upstream import MODEL

LITELLM = "litellm[proxy]==1.93.0"
PORTKEY = "@portkey-ai/gateway@1.15.2"
_KEY = "sk-bench-7d0a4cbe51f94be2a7c3d5e8f1b26a90"


@dataclass(frozen=True)
class Peer:
    """How a peer is run and asked.

    Attributes:
        command: With which it serves the port that it was made for.
        headers: Beside the body.
    """

    name: str
    command: list[str]
    headers: dict[str, str]
    env: dict[str, str]


def litellm(cache: Path, port: int, upstream: int) -> Peer:
    """LiteLLM's proxy with one worker and its defaults: no database, no callbacks."""
    home = cache / "litellm"
    program = home / "bin" / "litellm"
    if not program.exists():
        print(f"Installing {LITELLM} in {home}: some minutes, once.", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run([str(home / "bin" / "pip"), "install", "-qq", LITELLM], check=True)
    params = {"model": f"openai/{MODEL}", "api_base": f"http://127.0.0.1:{upstream}/v1", "api_key": "unused"}
    config = {
        "model_list": [{"model_name": MODEL, "litellm_params": params}],
        "general_settings": {"master_key": _KEY},
    }
    path = cache / "litellm.json"  # JSON is YAML
    path.write_text(json.dumps(config), encoding="utf-8")
    command = [str(program), "--config", str(path), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
    offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"}
    return Peer("LiteLLM", command, {"authorization": f"Bearer {_KEY}"}, offline)


def portkey(cache: Path, port: int, upstream: int) -> Peer:
    """Portkey's open gateway; where to send to stands in each request's headers."""
    home = cache / "portkey"
    program = home / "node_modules" / ".bin" / "gateway"
    if not program.exists():
        print(f"Installing {PORTKEY} in {home}.", flush=True)
        home.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "--prefix", str(home), PORTKEY], check=True)
    headers = {
        "authorization": f"Bearer {_KEY}",
        "x-portkey-provider": "openai",
        "x-portkey-custom-host": f"http://127.0.0.1:{upstream}/v1",
    }
    env = {"NODE_ENV": "production", "TRUSTED_CUSTOM_HOSTS": "127.0.0.1,localhost"}
    return Peer("Portkey", [str(program), f"--port={port}", "--headless"], headers, env)
