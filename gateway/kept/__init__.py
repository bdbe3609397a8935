"""Requests and answers that outlive their callers: finished without them, or put off until somebody can answer."""
