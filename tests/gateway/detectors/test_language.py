"""What a model that knows English alone must not be taken to have read."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.detector_settings import PresidioSettings
from gateway.detectors.detector import DetectorFailed
from gateway.detectors.language import English
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
    "Danish": "Sig til fru Sørensen at der er højvande klokken tolv og at båden ligger i havnen.",
    "Norwegian": "Si til fru Hansen at det er høyvann klokka tolv og at båten ligger i havna.",
    "Icelandic": "Segðu frú Jónsdóttur að flóðið komi á hádegi og að báturinn sé í höfninni.",
    "Finnish": "Sano rouva Virtaselle että vuorovesi nousee puolelta päivin ja vene on satamassa.",
    "Estonian": "Ütle proua Tammele et tõus tuleb keskpäeval ja paat on sadamas.",
    "Czech": "Vzkaž paní Novákové, že příliv bude v poledne a loďka stojí v přístavu.",
    "Slovak": "Odkáž pani Kováčovej, že príliv príde na obed a loďka stojí v prístave.",
    "Croatian": "Reci gospodinu Horvatu da plima dolazi u podne i da je brod u luci.",
    "Romanian": "Spune-i domnului Ionescu cum vine mareea la amiaza si unde se afla barca noastra.",
    "Turkish": "Bayan Yılmaz için bir not: gelgit çok güçlü ve tekne de limanda değil, ne yapalım?",
    "Hungarian": "Mondd meg Szabó úrnak, hogy a dagály délben van és hogy a hajó nem áll a kikötőben.",
    "Lithuanian": "Pasakyk ponui Kazlauskui, kad potvynis ateina vidurdieni ir laivas stovi uoste.",
    "Albanian": "Thuaji zotit Hoxha se batica vjen ne mesdite dhe varka ndodhet ne port.",
    "Welsh": "Dywed wrth Mrs Evans fod y llanw yn dod ganol dydd a bod y cwch yn yr harbwr.",
    "Irish": "Abair le Bean Uí Néill go mbeidh an taoide ann ag meán lae agus an bád sa chuan.",
    "Vietnamese": "Hãy nói với bà Nguyễn rằng thủy triều lên vào buổi trưa và thuyền ở trong cảng.",
    "Vietnamese without its signs": "Hay noi voi ba Nguyen rang thuy trieu len vao buoi trua va thuyen o trong cang.",
    "Indonesian": "Tolong beri tahu ibu Wijaya bahwa air pasang datang siang hari dan perahu ada di pelabuhan.",
    "Swahili": "Mwambie bibi Otieno kwamba maji yanajaa saa sita mchana na mashua iko bandarini.",
    "Tagalog": "Sabihin mo kay Ginang Santos na tataas ang tubig sa tanghali at nasa daungan ang bangka.",
    "Latin": "Dic Marco aestum meridie venire et naviculam in portu esse.",
    "Esperanto": "Diru al sinjorino Zamora ke la tajdo venos tagmeze kaj ke la boato estas en la haveno.",
    "Russian": "Передай Ивановой, что прилив в полдень.",
    "Russian in Latin letters": "Peredai gospozhe Ivanovoi, chto priliv budet v polden, a lodka stoit v portu.",
    "Greek": "Πες στον κύριο Παπαδόπουλο ότι η παλίρροια έρχεται.",
    "Chinese": "请告诉王小明,涨潮在中午。",
    "Chinese around numbers": "请在12点30分告诉王小明,3号船在港口。",
    "Japanese": "田中さんに満潮は正午だと伝えてください。",
    "Korean": "김민수 씨에게 만조는 정오라고 전해 주세요.",
    "Arabic": "أخبر السيد حسن أن المد عند الظهر.",
    "Hindi": "श्रीमती शर्मा से कहो कि ज्वार दोपहर को आता है।",
    "Thai": "บอกคุณสมชายว่าน้ำขึ้นตอนเที่ยง",
}
SHORT = ("Danke schön!", "Wo wohnt er?", "Bien reçu.", "Kiitos paljon", "Где он?", "好的", "Nein.", "Mange tak")
ENGLISH = (
    "Please tell Jane Miller in Berlin that the tide turns at noon.",
    "Who is Søren Ångström, and was he in São Paulo with her at the time?",
    "PLEASE TELL JANE THAT THE TIDE TURNS AT NOON AND THE BOAT IS IN THE HARBOUR.",
    "i cant find my keys, they were on the table this morning... any idea?",
    "def tide(at):\n    return [w for w in waves if w.place == at and not w.is_low]",
    '{"name": "Jane Miller", "city": "Boston", "isLate": true, "early": false}',
    "SELECT name, price FROM boats WHERE price > 100 AND colour IN (1, 2)",
    "See https://example.org/die/Flut?um=zwoelf or write to schneider@hafen.example, order 4711-AB.",
    "What does the word 潮 mean in Japanese, and how is it read in a compound?",
    "",
    "42 + 17 = 59",
    "ok",
)
LETTER = (
    "The harbour was quiet when we came back, and nobody had looked after the boat for weeks. She lay where we had left"
    " her, a little lower in the water than before. We went on board, found the pump and began to work. After an hour"
    " the sun was up and the first of the fishermen came by, who told us what had happened. It had been a long winter. "
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


@pytest.fixture(scope="module")
def english() -> English:
    return English()


@pytest.mark.parametrize("text", OTHER.values(), ids=OTHER.keys())
def test_no_other_language_passes_however_it_is_written(english: English, text: str) -> None:
    assert not english.are_all([text])
    assert not english.are_all([text.lower()])
    assert not english.are_all([text.upper()])
    assert not english.are_all([text * 20])


@pytest.mark.parametrize("text", OTHER.values(), ids=OTHER.keys())
@pytest.mark.parametrize("before", [1, 40])
def test_a_sentence_of_another_language_does_not_hide_among_english_ones(
    english: English, text: str, before: int
) -> None:
    assert english.are_all([before * LETTER + LETTER])
    assert not english.are_all([before * LETTER + text + " " + LETTER])
    assert not english.are_all([LETTER, text, LETTER])


@pytest.mark.parametrize("text", SHORT)
def test_what_is_too_short_to_tell_is_not_taken_for_english(english: English, text: str) -> None:
    assert not english.are_all([text])


@pytest.mark.parametrize("text", ENGLISH)
def test_english_and_what_has_no_words_pass(english: English, text: str) -> None:
    assert english.are_all([text])


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
        with pytest.raises(DetectorFailed, match="not all in English"):
            await strict.find([english, german])
        assert await lax.find([english, german]) == [[], []]
