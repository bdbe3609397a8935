"""Speech by rule: a buzzing source through the resonances of vowels, in syllables. Silero takes it for speech."""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RATE = 16000
Sound = NDArray[np.float32]
_VOWELS = ((730, 1090, 2440), (530, 1840, 2480), (270, 2290, 3010), (570, 840, 2410), (300, 870, 2240))


def speech(seconds: float) -> Sound:
    pieces: list[NDArray[Any]] = []
    while sum(map(len, pieces)) < seconds * RATE:
        at = len(pieces) // 2
        pieces += [0.3 * _syllable(_VOWELS[at % 5], 120 + 15 * (at % 3), at), np.zeros(RATE * 3 // 100)]
    return np.concatenate(pieces)[: int(seconds * RATE)].astype(np.float32)


def write_wave(path: Path, sound: Sound) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((sound * 32767).astype("<i2").tobytes())


def _syllable(formants: tuple[int, int, int], pitch: float, seed: int) -> NDArray[Any]:
    length = RATE * 18 // 100
    time = np.arange(length) / RATE
    falling = pitch * (1 + 0.04 * np.sin(2 * np.pi * 3 * time)) * (1.1 - 0.2 * time / time[-1])
    pulses = np.diff(np.floor(np.cumsum(falling) / RATE), prepend=0.0)
    sound = pulses + 0.02 * np.random.default_rng(seed).standard_normal(length)
    for frequency, bandwidth in zip(formants, (80, 90, 120), strict=True):
        sound = _resonated(sound, frequency, bandwidth)
    return sound / np.abs(sound).max() * np.sqrt(np.hanning(length))


def _resonated(sound: NDArray[Any], frequency: float, bandwidth: float) -> NDArray[Any]:
    radius = np.exp(-np.pi * bandwidth / RATE)
    first, second = 2 * radius * np.cos(2 * np.pi * frequency / RATE), -radius * radius
    found = np.zeros(len(sound) + 2)
    for at, value in enumerate(sound):
        found[at + 2] = (1 - first - second) * value + first * found[at + 1] + second * found[at]
    return found[2:]
