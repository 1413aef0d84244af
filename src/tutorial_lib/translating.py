"""From sentences to sentences with a trained model, and how good the translations are (chapter 10)."""

from __future__ import annotations

from collections.abc import Sequence

import sentencepiece
import torch

from tutorial_lib.batches import pad
from tutorial_lib.generation import greedy
from tutorial_lib.stepping import SteppingModel
from tutorial_lib.tokenizers import BOS_ID, EOS_ID, PAD_ID
from tutorial_lib.validation import require_positive


def translate(
    model: SteppingModel,
    pieces: sentencepiece.SentencePieceProcessor,
    sentences: Sequence[str],
    *,
    max_length: int = 80,
    batch_size: int = 64,
) -> list[str]:
    """Translate sentences greedily, in batches of similar length.

    Args:
        model:  with a source, such as `Transformer`.
        pieces: the model's vocabulary.
        sentences: any number; one without a piece becomes "".
        max_length: longest translation, in pieces.
        batch_size: sentences at a time.

    Raises:
        ValueError: if a number is not positive, or `sentences` is a single string.
    """
    require_positive(max_length=max_length, batch_size=batch_size)
    if isinstance(sentences, str):
        raise ValueError(f"sentences must be several strings, got the single one {sentences!r}")
    sources = pieces.encode(list(sentences))
    order = sorted((row for row in range(len(sources)) if sources[row]), key=lambda row: len(sources[row]))
    device = next(model.parameters()).device
    translations = [""] * len(sources)
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        source = pad([sources[row] for row in rows], PAD_ID).to(device)
        begin = torch.full((len(rows), 1), BOS_ID, device=device)
        found = greedy(model, begin, source, max_new_tokens=max_length, eos_id=EOS_ID)
        for row, ids in zip(rows, found.tolist(), strict=True):
            ids = ids[: ids.index(EOS_ID)] if EOS_ID in ids else ids
            translations[row] = pieces.decode([index for index in ids if index != PAD_ID])
    return translations


def corpus_scores(translations: Sequence[str], references: Sequence[str]) -> dict[str, float | str]:
    """Score translations against one reference each, with sacreBLEU (Post 2018).

    BLEU counts words (sacreBLEU's 13a); for references in Hangul, whose words carry
    particles, it counts characters instead, and the signature says so. chrF counts
    characters in either case (Popović 2015).

    Returns:
        "bleu" and "chrf" from 0 to 100, and the signatures that make them comparable.

    Raises:
        ValueError: if numbers differ or there is no translation.
    """
    from sacrebleu.metrics import BLEU, CHRF

    if not len(translations) or len(translations) != len(references):
        raise ValueError(
            f"each translation needs one reference, got {len(translations)} and {len(references)}"
        )
    text = "".join(references)
    hangul = sum("가" <= character <= "힣" for character in text)
    bleu, chrf = BLEU(tokenize="char" if 2 * hangul > len(text.replace(" ", "")) else "13a"), CHRF()
    scores = {
        "bleu": bleu.corpus_score(list(translations), [list(references)]).score,
        "chrf": chrf.corpus_score(list(translations), [list(references)]).score,
    }
    signatures = {
        "bleu_signature": str(bleu.get_signature()),
        "chrf_signature": str(chrf.get_signature()),
    }
    return {**scores, **signatures}
