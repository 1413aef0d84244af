"""What the attention explorer shows without JavaScript and in print: a picture, a table, tokens made readable."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

EDGES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # bounds of the seven colour steps, the same in every picture
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
TINY, MASKED = 1001, 1002  # codes: 0...1000 thousandths, 1001 = above zero but rounded to it; + 1002 = masked
MAX_TABLE = 64 * 64  # cells; a longer table helps nobody
MAX_PICTURES = 16  # heads beside the large one

Token = tuple[str, str]  # the mark that the tokenizer puts before it ("", "▁", "Ġ", "##", "␣"), and its text


def readable_tokens(tokens: Iterable) -> list[Token]:
    """Split each token into its mark and a text that can be read on any screen.

    The marks of SentencePiece (▁), GPT-2 (Ġ) and WordPiece (##) are kept apart.
    GPT-2's letters for bytes become the text they stand for, and the bytes of a
    part of a character, as Hangul often has them, `<EC 95>`. Line ends, tabs and
    invisible characters are shown as signs or by their number.

    Args:
        tokens: strings, bytes, or anything that `str` turns into a string.

    Returns:
        one pair (mark, text) per token.
    """
    named = [token if isinstance(token, bytes) else str(token) for token in tokens]
    pieces = _from_bytes(named)
    return [_split(token) for token in pieces]


def encode(weights: np.ndarray, allowed: np.ndarray | None) -> np.ndarray:
    """Weights as whole numbers: thousandths, `TINY`, and `MASKED` more where attending is forbidden."""
    codes = np.rint(weights * 1000).astype(np.int64).clip(0, 1000)
    codes[(codes == 0) & (weights > 0)] = TINY
    return codes if allowed is None else codes + MASKED * ~allowed


def pack(codes: np.ndarray) -> str:
    """Codes as text, two of 64 letters each; the page unpacks it."""
    letters = np.frombuffer(ALPHABET.encode(), dtype=np.uint8)
    pairs = np.stack([letters[codes // 64], letters[codes % 64]], axis=-1)
    return pairs.tobytes().decode()


def still(codes: np.ndarray, chosen: tuple[int, int], queries: Sequence[Token], keys: Sequence[Token]) -> str:
    """The picture of one head with its table, and of the other heads if they are few.

    Args:
        codes:  (layers, H, T, S) from `encode`.
        chosen: layer and head of the large picture.
        queries, keys: T and S pairs from `readable_tokens`.

    Returns:
        HTML in English and Korean; the style sheet shows the words of the page's language.
    """
    layers, heads, T, S = codes.shape
    layer, head = chosen
    several, masked = layers * heads > 1, bool((codes[layer, head] >= MASKED).any())
    english = f"Layer {layer}, head {head}: " if several else ""
    english += f"{T} queries (rows) by {S} keys (columns). The brighter, the larger the weight"
    korean = f"층 {layer}, 헤드 {head}: " if several else ""
    korean += f"쿼리 {T}개(행)와 키 {S}개(열). 밝을수록 가중치가 큽니다."
    english += "; hatched cells are masked." if masked else "."
    korean += " 빗금 친 칸은 볼 수 없습니다." if masked else ""
    others = ""
    if several and layers * heads <= MAX_PICTURES:
        small = [(i, j) for i in range(layers) for j in range(heads)]
        others = '<div class="tlx-small">' + "".join(
            f'<span><svg viewBox="0 0 {S} {T}" width="72" height="{72 * T / S:.0f}" aria-hidden="true">'
            f"{_cells(codes[i, j])}</svg>{i}·{j}</span>"
            for i, j in small
        )
        others += "</div>"
    table = _table(codes[layer, head], queries, keys) if T * S <= MAX_TABLE else ""
    return (
        f'<figure class="tlx-still">{_picture(codes[layer, head], queries, keys)}{others}{_legend()}'
        f"<figcaption>{_both(english, korean)}</figcaption>{table}</figure>"
    )


def _both(english: str, korean: str) -> str:
    return f'<span lang="en">{english}</span><span lang="ko">{korean}</span>'


def _legend() -> str:
    names = [f"&lt;{EDGES[0]}", *(f"{edge}+" for edge in EDGES)]
    steps = "".join(
        f'<rect class="tlx-{i}" x="{40 * i}" width="40" height="18"/>'
        f'<text class="tlx-t{i}" x="{40 * i + 20}" y="13" text-anchor="middle">{name.replace("0.", ".")}</text>'
        for i, name in enumerate(names)
    )
    return f'<div><svg viewBox="0 0 {40 * len(names)} 18" width="{40 * len(names)}" height="18" aria-hidden="true">{steps}</svg></div>'


def _label(token: Token) -> str:
    return escape("".join(token))


def _cells(codes: np.ndarray) -> str:
    """One path per colour: runs of equal cells in a row are one rectangle. Then the hatching."""
    T, S = codes.shape
    values = np.where(codes % MASKED == TINY, 0, codes % MASKED) / 1000
    steps = np.searchsorted(EDGES, values, side="right")  # 0...6
    steps = np.where((codes >= MASKED) & (codes % MASKED == 0), len(EDGES) + 1, steps)
    paths = [[] for _ in range(len(EDGES) + 2)]
    for y in range(T):
        ends = [*np.flatnonzero(np.diff(steps[y])) + 1, S]
        for x, end in zip([0, *ends], ends, strict=False):
            paths[steps[y, x]].append(f"M{x} {y}h{end - x}v1h-{end - x}z")
    names = [*(f"tlx-{i}" for i in range(len(EDGES) + 1)), "tlx-m"]
    drawn = "".join(f'<path class="{n}" d="{"".join(p)}"/>' for n, p in zip(names, paths, strict=True) if p)
    hatch = _hatch(codes >= MASKED)
    return drawn + (f'<path class="tlx-h" d="{hatch}"/>' if hatch else "")


def _hatch(masked: np.ndarray) -> str:
    """Diagonal lines through the masked cells, joined where cells touch at a corner."""
    lines = []
    flipped = masked[:, ::-1]
    T, S = masked.shape
    for offset in range(-T + 1, S):
        diagonal = np.concatenate([[False], np.diagonal(flipped, offset), [False]])
        edges = np.flatnonzero(np.diff(diagonal.astype(np.int8)))
        for start, end in edges.reshape(-1, 2):
            y, x = start + max(-offset, 0), S - start - max(offset, 0)  # top right corner of the first cell
            lines.append(f"M{x} {y}l-{end - start} {end - start}")
    if masked.size <= 400:  # large cells: two more lines in each
        halves = "M{0} {1}.5l.5-.5M{0}.5 {2}l.5-.5"
        lines += [halves.format(x, y, y + 1) for y, x in np.argwhere(masked).tolist()]
    return "".join(lines)


def _picture(codes: np.ndarray, queries: Sequence[Token], keys: Sequence[Token]) -> str:
    T, S = codes.shape
    cell = max(6, min(34, 620 // max(S, 1)))
    named = cell >= 14
    left, top, right = (_wide(queries) + 10, _wide(keys) + 10, _wide(keys) // 2 + 4) if named else (4, 4, 4)
    width, height = left + cell * S + right, top + cell * T + 4
    labels = []
    if named:
        for y, token in enumerate(queries):
            labels.append(
                f'<text x="{left - 6}" y="{top + (y + 0.5) * cell + 4:g}" text-anchor="end">{_short(token)}</text>'
            )
        for x, token in enumerate(keys):
            place = f"translate({left + (x + 0.5) * cell + 4:g} {top - 6}) rotate(-60)"
            labels.append(f'<text transform="{place}">{_short(token)}</text>')
    numbers = []
    if cell >= 30:
        for y, x in np.ndindex(T, S):
            value = codes[y, x] % MASKED
            if codes[y, x] in (MASKED,):
                continue
            thousandths = 0 if value == TINY else value
            step = int(np.searchsorted(EDGES, thousandths / 1000, side="right"))
            place = f'x="{left + (x + 0.5) * cell:g}" y="{top + (y + 0.5) * cell + 4:g}"'
            numbers.append(
                f'<text class="tlx-t{step}" {place} text-anchor="middle">{_two_digits(value)}</text>'
            )
    return (
        f'<svg class="tlx-map" viewBox="0 0 {width} {height}" width="{width}" height="{height}" aria-hidden="true">'
        f'<svg x="{left}" y="{top}" width="{cell * S}" height="{cell * T}" viewBox="0 0 {S} {T}"'
        f' preserveAspectRatio="none">{_cells(codes)}</svg>{"".join(labels + numbers)}</svg>'
    )


def _two_digits(thousandths: int) -> str:
    if thousandths in (0, TINY):
        return "0" if thousandths == 0 else "&lt;.01"
    if thousandths < 10:
        return "&lt;.01"
    return f"{thousandths / 1000:.2f}".replace("0.", ".", 1)


def _wide(tokens: Sequence[Token]) -> int:
    """About how many pixels the longest label needs at 13 px: Hangul and other wide letters 13, the rest 8."""
    return max(sum(13 if letter > "\u10ff" else 8 for letter in "".join(t)[:10]) for t in tokens)


def _short(token: Token, letters: int = 10) -> str:
    text = "".join(token)
    return escape(text if len(text) <= letters else text[: letters - 1] + "…")


def _table(codes: np.ndarray, queries: Sequence[Token], keys: Sequence[Token]) -> str:
    masked = _both("masked", "마스크")
    head = "".join(f'<th scope="col">{_label(token)}' for token in keys)
    rows = []
    for token, row in zip(queries, codes.tolist(), strict=True):
        cells = "".join(f"<td>{_cell(code, masked)}" for code in row)
        rows.append(f'<tr><th scope="row">{_label(token)}{cells}')
    corner = _both("query \\ key", "쿼리 \\ 키")
    return (
        f"<details><summary>{_both('The weights as a table', '가중치를 표로 보기')}</summary>"
        f'<div class="tlx-scroll" tabindex="0"><table><thead><tr><td>{corner}{head}<tbody>{"".join(rows)}'
        "</table></div></details>"
    )


def _cell(code: int, masked: str) -> str:
    value = code % MASKED
    if code == MASKED:
        return masked
    shown = "&lt;.001" if value == TINY else f"{value / 1000:.3f}".removeprefix("0")
    return f"{shown} ({masked})" if code >= MASKED else shown


def _byte_of() -> dict[str, int]:
    """GPT-2's table from printable letters to bytes (Radford et al. 2019, `encoder.py`)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + n): b for n, b in enumerate(others)}


def _from_bytes(tokens: list[str | bytes]) -> list[str]:
    """Byte-level tokens as text, other tokens as they are."""
    table = _byte_of()
    texts = [token for token in tokens if isinstance(token, str)]
    byte_level = any(token.startswith(("Ġ", "Ċ")) for token in texts)
    if not byte_level and any(ord(letter) > 255 for token in texts for letter in token):
        try:  # without a space, only bytes that make up a readable text can be GPT-2's
            text = bytes(table[letter] for token in texts for letter in token).decode()
            byte_level = text.isprintable()
        except (KeyError, UnicodeDecodeError):
            byte_level = False
    result = []
    for token in tokens:
        if isinstance(token, str):
            if not byte_level or any(letter not in table for letter in token):
                result.append(token)
                continue
            token = bytes(table[letter] for letter in token)
            token = b"\xc4\xa0" + token[1:] if token.startswith(b" ") else token  # its space keeps the name Ġ
        try:
            result.append(token.decode())
        except UnicodeDecodeError:
            mark = "Ġ" if token.startswith(b"\xc4\xa0") else ""
            result.append(f"{mark}<{token.removeprefix(mark.encode()).hex(' ').upper()}>")
    return result


def _split(token: str) -> Token:
    mark = next((m for m in ("▁", "Ġ", "##") if token.startswith(m) and token != m), "")
    text = token.removeprefix(mark)
    if not mark and text.startswith(" ") and text.strip():
        mark, text = "␣", text[1:]
    inner = text.strip(" ")
    before = len(text) - len(text.lstrip(" "))
    text = "␣" * before + inner + "␣" * (len(text) - len(inner) - before) if inner else "␣" * len(text)
    return mark, "".join(map(_visible, text)) or "∅"


def _visible(letter: str) -> str:
    if letter in "\n\r\t":
        return {"\n": "↵", "\r": "↵", "\t": "⇥"}[letter]
    if unicodedata.category(letter)[0] == "C" and letter != "\u200d":  # control, invisible, unassigned
        return f"<{ord(letter):04X}>"
    return letter
