"""`python -m edge_runtime.providers.page`: the parts of docs/accelerators.md that are made from the adapters."""

from __future__ import annotations

from collections.abc import Iterator

from edge_runtime.providers.adapter import Adapter
from edge_runtime.providers.adapters import ADAPTERS
from inference_protocol.provider_policy import CPU


def overview() -> str:
    """Return the table of providers."""
    lines = [
        "| name | ONNX Runtime's name | computes on | how to have it | shapes |",
        "| --- | --- | --- | --- | --- |",
    ]
    for adapter in ADAPTERS:
        static = ", ".join(sorted(adapter.static_on))
        shapes = "free" if not static else "fixed" if len(adapter.static_on) > 1 else f"fixed on {static}"
        lines.append(f"| `{adapter.name}` | `{adapter.provider}` | {adapter.hardware} | {adapter.install} | {shapes} |")
    return "\n".join(lines)


def options() -> str:
    """Return a table of options for each provider but the CPU, which takes none."""
    return "\n\n".join("\n".join(_options(adapter)) for adapter in ADAPTERS if adapter.name != CPU)


def _options(adapter: Adapter) -> Iterator[str]:
    yield f"**`{adapter.name}`**"
    yield ""
    yield "| option | meaning | unless told otherwise |"
    yield "| --- | --- | --- |"
    for option in adapter.options:
        kept = option.name == adapter.cache_option
        default = "below `state_dir/compiled`" if kept else f"`{option.default}`" if option.default else ""
        yield f"| `{option.name}` | {option.meaning} | {default} |"


if __name__ == "__main__":
    print(overview(), options(), sep="\n\n")  # noqa: T201  # the page's text
