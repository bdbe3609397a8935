"""How the gateway and its targets stand, read when somebody asks. Nothing here is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum

from gateway.kept.room import KeptRoom
from gateway.metrics import instruments
from gateway.policies.rollout import Rollout
from gateway.records.log import RecordLog
from gateway.targets.breaker import BreakerState
from gateway.targets.connectivity import ConnectivityWatch
from gateway.targets.registry import Targets
from gateway.targets.replica import Replica
from inference_protocol.runtime_state import RuntimeState
from observability.meters import Instrument, Reading
from routing_policies.snapshot import Connectivity, Health
from serving.in_flight import InFlight


class StateMetrics:
    """Reads the rooms."""

    def __init__(
        self,
        targets: Targets,
        rollout: Rollout,
        records: RecordLog,
        admission: InFlight,
        connectivity: ConnectivityWatch,
        kept: KeptRoom,
        *,
        clock: Callable[[], float],
    ) -> None:
        """Know the rooms; `clock` gives monotonic seconds."""
        self._targets = targets
        self._rollout = rollout
        self._records = records
        self._admission = admission
        self._connectivity = connectivity
        self._kept = kept
        self._clock = clock

    def read(self) -> Iterator[Reading]:
        """Yield how everything stands now."""
        yield Reading(instruments.RECORDS_FAILED, self._records.failed)
        yield Reading(instruments.IN_FLIGHT, self._admission.count)
        yield from _policy(self._rollout)
        yield from _one_of(instruments.CONNECTIVITY, Connectivity, self._connectivity.state)
        yield Reading(instruments.KEPT_RUNNING, len(self._kept.answers.running_ids()))
        yield Reading(instruments.KEPT_SIZE, self._kept.answers.bytes)
        yield Reading(instruments.OUTBOX_WAITING, self._kept.waiting)
        now = self._clock()
        for target in self._targets:
            yield Reading(instruments.TARGET_WAITING, target.pool.waiting, (target.name,))
            for replica in target.pool:
                yield from _endpoint(replica, (target.name, replica.endpoint.text), now)


def _policy(rollout: Rollout) -> Iterator[Reading]:
    change = rollout.last_change
    yield Reading(instruments.POLICY_VERSION, rollout.holder.in_force.stable.number)
    yield Reading(instruments.POLICY_STALE, rollout.stale_s)
    yield Reading(instruments.POLICY_LOOSER, len(change.looser) if change is not None else 0)
    yield Reading(instruments.POLICY_HELD, rollout.held is not None)


def _endpoint(replica: Replica, of: tuple[str, str], now: float) -> Iterator[Reading]:
    health, _, _ = replica.standing(now)
    yield from _one_of(instruments.ENDPOINT_HEALTH, Health, health, of)
    yield from _one_of(instruments.BREAKER, BreakerState, replica.breaker.state(now), of)
    yield Reading(instruments.ENDPOINT_IN_FLIGHT, replica.in_flight, of)
    if replica.state is not None:
        yield from _engine(replica.state, of)


def _engine(state: RuntimeState, of: tuple[str, str]) -> Iterator[Reading]:
    yield Reading(instruments.ENGINE_SLOTS, state.slots, of)
    yield Reading(instruments.ENGINE_RUNNING, state.running, of)
    yield Reading(instruments.ENGINE_WAITING, state.waiting, of)
    yield Reading(instruments.ENGINE_PREFILL_QUEUED, state.prefill_tokens_queued, of)
    if state.prefill_tokens_per_s is not None:
        yield Reading(instruments.ENGINE_PREFILL_SPEED, state.prefill_tokens_per_s, of)
    for batch, ms in state.ms_per_token.items():
        yield Reading(instruments.ENGINE_STEP, ms / 1000, (*of, str(batch)))
    yield Reading(instruments.ENGINE_DRAFTED, state.drafted_tokens, of)
    yield Reading(instruments.ENGINE_ACCEPTED, state.accepted_tokens, of)


def _one_of(
    instrument: Instrument, words: type[StrEnum], current: StrEnum, of: tuple[str, ...] = ()
) -> Iterator[Reading]:
    """A reading for each word: 1 for the current one, so that a graph shows when it changed."""
    for word in words:
        yield Reading(instrument, word is current, (*of, word.value))
