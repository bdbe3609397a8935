"""From a settings file and the environment to settings; what is wrong is said with file, line and what is allowed.

A variable stands above the file: `TIDEGATE_LISTEN__PORT=9000` is `listen.port`. Lists are written as JSON.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError as BrokenVariable

from gateway.settings import Settings
from routing_policies.policy.errors import PolicyError
from routing_policies.policy.validation import first_error
from routing_policies.policy.yaml_source import Source, read

# Fields that hold a secret where somebody mistakes what belongs there.
_SECRET = ("credential", "secret_sha256")
DEFAULT_FILE = Path("tidegate.yaml")


class SettingsError(ValueError):
    """The settings are wrong. The message begins with file, line and column."""


class _WithEnvironment(Settings, BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix="TIDEGATE_",
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        nested_model_default_partial_update=True,
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment, then the file."""
        return (env_settings, init_settings)


def load_settings(path: Path | None) -> Settings:
    """Load a settings file; without one, `tidegate.yaml` of this folder where it exists, else the defaults.

    Raises:
        SettingsError: It cannot be read or is wrong.
    """
    found = path if path is not None else DEFAULT_FILE if DEFAULT_FILE.is_file() else None
    try:
        source = Source("the defaults", "", {}, {}, {}) if found is None else read(_text(found), str(found), "settings")
        return _checked(source)
    except PolicyError as exc:
        raise SettingsError(str(exc)) from None


def _checked(source: Source) -> Settings:
    try:
        return _WithEnvironment(**source.value)
    except ValidationError as exc:
        raise first_error(exc, source, Settings, secret=_SECRET) from None
    except BrokenVariable as exc:
        # Its own message and cause are left out: they quote what the variable holds.
        name = str(exc).partition('"')[2].partition('"')[0]
        raise SettingsError(f"the environment: what is set of `{name}` is not JSON") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as exc:
        raise SettingsError(f"{path}: cannot be read: {exc.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: is not UTF-8") from None
