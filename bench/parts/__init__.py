"""Programs and clients that several benchmarks are made of."""
