"""The second tier: detectors that cost a request milliseconds, asked only where their word could change the verdict."""
