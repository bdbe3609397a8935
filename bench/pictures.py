"""What reading pictures costs: the edge's real models, the real process that reads, and what it takes of the processor.

python -m bench.pictures --output bench/results/pictures.json
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import time
from pathlib import Path

from PIL import Image

from bench.parts.report import Report
from gateway.detector_settings import PictureSettings
from gateway.detectors.pictures import PictureDetector
from gateway.settings import default_state_dir
from gateway.state_folder import StateFolder
from inference_protocol.text_parts import text_parts
from tests.edge_runtime.serving_process import edge_process
from tests.support.pictures import as_file, data_url, picture_of, showing
from tests.support.waiting import until

ROUNDS = 5
LINE = "The gate keeper writes down what has passed at noon"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def samples() -> dict[str, Image.Image]:
    """A label, a page of text, and what a camera gives."""
    return {
        "two lines, 640 x 136": picture_of(LINE[:30], "jane@corp.com"),
        "page of 40 lines, 900 x 1640": picture_of(*[LINE] * 40, size=20, wide=900),
        "12 megapixels without text": Image.effect_noise((4000, 3000), 20).convert("RGB"),
    }


def spent_s(pids: list[int]) -> float:
    """Processor time of processes, user and system."""
    fields = [Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split() for pid in pids]
    return sum(int(each[11]) + int(each[12]) for each in fields) / TICKS_PER_S


def peak_mib(pid: int) -> float:
    """Most memory that a process has held."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


async def measured(url: str, edge_pid: int) -> dict[str, dict[str, float]]:
    settings = PictureSettings(endpoint=url, timeout_s=120.0, max_bytes=64 << 20)
    detector = PictureDetector(settings)
    running = asyncio.create_task(detector.run())
    found: dict[str, dict[str, float]] = {}
    try:
        await until(lambda: detector.worker.pid is not None, within_s=60)
        for name, picture in samples().items():
            content = showing(data_url(as_file(picture, "JPEG", quality=90), "jpeg"))
            parts = list(text_parts({"messages": [{"role": "user", "content": content}]}))
            assert not (await detector.read(parts)).causes, "it was read; models are loaded by now"
            took, before = [], spent_s([edge_pid, detector.worker.pid])
            for _ in range(ROUNDS):
                began = time.perf_counter()
                await detector.read(parts)
                took.append(time.perf_counter() - began)
            processor_s = (spent_s([edge_pid, detector.worker.pid]) - before) / ROUNDS
            found[name] = {"s": statistics.median(took), "processor_s": processor_s}
        assert detector.worker.pid is not None, "it has just answered"
        found["the process"] = {"peak_mib": peak_mib(detector.worker.pid)}
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    output = parser.parse_args().output
    report = Report("pictures")
    models = StateFolder(default_state_dir()).models
    names = ("ocr-detection", "ocr-recognition")
    options = [option for name in names for option in ("--tensor-model-dir", str(models / name))]
    with edge_process(models / "smollm2-135m-instruct-q4_1", "--slots", "1", *options) as client:
        report.raw["pictures"] = asyncio.run(measured(str(client.base_url).rstrip("/"), _child()))
    for name, figures in report.raw["pictures"].items():
        for unit, value in figures.items():
            print(f"{name}: {value:.3g} {unit}")
    report.write(output)


def _child() -> int:
    """The one process that was started here."""
    (pid,) = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    return int(pid)


if __name__ == "__main__":
    main()
