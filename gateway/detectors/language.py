"""Telling that a text is in another language than English, for detectors that know no other.

Neither a guess at which language it is nor a proof that a text is English: code, numbers and lists of names are in
none, and pass. What speaks against English are letters of another script, or more of another language's commonest words
than of English ones.
"""

from __future__ import annotations

import re
import unicodedata

_WORD = re.compile(r"[^\W\d_]+")
_MOST_CHARS = 4000  # of a text that are looked at, from each of its ends
_FOREIGN_SHARE = 0.2
_FEWEST_WORDS = 3
# Function words that English does not have, or has far more seldom.
_ENGLISH = frozenset(
    "the of and to in is it that for on with as was are this be you your i my we they have not what how when why from "
    "or but can do does if there their which would should has an at by please our his her".split()
)
_OTHERS = tuple(
    frozenset(words.split())
    for words in (
        "der die das und ist nicht ich ein eine mit für auf den dem des zu von wir sie er es im sich auch wie wird bei",
        "le la les et est un une des du de que qui dans pour pas sur avec je vous nous il elle ce sont au mon ma",
        "el la los las y es un una de que en no se por con para su mi yo lo al del como pero más está",
        "o os as e é um uma de que em não se por com para seu meu eu do da na no como mas está",
        "il lo la gli le e è un una di che in non si per con mio sono del della nel come ma questo",
        "de het een en is niet ik van dat die op met voor zijn aan er ook maar wij mijn bij naar",
        "i w na z do nie się to jest że jak ale po od za przez dla mój jego są czy",
        "och att det som en är på för med jag inte av den till ett har om var men",
        "ve bir bu da de için ile çok ne o ben mi var gibi daha ama benim",
        "a az egy és hogy nem is ez van de meg mint csak én",
    )
)


def is_other_language(text: str) -> bool:
    """Whether a text, or a good part of it, is in a language that is not English."""
    looked_at = text if len(text) <= 2 * _MOST_CHARS else text[:_MOST_CHARS] + " " + text[-_MOST_CHARS:]
    words = _WORD.findall(looked_at.lower())
    letters = sum(map(len, words))
    foreign = sum(not _is_latin(char) for word in words if not word.isascii() for char in word)
    if foreign > _FOREIGN_SHARE * letters:
        return True
    english = sum(word in _ENGLISH for word in words)
    most = max(sum(word in others for word in words) for others in _OTHERS)
    return most >= _FEWEST_WORDS and most > english


def _is_latin(char: str) -> bool:
    return char.isascii() or unicodedata.name(char, "").startswith("LATIN")
