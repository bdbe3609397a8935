"""The models that compute tensors, by the names and versions that requests ask for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from inference_protocol.errors import UnknownModel
from inference_protocol.runtime_state import ServedModel
from runtime_server.model_lease import ModelLease
from runtime_server.tensors.service import TensorService


@dataclass(frozen=True, slots=True)
class CataloguedModel:
    """One model with its versions, the one first that is served where none is asked for.

    Attributes:
        served: What is told of it.
        platform: How its graphs are written, as the protocol names that.
        hold: On its folder, for as long as this lives.
    """

    served: ServedModel
    versions: Mapping[str, TensorService]
    platform: str
    hold: ModelLease | None = None


class Catalog:
    """All of them."""

    def __init__(self, models: Collection[CataloguedModel] = ()) -> None:
        """Hold these."""
        self._models = {model.served.id: model for model in models}

    def __iter__(self) -> Iterator[CataloguedModel]:
        return iter(self._models.values())

    def model(self, name: str) -> CataloguedModel:
        """Return a model.

        Raises:
            UnknownModel: There is none of that name.
        """
        found = self._models.get(name)
        if found is None:
            there_are = ", ".join(f"`{each}`" for each in self._models) or "none"
            raise UnknownModel(f"No such model takes tensors here. There are: {there_are}.", param="model")
        return found

    def version(self, name: str, version: str | None) -> tuple[CataloguedModel, str, TensorService]:
        """Return a model, the version that is asked for, and what serves that.

        Raises:
            UnknownModel: There is no such model, or it has no such version.
        """
        model = self.model(name)
        wanted = next(iter(model.versions)) if version is None else version
        service = model.versions.get(wanted)
        if service is None:
            there_are = ", ".join(f"`{each}`" for each in model.versions)
            raise UnknownModel(f"The model has no such version. There are: {there_are}.", param="version")
        return model, wanted, service

    async def aclose(self) -> None:
        """End what runs and let all models go."""
        for model in self._models.values():
            for service in model.versions.values():
                await service.aclose()
            if model.hold is not None:
                model.hold.release()
