"""What the gateway measures, by the names that Prometheus knows it under."""

from __future__ import annotations

from gateway.metrics import instruments
from observability.delivery import OF_DELIVERY
from observability.meters import Instrument, InstrumentKind
from observability.prometheus import family_name, label_name


def labels_by_metric() -> dict[str, frozenset[str]]:
    """Return the labels of each series that the gateway can show."""
    clients = instruments.client_instruments("genai-0.1").all
    every = (*instruments.OF_REQUESTS, *clients, *instruments.OF_STATE, *OF_DELIVERY)
    return {name: labels for each in every for name, labels in _series(each)}


def _series(instrument: Instrument) -> list[tuple[str, frozenset[str]]]:
    name = family_name(instrument)
    labels = frozenset(map(label_name, instrument.attributes))
    if instrument.kind is InstrumentKind.HISTOGRAM:
        return [(f"{name}_bucket", labels | {"le"}), (f"{name}_sum", labels), (f"{name}_count", labels)]
    if instrument.kind is InstrumentKind.COUNTER:
        return [(name if name.endswith("_total") else f"{name}_total", labels)]
    return [(name, labels)]
