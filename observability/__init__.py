"""Telemetry set-up that all three programs share: providers, exporters, propagation. Knows nothing of requests."""
