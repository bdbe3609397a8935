"""The large model's server: an `Engine` on torch (or, on a GPU pool, vLLM) behind `runtime_server`."""
