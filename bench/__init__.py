"""What the speed claims rest on. Each module is run by `make bench-<name>` and writes `bench/results/<name>.json`."""
