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
ERROR_TYPE = "error.type"

# Generative AI.
GEN_AI_OPERATION_NAME = "gen_ai.operation.name"
GEN_AI_PROVIDER_NAME = "gen_ai.provider.name"
GEN_AI_REQUEST_MODEL = "gen_ai.request.model"
GEN_AI_REQUEST_STREAM = "gen_ai.request.stream"
GEN_AI_REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
GEN_AI_RESPONSE_FINISH_REASONS = "gen_ai.response.finish_reasons"
GEN_AI_TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
GEN_AI_INPUT_TOKENS = "gen_ai.usage.input_tokens"
GEN_AI_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
GEN_AI_CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"

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
