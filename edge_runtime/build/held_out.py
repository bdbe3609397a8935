"""Texts that no model was trained on, for measuring what an import costs."""

ENGLISH = """\
The lighthouse keeper had counted ships for thirty years, and in all that time he had never once been asked
what he did with the numbers. Every evening, when the lamp was lit and the wind had settled into its usual complaint, he
opened a thick green notebook and wrote down what had passed: two fishing boats going out before dawn, a ferry at
noon, a coal carrier low in the water, one yacht with a torn sail. He knew most of them by the sound of their
engines. In winter there were days when the page stayed empty, and on those days he drew a short line so that nobody
could say that he had forgotten.

When the new harbour office opened, a young engineer came up the stairs to explain that a computer would do the
counting from now on. She was polite about it. She showed him a small grey box with a camera and an antenna, and told
him that it could see a hull at twelve miles and read a name at three. He listened carefully, asked how the box would
behave in fog, and nodded when she admitted that nobody had tried. Then he made tea, and gave her the first of the
green notebooks to read.

She stayed until the lamp was lit. The notebooks did not only hold numbers. Beside many of the ships he had written a
word or two about the weather, the height of the waves, the colour of the sky before a storm, and sometimes the
reason why a boat had come home early. In the margin of one page, eleven years old, stood the sentence: the birds left
an hour before the wind turned. She read it twice. On her way home she began to think that the grey box might be a
good pair of eyes, but that somebody would still have to tell it what to look for.
"""

# Written in normal form C, which some tokenizers bring every text into.
LANGUAGES = (
    "Der Fährmann zählte 1.234 Überfahrten, müde, aber gründlich: „Noch eine!“",
    "Le phare s'éteint à 23 h 45 ; où est passé le garçon ? Là-bas, près du château…",
    "El niño preguntó: ¿cuántos barcos han llegado mañana y ayer?",
    "灯台守は三十年のあいだ船を数え続けた。霧の夜も、凪の朝も。",
    "守塔人数了三十年的船，雾中也不停。",
    "등대지기는 서른 해 동안 배를 세었다.",
    "Смотритель маяка тридцать лет считал корабли.",
    "حارس المنارة عدّ السفن ثلاثين عامًا.",
    "प्रकाशस्तंभ का रखवाला जहाज़ गिनता रहा।",
    "ผู้ดูแลประภาคารนับเรือมาสามสิบปี",
    "def count(ships: list[str]) -> int:\n\treturn len(ships)  # 🚢🚢 👩‍👩‍👧 \r\n\n",
)
