"""One target: its addresses, what it can do, and what its answers have taught."""

from __future__ import annotations

import dataclasses

from gateway.target_settings import TargetProtocol, TargetSettings
from gateway.targets.pool import Pool
from gateway.targets.replica import Replica
from gateway.targets.retry_budget import RetryBudget
from inference_protocol.capability import FURTHER_PARAMETERS
from inference_protocol.request import GENERATES, Task
from inference_protocol.runtime_state import RuntimeState, ServedModel
from routing_policies.latency_model import Observations
from routing_policies.snapshot import Capabilities, Health

# The health of the best of its addresses is a target's.
_BEST_FIRST = (
    Health.UP,
    Health.UNKNOWN,
    Health.RESTING,
    Health.FAILING,
    Health.STARTING,
    Health.DRAINING,
    Health.DOWN,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Standing:
    """How a target stands now.

    Attributes:
        detail: For a person: why it is not up.
        back_in_s: Seconds until it can be asked again, where that is known.
    """

    health: Health
    detail: str | None = None
    back_in_s: float | None = None


class Target:
    """One target's settings, addresses and account.

    Attributes:
        credential: Its own `Authorization` header; bound to its addresses, never a caller's.
        pool: Its addresses.
        retries: What faults may add to its load.
    """

    def __init__(
        self,
        name: str,
        settings: TargetSettings,
        credential: dict[str, str],
        pool: Pool,
        retries: RetryBudget,
    ) -> None:
        """Wire a target; nothing is opened yet. `credential` is its `Authorization` header, or nothing."""
        self.name = name
        self.settings = settings
        self.credential = credential
        self.pool = pool
        self.retries = retries
        self._observed: dict[Task, Observations] = {}
        self._cards: tuple[ServedModel, ...] = ()
        self._capabilities: dict[str, Capabilities] = {}

    @property
    def in_flight(self) -> int:
        """Attempts of ours that it is working on."""
        return sum(replica.in_flight for replica in self.pool)

    @property
    def health(self) -> Health:
        """What probes found of the best of its addresses."""
        return min((replica.health for replica in self.pool), key=_BEST_FIRST.index)

    @property
    def detail(self) -> str | None:
        """For a person: why it is not up."""
        health = self.health
        return next(replica.detail for replica in self.pool if replica.health is health)

    @property
    def state(self) -> RuntimeState | None:
        """What the address that a prediction is made for last reported."""
        return self.pool.best().state

    def standing(self, now: float) -> Standing:
        """How it stands: as the best of its addresses, with breakers and rests taken in."""
        found = [Standing(*replica.standing(now)) for replica in self.pool]
        if len(found) == 1:
            return found[0]
        return min(found, key=lambda each: (_BEST_FIRST.index(each.health), each.back_in_s or 0.0))

    def waiting(self, replica: Replica) -> int | None:
        """Requests that wait at an address or for it; `None` where it does not say."""
        return None if replica.state is None else replica.state.waiting + self.pool.waiting

    def reported(self, replica: Replica, state: RuntimeState) -> None:
        """Take in what one of its addresses reported."""
        replica.reported(state)
        if state.models and state.models != self._cards:
            # Kept when the report is lost: what a model can do does not end with its process.
            self._cards = state.models
            self._capabilities.clear()
        self.pool.review()

    def observed(self, task: Task) -> Observations:
        """What its answers have taught the latency model, of a task: vectors say nothing about tokens."""
        return self._observed.get(_account(task), Observations())

    def learn(self, task: Task, observations: Observations) -> None:
        """Keep what is known after one more answer."""
        self._observed[_account(task)] = observations

    def renew_credential(self) -> None:
        """Read the credential again; it may have been replaced.

        Raises:
            ValueError: It cannot be read; the old one stays in use.
        """
        if self.settings.credential is not None and self.settings.credential.env is None:
            self.credential.update(self.settings.credential_headers())

    def capabilities(self, public_model: str) -> Capabilities:
        """What it can do under a public model name: its own word where it gives one, else the settings'."""
        found = self._capabilities.get(public_model)
        if found is None:
            found = self._read_capabilities(public_model)
            if found.served_model is not None:
                self._capabilities[public_model] = found
        return found

    def _read_capabilities(self, public_model: str) -> Capabilities:
        served = self.settings.models.get(public_model)
        if served is None:
            return Capabilities(None)
        told = next((model for model in self._cards if model.id == served), None)
        if told is not None:
            return Capabilities(
                served,
                window=told.window,
                tasks=told.tasks,
                tools=told.tools,
                json_schema=told.json_schema,
                images=told.images,
                audio=told.audio,
                logprobs=told.logprobs,
                max_n=told.max_n,
                parameters=told.parameters,
            )
        if self.settings.protocol is TargetProtocol.TIDEGATE:
            # Until it has told anything, it may do everything; a model that it leaves out then generates.
            return Capabilities(served, tasks=GENERATES if self._cards else frozenset(Task))
        can: dict[str, bool] = self.settings.capabilities.model_dump()
        further = {Task.EMBEDDING: can.pop("embeddings"), Task.TENSOR: can.pop("tensors")}
        tasks = GENERATES | {task for task, yes in further.items() if yes}
        # Who speaks OpenAI's protocol knows its parameters, or says itself which it does not.
        return Capabilities(
            served, self.settings.window, tasks, max_n=self.settings.max_n, parameters=FURTHER_PARAMETERS, **can
        )


def _account(task: Task) -> Task:
    """The task that another one's times are those of: text is generated alike, whatever asks for it."""
    return Task.CHAT if task in GENERATES else task
