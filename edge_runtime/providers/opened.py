"""A graph that answers, whatever its provider does: what fails in a run is computed on the CPU, in the same request."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edge_runtime.generation.interruption import Interruption
from edge_runtime.providers.adapter import Found
from edge_runtime.providers.faults import Fault, ProviderFailed
from edge_runtime.providers.graph_file import GraphFile
from edge_runtime.providers.process import ProviderProcess
from edge_runtime.providers.sessions import CPU_PROVIDER
from inference_protocol.execution import Execution

Outputs = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Accelerated:
    """A graph on a provider that passed its probe."""

    found: Found
    process: ProviderProcess


class OpenedGraph:
    """One graph. One thread at a time runs it, any may interrupt it.

    Attributes:
        graph: Which one.
        session: On the CPU; it stays open, to answer where a provider does not.
        execution: What computed the last run.
        inputs: Their names.
        outputs: Theirs, in the model's order.
    """

    def __init__(
        self,
        graph: GraphFile,
        session: ort.InferenceSession,
        *,
        run_timeout_s: float,
        failed: Callable[[GraphFile, Found, ProviderFailed], None],
    ) -> None:
        """Begin on the CPU.

        Args:
            graph: Which one it is.
            session: It, on the CPU.
            run_timeout_s: Longest time for a run on a provider.
            failed: Told of a provider that did not do what it was there for.
        """
        self.graph = graph
        self.session: ort.InferenceSession | None = session
        self.execution = Execution(CPU_PROVIDER)
        self.inputs = frozenset(value.name for value in session.get_inputs())
        self.outputs = tuple(value.name for value in session.get_outputs())
        self._run_timeout_s = run_timeout_s
        self._failed = failed
        self._interruption = Interruption()
        self._accelerated: Accelerated | None = None
        self._closed = False

    @property
    def provider(self) -> str:
        """What the next run goes to."""
        return CPU_PROVIDER if self._accelerated is None else self._accelerated.found.provider

    @property
    def accelerated(self) -> Accelerated | None:
        """The provider that it runs on, if that is not the CPU."""
        return self._accelerated

    def move(self, accelerated: Accelerated | None) -> None:
        """Run on this provider from the next run on, or on the CPU. Safe from any thread."""
        before, self._accelerated = self._accelerated, accelerated
        if before is not None:
            before.process.close()
        if self._closed:
            self.close()

    def run(self, feeds: Mapping[str, NDArray[Any]], outputs: Sequence[str] | None = None) -> Outputs:
        """Compute outputs: those that are named, or all.

        Raises:
            Exception: What ONNX Runtime raises on the CPU: the inputs are wrong, or the run was interrupted.
        """
        self._interruption = interruption = Interruption()
        wanted = self.outputs if outputs is None else tuple(outputs)
        accelerated = self._accelerated
        if accelerated is None:
            found = self._on_cpu(feeds, wanted, interruption)
            self.execution = Execution(CPU_PROVIDER)
            return found
        try:
            _, found = accelerated.process.ask({"do": "run", "outputs": wanted}, feeds, timeout_s=self._run_timeout_s)
            if all(map(_finite, found.values())):
                self.execution = Execution(accelerated.found.provider)
                return found
            failure = ProviderFailed(Fault.NOT_FINITE, "it gave values that are not finite where the CPU's are")
        except ProviderFailed as error:
            failure = error
            if error.fault is Fault.REFUSED:  # its words may hold what the request held
                failure = ProviderFailed(
                    Fault.REFUSED, f"it raised {str(error).partition(':')[0]} where the CPU did not"
                )
        return self._instead(accelerated, failure, functools.partial(self._on_cpu, feeds, wanted, interruption))

    def interrupt(self) -> None:
        """End the run in flight, wherever it runs."""
        self._interruption.set()
        if self._accelerated is not None:
            self._accelerated.process.interrupt()

    def close(self) -> None:
        """Give everything back; it is not run again."""
        self._closed = True
        self.session = None
        if self._accelerated is not None:
            self.move(None)

    def _instead(self, accelerated: Accelerated, failure: ProviderFailed, on_cpu: Callable[[], Outputs]) -> Outputs:
        """Compute on the CPU what a provider did not, and say so, unless it was the request's own fault."""
        if not self._interruption.is_set and failure.fault not in {Fault.REFUSED, Fault.NOT_FINITE}:
            self._give_up(accelerated, failure)  # its process is gone, whatever the CPU makes of the request
        found = on_cpu()
        if failure.fault is Fault.NOT_FINITE and not all(map(_finite, found.values())):
            self.execution = Execution(CPU_PROVIDER)  # the model's own doing
            return found
        self._give_up(accelerated, failure)
        self.execution = Execution(CPU_PROVIDER, instead_of=accelerated.found.name)
        return found

    def _give_up(self, accelerated: Accelerated, failure: ProviderFailed) -> None:
        if self._accelerated is accelerated:
            self.move(None)
            self._failed(self.graph, accelerated.found, failure)

    def _on_cpu(self, feeds: Mapping[str, NDArray[Any]], outputs: Sequence[str], interruption: Interruption) -> Outputs:
        assert self.session is not None, "it is not run once it is closed"
        found = self.session.run(list(outputs), dict(feeds), interruption.options())
        return dict(zip(outputs, found, strict=True))


def _finite(array: NDArray[Any]) -> bool:
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())
