"""The front door: takes requests in, has them decided, lets out only what was cleared, and shows what happened."""
