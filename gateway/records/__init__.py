"""What was decided and how it ended, one JSON line each, written down without any content of the request."""
