"""What a model that knows English alone must not be taken to have read."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.detector_settings import PresidioSettings
from gateway.detectors.detector import DetectorFailed
from gateway.detectors.language import is_other_language
from gateway.detectors.presidio import PresidioDetector
from tests.support.waiting import until

OTHER = {
    "German": "Bitte schreib Frau Schneider, dass die Flut um zwölf kommt und der Kahn im Hafen ist.",
    "French": "Peux-tu dire à Monsieur Lefèvre que la marée est haute et que les bateaux sont dans le port ?",
    "Spanish": "Dile a la señora García que la marea sube por la tarde y que no se olvide del barco.",
    "Portuguese": "Diga ao senhor Souza que a maré sobe à tarde e que não se esqueça do barco.",
    "Italian": "Di' alla signora Rossi che la marea sale di sera e che non si scordi della barca.",
    "Dutch": "Zeg tegen mevrouw De Vries dat het tij van middag hoog is en dat de boot in de haven ligt.",
    "Polish": "Powiedz panu Kowalskiemu, że przypływ jest w południe i że łódź nie stoi na kotwicy.",
    "Swedish": "Säg till fru Lindqvist att det är högvatten och att båten inte ligger i hamnen.",
    "Turkish": "Bayan Yılmaz için bir not: gelgit çok güçlü ve tekne de limanda değil, ne yapalım?",
    "Hungarian": "Mondd meg Szabó úrnak, hogy a dagály délben van és hogy a hajó nem áll a kikötőben.",
    "Russian": "Передай Ивановой, что прилив в полдень.",
    "Greek": "Πες στον κύριο Παπαδόπουλο ότι η παλίρροια έρχεται.",
    "Chinese": "请告诉王小明,涨潮在中午。",
    "Japanese": "田中さんに満潮は正午だと伝えてください。",
    "Korean": "김민수 씨에게 만조는 정오라고 전해 주세요.",
    "Arabic": "أخبر السيد حسن أن المد عند الظهر.",
    "an English frame around German": "Translate: Bitte schreib Frau Schneider, dass die Flut um zwölf kommt und der "
    "Kahn im Hafen ist und wir auf sie mit dem Boot warten.",
}
ENGLISH = (
    "Please tell Jane Miller in Berlin that the tide turns at noon.",
    "Who is Søren Ångström, and was Renée Müller in São Paulo with him?",
    "def tide(at):\n    return [w for w in waves if w.place == at and not w.is_low]",
    '{"name": "Jane Miller", "city": "Den Haag", "de": true, "en": false}',
    "SELECT a, b FROM la WHERE no = 1 AND es IN (1, 2)",
    "What does the word 潮 mean in Japanese, and how is it read in a compound?",
    "",
    "42 + 17 = 59",
)


@asynccontextmanager
async def running(detector: PresidioDetector) -> AsyncIterator[None]:
    task = asyncio.create_task(detector.run())
    try:
        await until(lambda: detector.worker.pid is not None)
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("text", OTHER.values(), ids=OTHER.keys())
def test_another_language_is_told(text: str) -> None:
    assert is_other_language(text)
    assert is_other_language(text * 300)


@pytest.mark.parametrize("text", ENGLISH)
def test_english_and_what_is_in_no_language_pass(text: str) -> None:
    assert not is_other_language(text)


async def test_presidio_is_not_asked_for_what_it_cannot_read_unless_it_shall_be() -> None:
    finds_nothing = (
        "import json,sys\nprint('{\"ready\": true}', flush=True)\n"
        "for line in sys.stdin:\n    asked = json.loads(line)\n"
        "    print(json.dumps({'id': asked['id'], 'found': [[] for _ in asked['texts']]}), flush=True)\n"
    )
    argv = (sys.executable, "-c", finds_nothing)
    german, english = OTHER["German"], ENGLISH[0]
    strict = PresidioDetector(PresidioSettings(), argv)
    lax = PresidioDetector(PresidioSettings(other_languages="read"), argv)
    async with running(strict), running(lax):
        assert await strict.find([english]) == [[]]
        with pytest.raises(DetectorFailed, match="not in English"):
            await strict.find([english, german])
        assert await lax.find([english, german]) == [[], []]
