"""Every telemetry name we emit, as literals: they are a contract with dashboards, and no dependency may rename them.

HTTP names follow the stable HTTP semantic conventions; `gen_ai.*` follows semantic-conventions-genai v0.1.0; ours
stand under `tidegate.*`.
"""

# Spans and attributes of HTTP.
HTTP_REQUEST_METHOD = "http.request.method"
HTTP_ROUTE = "http.route"
HTTP_RESPONSE_STATUS_CODE = "http.response.status_code"
URL_PATH = "url.path"
URL_SCHEME = "url.scheme"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
ERROR_TYPE = "error.type"

# Generative AI.
GEN_AI_OPERATION_NAME = "gen_ai.operation.name"
GEN_AI_PROVIDER_NAME = "gen_ai.provider.name"
GEN_AI_REQUEST_MODEL = "gen_ai.request.model"
GEN_AI_REQUEST_STREAM = "gen_ai.request.stream"
GEN_AI_REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
GEN_AI_REQUEST_ENCODING_FORMATS = "gen_ai.request.encoding_formats"
GEN_AI_EMBEDDINGS_DIMENSION_COUNT = "gen_ai.embeddings.dimension.count"
GEN_AI_RESPONSE_FINISH_REASONS = "gen_ai.response.finish_reasons"
GEN_AI_TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
GEN_AI_INPUT_TOKENS = "gen_ai.usage.input_tokens"
GEN_AI_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
GEN_AI_CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
GEN_AI_TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105  # no password

# What the conventions call each task.
OPERATIONS = {"chat": "chat", "completion": "text_completion", "embedding": "embeddings", "tensor": "infer"}

# Ours.
REQUEST_ID = "tidegate.request_id"
OUTCOME = "tidegate.outcome"
TARGET = "tidegate.target"
REASON = "tidegate.reason"
POLICY_NAME = "tidegate.policy.name"
POLICY_DIGEST = "tidegate.policy.digest"
POLICY_VERSION = "tidegate.policy.version"
POLICY_ARM = "tidegate.policy.arm"
LABEL_CLASS = "tidegate.label.class"
LABEL_TAGS = "tidegate.label.tags"
ANSWER_FINDINGS = "tidegate.answer.findings"
SCORE_LATENCY = "tidegate.score.latency"
SCORE_PRIVACY = "tidegate.score.privacy"
SCORE_SIZE = "tidegate.score.size"
ATTEMPT = "tidegate.attempt"
ATTEMPT_CAUSE = "tidegate.attempt.cause"
PARSE_MS = "tidegate.parse_ms"
SCAN_MS = "tidegate.scan_ms"
DETECT_MS = "tidegate.detect_ms"
DECIDE_MS = "tidegate.decide_ms"
RECORD_MS = "tidegate.record_ms"
RELAY_MS = "tidegate.relay_ms"
QUEUE_MS = "tidegate.queue_ms"
PREFILL_MS = "tidegate.prefill_ms"
DECODE_MS = "tidegate.decode_ms"
PREDICTED_TTFT_MS = "tidegate.predicted.ttft_ms"
PREDICTED_TOTAL_MS = "tidegate.predicted.total_ms"
BUDGET_TOTAL_MS = "tidegate.budget.total_ms"
BUDGET_TTFT_MS = "tidegate.budget.ttft_ms"
EXECUTION_PROVIDER = "tidegate.execution_provider"
EXECUTION_INSTEAD_OF = "tidegate.execution_provider.instead_of"
TENANT = "tidegate.tenant"
TARGET_KIND = "tidegate.target.kind"
ENDPOINT = "tidegate.endpoint"
PART = "tidegate.part"
FALLBACK_FROM = "tidegate.fallback.from"
HEALTH = "tidegate.health"
BREAKER = "tidegate.breaker"
CONNECTIVITY = "tidegate.connectivity"
BATCH = "tidegate.batch"
CURRENCY = "tidegate.currency"
LISTENER = "tidegate.listener"
DROP_REASON = "tidegate.drop.reason"

# Metrics of generative AI: what callers saw of this server, and what its attempts saw of targets.
METRIC_SERVER_DURATION = "gen_ai.server.request.duration"
METRIC_SERVER_TTFT = "gen_ai.server.time_to_first_token"
METRIC_SERVER_TPOT = "gen_ai.server.time_per_output_token"
METRIC_CLIENT_DURATION = "gen_ai.client.inference.duration"
METRIC_CLIENT_FIRST_CHUNK = "gen_ai.client.inference.time_to_first_chunk"
METRIC_CLIENT_INPUT_TOKENS = "gen_ai.client.inference.usage.input_tokens"
METRIC_CLIENT_OUTPUT_TOKENS = "gen_ai.client.inference.usage.output_tokens"
METRIC_CLIENT_CACHED_TOKENS = "gen_ai.client.inference.usage.cache_read.input_tokens"
METRIC_CLIENT_INPUT_SIZE = "gen_ai.client.inference.operation.input_tokens"
METRIC_CLIENT_OUTPUT_SIZE = "gen_ai.client.inference.operation.output_tokens"
# What conventions 1.41 and older called three of them; its tokens are told apart by their type.
METRIC_CLIENT_DURATION_1_41 = "gen_ai.client.operation.duration"
METRIC_CLIENT_FIRST_CHUNK_1_41 = "gen_ai.client.operation.time_to_first_chunk"
METRIC_CLIENT_TOKENS_1_41 = "gen_ai.client.token.usage"

# Metrics of ours.
METRIC_REQUESTS = "tidegate.requests"
METRIC_DENIALS = "tidegate.denials"
METRIC_ATTEMPTS = "tidegate.attempts"
METRIC_FALLBACKS = "tidegate.fallbacks"
METRIC_EGRESS = "tidegate.egress"
METRIC_RESTRICTED_TO_CLOUD = "tidegate.egress.restricted_to_cloud"
METRIC_COST = "tidegate.cost"
METRIC_ENERGY = "tidegate.energy.estimated"
METRIC_PART_DURATION = "tidegate.part.duration"
METRIC_RECORDS_FAILED = "tidegate.records.failed"
METRIC_IN_FLIGHT = "tidegate.in_flight"
METRIC_POLICY_VERSION = "tidegate.policy.version"
METRIC_POLICY_STALE = "tidegate.policy.stale"
METRIC_POLICY_LOOSER = "tidegate.policy.looser"
METRIC_POLICY_HELD = "tidegate.policy.held"
METRIC_CONNECTIVITY = "tidegate.connectivity.state"
METRIC_ENDPOINT_HEALTH = "tidegate.endpoint.health"
METRIC_BREAKER = "tidegate.endpoint.breaker"
METRIC_ENDPOINT_IN_FLIGHT = "tidegate.endpoint.in_flight"
METRIC_TARGET_WAITING = "tidegate.target.waiting"
METRIC_KEPT_RUNNING = "tidegate.kept.running"
METRIC_KEPT_SIZE = "tidegate.kept.size"
METRIC_OUTBOX_WAITING = "tidegate.outbox.waiting"
METRIC_ENGINE_SLOTS = "tidegate.engine.slots"
METRIC_ENGINE_RUNNING = "tidegate.engine.running"
METRIC_ENGINE_WAITING = "tidegate.engine.waiting"
METRIC_ENGINE_PREFILL_QUEUED = "tidegate.engine.prefill_queued"
METRIC_ENGINE_PREFILL_SPEED = "tidegate.engine.prefill_speed"
METRIC_ENGINE_STEP = "tidegate.engine.step.duration"
METRIC_ENGINE_DRAFTED = "tidegate.engine.drafted"
METRIC_ENGINE_ACCEPTED = "tidegate.engine.accepted"
METRIC_SPOOLED = "tidegate.telemetry.spooled"
METRIC_TELEMETRY_DROPPED = "tidegate.telemetry.dropped"
METRIC_TELEMETRY_REJECTED = "tidegate.telemetry.rejected"

# Parts of a request's way that its SERVER span times, in the order in which they follow each other.
PARTS_MS = {
    "parse": PARSE_MS,
    "scan": SCAN_MS,
    "decide": DECIDE_MS,
    "detect": DETECT_MS,
    "record": RECORD_MS,
    "queue": QUEUE_MS,
    "prefill": PREFILL_MS,
    "decode": DECODE_MS,
    "relay": RELAY_MS,
}
