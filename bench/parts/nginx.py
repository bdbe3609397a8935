"""nginx as a proxy that looks at nothing: one process, connections to the target kept, streams not buffered."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_CONFIG = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.error;
events {{ worker_connections 1024; }}
http {{
  access_log off; client_max_body_size 64m; client_body_buffer_size 512k; keepalive_requests 1000000000;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  upstream target {{ server 127.0.0.1:{upstream}; keepalive 128; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port};
    proxy_http_version 1.1; proxy_set_header connection ""; proxy_buffering off;
    location / {{ proxy_pass http://target; }}
  }}
}}
"""


def version() -> str | None:
    """What is installed, or `None`."""
    if _program() is None:
        return None
    told = subprocess.run([str(_program()), "-v"], capture_output=True, text=True, check=False).stderr
    return told.strip().rpartition(" ")[2]


def command(folder: Path, port: int, upstream: int) -> list[str]:
    """Write a configuration and return the command that serves it."""
    config = folder / "nginx.conf"
    config.write_text(_CONFIG.format(folder=folder, port=port, upstream=upstream), encoding="ascii")
    return [str(_program()), "-p", str(folder), "-c", str(config), "-e", str(folder / "nginx.error")]


def _program() -> str | None:
    return shutil.which("nginx", path="/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin")
