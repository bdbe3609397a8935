"""Header names on the wire, in one place, lower case as ASGI delivers them."""

# What a caller may send.
DATA_CLASS = "x-data-class"
DATA_TAGS = "x-data-tags"
LATENCY_BUDGET_MS = "x-latency-budget-ms"
TTFT_BUDGET_MS = "x-ttft-budget-ms"
GRPC_TIMEOUT = "grpc-timeout"
ENVOY_EXPECTED_TIMEOUT_MS = "x-envoy-expected-rq-timeout-ms"
LLM_D_SLO_TTFT_MS = "x-llm-d-slo-ttft-ms"
LLM_D_SLO_TPOT_MS = "x-llm-d-slo-tpot-ms"
STAINLESS_READ_TIMEOUT = "x-stainless-read-timeout"
SAVE_DATA = "save-data"
CLIENT_NETWORK = "x-client-network"
CLIENT_BATTERY = "x-client-battery"
EFFECTIVE_TYPE = "ect"
TRACEPARENT = "traceparent"
AUTHORIZATION = "authorization"
ON_DISCONNECT = "x-on-disconnect"
LAST_EVENT_ID = "last-event-id"
IDEMPOTENCY_KEY = "idempotency-key"
INFERENCE_JSON_LENGTH = "inference-header-content-length"

# What the gateway answers with.
REQUEST_ID = "x-request-id"
TARGET = "x-tidegate-target"
REASON = "x-tidegate-reason"
DECISION = "x-tidegate-decision"
POLICY = "x-tidegate-policy"
LABEL = "x-tidegate-label"
SCORES = "x-tidegate-scores"
SERVER_TIMING = "server-timing"
# What computed the answer, which our runtimes say and the gateway passes on: `NAME` or `NAME; instead-of=NAME`.
PROVIDER = "x-tidegate-provider"
RETRY_AFTER = "retry-after"
# Of the caller's own limits, as OpenAI's API names them; only where there are any.
RATELIMIT_LIMIT_REQUESTS = "x-ratelimit-limit-requests"
RATELIMIT_REMAINING_REQUESTS = "x-ratelimit-remaining-requests"
RATELIMIT_RESET_REQUESTS = "x-ratelimit-reset-requests"
RATELIMIT_LIMIT_TOKENS = "x-ratelimit-limit-tokens"
RATELIMIT_REMAINING_TOKENS = "x-ratelimit-remaining-tokens"
RATELIMIT_RESET_TOKENS = "x-ratelimit-reset-tokens"

# What the gateway tells our runtimes: `truncate` makes them stop in time for the budget that is left.
LATE = "x-tidegate-late"
# And: `prefix` lets them write keys and values of the prompt to the disk, for prompts that begin alike.
KEEP = "x-tidegate-keep"

# Everything under this prefix is ours to say; a caller's own is stripped before anything reads it.
OWN_PREFIX = "x-tidegate-"
