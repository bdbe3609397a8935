"""What the gateway remembers from one request to the next and over restarts: keys, and labels of conversations."""
