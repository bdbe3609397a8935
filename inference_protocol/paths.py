"""Paths on the wire, in one place: what the gateway serves, and what it asks of runtimes."""

CHAT_COMPLETIONS = "/v1/chat/completions"
MODELS = "/v1/models"
ROUTE_EXPLAIN = "/v1/route/explain"
STATE = "/internal/state"
LIVE = "/livez"
READY = "/readyz"
OPENAPI = "/openapi.json"
