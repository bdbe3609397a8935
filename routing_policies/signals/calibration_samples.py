"""Texts of the kinds that requests hold, by script, to learn from a tokenizer how many bytes a token stands for."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Script(StrEnum):
    """Groups of characters that tokenizers treat alike, told apart by the first byte of their UTF-8 form."""

    ASCII = "ascii"
    LATIN = "latin"
    GREEK_CYRILLIC = "greek_cyrillic"
    HEBREW_ARABIC = "hebrew_arabic"
    INDIC_THAI = "indic_thai"
    HAN_KANA = "han_kana"
    HANGUL = "hangul"
    OTHER = "other"


SAMPLES: Mapping[Script, tuple[str, ...]] = {
    Script.ASCII: (
        "Could you help me word a short reply to my landlord? The heating in the hallway has been off since Monday, "
        "and I would like to know when somebody can come to look at it. Please keep it friendly but firm.",
        "Summarise the following notes in three sentences. The harbour was closed for two days because of strong wind; "
        "the ferries resumed on Thursday morning, most of them an hour late, and the fish market opened at noon.",
        "def rolling_mean(values, width):\n    total = 0.0\n    window = deque(maxlen=width)\n"
        "    for value in values:\n"
        "        if len(window) == width:\n            total -= window[0]\n        window.append(value)\n"
        "        total += value\n        yield total / len(window)\n",
        '{"device": "pump-17", "readings": [{"at": 1764500000, "bar": 2.41, "celsius": 38.5}, '
        '{"at": 1764500060, "bar": 2.39, "celsius": 38.7}], "status": "ok", "firmware": "4.12.0"}',
        "12:04:31.204 WARN  worker-3 retry 2/5 in 400 ms: connection reset by peer (attempt took 1873 ms)\n"
        "12:04:31.611 INFO  worker-3 connected, 48 items waiting, oldest 9.3 s\n",
    ),
    Script.LATIN: (
        "Pourriez-vous relire ce message ? Le rendez-vous a été déplacé à jeudi après-midi, et la réunion aura lieu "
        "près de la gare, au café où nous étions déjà allés l'été dernier.",
        "Könnten Sie mir erklären, warum die Wärmepumpe bei so kühlem Wetter häufiger läuft? Für die Küche und die "
        "übrigen Räume möchten wir natürlich möglichst wenig Strom verbrauchen.",
        "Mañana por la mañana salimos hacia la montaña. ¿Podrías decirme qué camino es más corto y si habrá niebla "
        "después del mediodía? También querría saber dónde está la fuente.",
        "Proszę wyjaśnić, dlaczego łódź płynie wolniej, gdy wiatr wieje z północy. Chciałbym też wiedzieć, jak długo "
        "potrwa podróż przez jezioro i gdzie można się zatrzymać.",
    ),
    Script.GREEK_CYRILLIC: (
        "Подскажите, пожалуйста, как лучше хранить яблоки зимой. В прошлом году часть урожая испортилась уже к январю, "
        "хотя в подвале было прохладно и достаточно сухо.",
        "Будь ласка, поясни, чому потяг затримується щоразу, коли йде сніг, і як дізнатися про зміну розкладу "
        "заздалегідь.",
        "Μπορείς να μου εξηγήσεις γιατί η θάλασσα αλλάζει χρώμα το απόγευμα; Θα ήθελα να το γράψω απλά, για παιδιά "
        "του δημοτικού σχολείου.",
    ),
    Script.HEBREW_ARABIC: (
        "هل يمكنك أن تشرح لي كيف تعمل الطاحونة القديمة قرب النهر؟ أريد أن أكتب فقرة قصيرة عنها لمجلة المدرسة.",
        "אפשר לעזור לי לנסח מכתב קצר לעירייה? הספסלים בגן הציבורי שבורים כבר חודשיים, ואין מקום לשבת בצל.",
    ),
    Script.INDIC_THAI: (
        "क्या आप मुझे बता सकते हैं कि बारिश के मौसम में छत से पानी क्यों टपकता है और उसे ठीक करने में कितना समय लगेगा?",
        "ช่วยอธิบายหน่อยได้ไหมว่าทำไมตลาดเช้าจึงปิดเร็วในวันอาทิตย์ และร้านไหนยังเปิดอยู่จนถึงตอนเย็น",
    ),
    Script.HAN_KANA: (
        "请帮我写一段简短的说明，介绍图书馆新的开放时间：周一到周五早上八点开门，周末下午六点关门，节假日另行通知。",
        "駅前の自転車置き場が来月から有料になるそうです。料金と申し込みの方法を、わかりやすくまとめてください。",
    ),
    Script.HANGUL: (
        "다음 주에 이사를 하는데 무엇부터 준비해야 할지 모르겠어요. 날짜별로 할 일을 차례대로 정리해 주세요.",
    ),
    Script.OTHER: ("🙂🚀✨ 🧭🏔️🌧️ 🎉👍🏽 𝛼 + 𝛽 = 𝛾 🐟🐚🦀 🕯️📎🧵",),
}
