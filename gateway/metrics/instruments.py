"""Every instrument of the gateway: name, unit, sentence, attributes, buckets. `docs/telemetry.md` is made of it."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.telemetry_settings import GenAiConventions
from inference_protocol import telemetry_names as names
from observability.meters import Instrument, InstrumentKind

_COUNTER, _GAUGE, _HISTOGRAM = InstrumentKind.COUNTER, InstrumentKind.GAUGE, InstrumentKind.HISTOGRAM

# The buckets that the conventions recommend; first tokens from slow places take longer than those know.
_DURATION = tuple(0.01 * 2**step for step in range(14))
_TOKENS = tuple(float(4**step) for step in range(14))
_FIRST_TOKEN = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(15.0, 20.0, 30.0, 45.0, 60.0),
)
_PER_TOKEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
_PART = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0)

_OPERATION = (names.GEN_AI_OPERATION_NAME, names.GEN_AI_PROVIDER_NAME, names.GEN_AI_REQUEST_MODEL)
_AT_TARGET = (*_OPERATION, names.TARGET)
_AT_ENDPOINT = (names.TARGET, names.ENDPOINT)


SERVER_DURATION = Instrument(
    names.METRIC_SERVER_DURATION,
    _HISTOGRAM,
    "s",
    "From a request's arrival to the end of its answer.",
    (*_OPERATION, names.ERROR_TYPE),
    _DURATION,
)
SERVER_TTFT = Instrument(
    names.METRIC_SERVER_TTFT,
    _HISTOGRAM,
    "s",
    "From a request's arrival to the first content of its streamed answer.",
    _OPERATION,
    _FIRST_TOKEN,
)
SERVER_TPOT = Instrument(
    names.METRIC_SERVER_TPOT,
    _HISTOGRAM,
    "s",
    "Of a streamed answer: the time after its first token, for each further token.",
    _OPERATION,
    _PER_TOKEN,
)

_CLIENT_DURATION_HELP = "One attempt at a target, to the end of its answer."
_CLIENT_FIRST_CHUNK_HELP = "One streamed attempt at a target, to its first content."


@dataclass(frozen=True, slots=True)
class ClientInstruments:
    """What is measured of attempts.

    Attributes:
        tokens: Input, cached and output tokens: a counter each, or one histogram that tells them apart by their type.
        sizes: Input and output tokens of one attempt, where they are not told apart by their type.
    """

    duration: Instrument
    first_chunk: Instrument
    tokens: tuple[Instrument, ...]
    sizes: tuple[Instrument, ...] = ()

    @property
    def all(self) -> tuple[Instrument, ...]:
        """Each of them."""
        return (self.duration, self.first_chunk, *self.tokens, *self.sizes)


def client_instruments(conventions: GenAiConventions) -> ClientInstruments:
    """Return them under the names of one generation of conventions."""
    sizes: tuple[Instrument, ...] = ()
    if conventions == "semconv-1.41":
        duration, first_chunk = names.METRIC_CLIENT_DURATION_1_41, names.METRIC_CLIENT_FIRST_CHUNK_1_41
        tokens: tuple[Instrument, ...] = (
            Instrument(
                names.METRIC_CLIENT_TOKENS_1_41,
                _HISTOGRAM,
                "{token}",
                "Tokens of one attempt, as the target reported them.",
                (*_AT_TARGET, names.GEN_AI_TOKEN_TYPE),
                _TOKENS,
            ),
        )
    else:
        duration, first_chunk = names.METRIC_CLIENT_DURATION, names.METRIC_CLIENT_FIRST_CHUNK
        told = {
            names.METRIC_CLIENT_INPUT_TOKENS: "Tokens of prompts, as targets reported them.",
            names.METRIC_CLIENT_CACHED_TOKENS: "Those of them that a target had read before and kept.",
            names.METRIC_CLIENT_OUTPUT_TOKENS: "Tokens of answers, as targets reported them.",
        }
        tokens = tuple(Instrument(name, _COUNTER, "{token}", text, _AT_TARGET) for name, text in told.items())
        sized = {
            names.METRIC_CLIENT_INPUT_SIZE: "Tokens of the prompt of one attempt.",
            names.METRIC_CLIENT_OUTPUT_SIZE: "Tokens of the answer to one attempt.",
        }
        sizes = tuple(
            Instrument(name, _HISTOGRAM, "{token}", text, _AT_TARGET, _TOKENS) for name, text in sized.items()
        )
    return ClientInstruments(
        Instrument(duration, _HISTOGRAM, "s", _CLIENT_DURATION_HELP, (*_AT_TARGET, names.ERROR_TYPE), _DURATION),
        Instrument(first_chunk, _HISTOGRAM, "s", _CLIENT_FIRST_CHUNK_HELP, _AT_TARGET, _DURATION),
        tokens,
        sizes,
    )


REQUESTS = Instrument(
    names.METRIC_REQUESTS,
    _COUNTER,
    "{request}",
    "Requests that are over, by how they ended.",
    (names.HTTP_ROUTE, names.OUTCOME, names.TARGET, names.LABEL_CLASS, names.TENANT),
)
ATTEMPTS = Instrument(
    names.METRIC_ATTEMPTS,
    _COUNTER,
    "{attempt}",
    "Attempts at targets, by why they were made and how they ended; hedges are among them.",
    (names.TARGET, names.ATTEMPT_CAUSE, names.OUTCOME),
)
FALLBACKS = Instrument(
    names.METRIC_FALLBACKS,
    _COUNTER,
    "{attempt}",
    "Attempts that were made since one at another target had failed, by what it had failed with.",
    (names.FALLBACK_FROM, names.TARGET, names.ERROR_TYPE),
)
EGRESS = Instrument(
    names.METRIC_EGRESS,
    _COUNTER,
    "By",
    "Bytes of request bodies that were sent to a target; `edge` is this device.",
    (names.TARGET, names.TARGET_KIND),
)
DENIALS = Instrument(
    names.METRIC_DENIALS,
    _COUNTER,
    "{request}",
    "Requests that were turned away before anything of them was read: callers nobody knows, pages of other origins.",
    (names.LISTENER, names.ERROR_TYPE),
)
RESTRICTED_TO_CLOUD = Instrument(
    names.METRIC_RESTRICTED_TO_CLOUD,
    _COUNTER,
    "{attempt}",
    "Attempts that sent restricted data to a target of kind `cloud`. Anything but 0 is an incident.",
)
COST = Instrument(
    names.METRIC_COST,
    _COUNTER,
    "{currency}",
    "What tokens have cost, by the prices that the policy declares.",
    (names.TARGET, names.CURRENCY),
)
ENERGY = Instrument(
    names.METRIC_ENERGY,
    _COUNTER,
    "J",
    "Declared watts times the time that attempts took: an estimate, since requests at once share a machine.",
    (names.TARGET,),
)
PART_DURATION = Instrument(
    names.METRIC_PART_DURATION,
    _HISTOGRAM,
    "s",
    "What a part of a request's way through the gateway took.",
    (names.PART,),
    _PART,
)


def _gauge(name: str, unit: str, text: str, attributes: tuple[str, ...] = ()) -> Instrument:
    return Instrument(name, _GAUGE, unit, text, attributes)


RECORDS_FAILED = Instrument(
    names.METRIC_RECORDS_FAILED,
    _COUNTER,
    "{record}",
    "Records that could not be written. A request whose decision is among them did not leave.",
)
IN_FLIGHT = _gauge(names.METRIC_IN_FLIGHT, "{request}", "Requests that are being worked on.")
POLICY_VERSION = _gauge(names.METRIC_POLICY_VERSION, "{version}", "Number of the policy's version in force.")
POLICY_STALE = _gauge(
    names.METRIC_POLICY_STALE,
    "s",
    "For how long the policy's file has held something that cannot be put in force; or 0.",
)
POLICY_LOOSER = _gauge(
    names.METRIC_POLICY_LOOSER, "{way}", "In how many ways the policy in force is looser than the one before it."
)
POLICY_HELD = _gauge(names.METRIC_POLICY_HELD, "{policy}", "Policies that wait for signatures.")
CONNECTIVITY = _gauge(
    names.METRIC_CONNECTIVITY, "{state}", "1 for how this device is connected, 0 for all else.", (names.CONNECTIVITY,)
)
ENDPOINT_HEALTH = _gauge(
    names.METRIC_ENDPOINT_HEALTH,
    "{state}",
    "1 for how a target's address stands, 0 for all else.",
    (*_AT_ENDPOINT, names.HEALTH),
)
BREAKER = _gauge(
    names.METRIC_BREAKER,
    "{state}",
    "1 for how an address's breaker stands, 0 for all else.",
    (*_AT_ENDPOINT, names.BREAKER),
)
ENDPOINT_IN_FLIGHT = _gauge(
    names.METRIC_ENDPOINT_IN_FLIGHT, "{attempt}", "Attempts of this gateway that an address works on.", _AT_ENDPOINT
)
TARGET_WAITING = _gauge(
    names.METRIC_TARGET_WAITING, "{attempt}", "Attempts that wait here for a place at a target.", (names.TARGET,)
)
KEPT_RUNNING = _gauge(
    names.METRIC_KEPT_RUNNING, "{request}", "Answers that are being made and kept, for callers who may have hung up."
)
KEPT_SIZE = _gauge(names.METRIC_KEPT_SIZE, "By", "What kept answers take in memory.")
OUTBOX_WAITING = _gauge(
    names.METRIC_OUTBOX_WAITING, "{request}", "Deferred requests that wait until somebody can answer."
)
ENGINE_SLOTS = _gauge(names.METRIC_ENGINE_SLOTS, "{slot}", "Requests that a runtime can run at once.", _AT_ENDPOINT)
ENGINE_RUNNING = _gauge(names.METRIC_ENGINE_RUNNING, "{request}", "Requests in a runtime's slots.", _AT_ENDPOINT)
ENGINE_WAITING = _gauge(
    names.METRIC_ENGINE_WAITING, "{request}", "Requests that wait in a runtime for a slot.", _AT_ENDPOINT
)
ENGINE_PREFILL_QUEUED = _gauge(
    names.METRIC_ENGINE_PREFILL_QUEUED, "{token}", "Prompt tokens that a runtime has still to read.", _AT_ENDPOINT
)
ENGINE_PREFILL_SPEED = _gauge(
    names.METRIC_ENGINE_PREFILL_SPEED, "{token}/s", "How fast a runtime reads a prompt, alone.", _AT_ENDPOINT
)
ENGINE_STEP = _gauge(
    names.METRIC_ENGINE_STEP,
    "s",
    "One decode step of so many requests: the time per token of each.",
    (*_AT_ENDPOINT, names.BATCH),
)
ENGINE_DRAFTED = Instrument(
    names.METRIC_ENGINE_DRAFTED, _COUNTER, "{token}", "Tokens that a runtime guessed and checked.", _AT_ENDPOINT
)
ENGINE_ACCEPTED = Instrument(
    names.METRIC_ENGINE_ACCEPTED, _COUNTER, "{token}", "Those of them that the model said too.", _AT_ENDPOINT
)

OF_REQUESTS = (
    *(SERVER_DURATION, SERVER_TTFT, SERVER_TPOT),
    *(REQUESTS, DENIALS, ATTEMPTS, FALLBACKS, EGRESS, RESTRICTED_TO_CLOUD, COST, ENERGY, PART_DURATION),
)
OF_STATE = (
    *(RECORDS_FAILED, IN_FLIGHT, POLICY_VERSION, POLICY_STALE, POLICY_LOOSER, POLICY_HELD, CONNECTIVITY),
    *(ENDPOINT_HEALTH, BREAKER, ENDPOINT_IN_FLIGHT, TARGET_WAITING),
    *(KEPT_RUNNING, KEPT_SIZE, OUTBOX_WAITING),
    *(ENGINE_SLOTS, ENGINE_RUNNING, ENGINE_WAITING, ENGINE_PREFILL_QUEUED, ENGINE_PREFILL_SPEED, ENGINE_STEP),
    *(ENGINE_DRAFTED, ENGINE_ACCEPTED),
)
