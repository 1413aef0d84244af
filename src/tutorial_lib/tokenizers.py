"""From text to ids and back: vocabularies, Korean units, SentencePiece and GPT-2's bytes (chapter 01)."""

from __future__ import annotations

import gzip
import io
import operator
import re
import unicodedata
from collections.abc import Iterable, Sequence
from importlib import resources

import sentencepiece
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

PAD, UNK, BOS, EOS = "<pad>", "<unk>", "<bos>", "<eos>"
SPECIAL_TOKENS = (PAD, UNK, BOS, EOS)
PAD_ID, UNK_ID, BOS_ID, EOS_ID = range(4)
GPT2_END_OF_TEXT = "<|endoftext|>"


class Vocabulary:
    """Tokens to ids (`stoi`) and back (`itos`).

    The four special tokens come first (<pad>=0, <unk>=1, <bos>=2, <eos>=3),
    then every other token once, in the order of its first appearance, so that
    the ids are 0, 1, ..., len(vocabulary) - 1 without a gap. A token of the text
    that is spelt like a special one is that one: a literal "<pad>" gets the id 0.

    Args:
        tokens: any number of strings; repetitions are welcome.

    Raises:
        ValueError: if `tokens` is one string, or holds anything but strings.
    """

    def __init__(self, tokens: Iterable[str]):
        self.itos: list[str] = list(dict.fromkeys([*SPECIAL_TOKENS, *_checked(tokens)]))
        self.stoi: dict[str, int] = {token: index for index, token in enumerate(self.itos)}

    def __len__(self) -> int:
        return len(self.itos)

    def __contains__(self, token: str) -> bool:
        return token in self.stoi

    def encode(self, tokens: Iterable[str], *, add_bos: bool = False, add_eos: bool = False) -> list[int]:
        """Return one id per token; a token that is not in the vocabulary becomes <unk>.

        Raises:
            ValueError: if `tokens` is one string, or holds anything but strings.
        """
        ids = [self.stoi.get(token, UNK_ID) for token in _checked(tokens)]
        return [BOS_ID] * add_bos + ids + [EOS_ID] * add_eos

    def decode(self, ids: Iterable[int], *, skip_special: bool = False) -> list[str]:
        """Return one token per id, without <pad>, <bos> and <eos> if `skip_special`.

        <unk> always stays: it marks a place where something was lost.

        Raises:
            ValueError: if an id is not a whole number in 0, ..., len(vocabulary) - 1.
        """
        ids = _whole_numbers(ids)
        for index in ids:
            if not 0 <= index < len(self):
                raise ValueError(f"ids must be in 0..{len(self) - 1}, got {index}")
        if skip_special:
            ids = [index for index in ids if index not in (PAD_ID, BOS_ID, EOS_ID)]
        return [self.itos[index] for index in ids]


def _checked(tokens: Iterable[str]) -> list[str]:
    if isinstance(tokens, str):
        raise ValueError(f"tokens must be a sequence of strings, got the single string {tokens!r}")
    listed = None if isinstance(tokens, bytes | bytearray) else _listed(tokens)
    for token in [tokens] if listed is None else listed:
        if not isinstance(token, str):
            raise ValueError(f"tokens must be a sequence of strings, got {type(token).__name__} {token!r}")
    return listed


def _whole_numbers(ids: Iterable[int]) -> list[int]:
    listed = None if isinstance(ids, str | bytes | bytearray) else _listed(ids)
    if listed is None:
        raise ValueError(f"ids must be a sequence of whole numbers, got {type(ids).__name__} {ids!r}")
    numbers = []
    for index in listed:
        try:
            numbers.append(operator.index(index))  # Python's, numpy's and torch's integers; not 4.9, not 4.0
        except TypeError:
            raise ValueError(f"ids must be whole numbers, got {index!r}") from None
        if "bool" in str(getattr(index, "dtype", type(index))):  # Python's and torch's pass for 0 and 1
            raise ValueError(f"ids must be whole numbers, got {index!r}")
    return numbers


def _listed(values: object) -> list | None:
    try:
        iterator = iter(values)
    except TypeError:  # None, a number, a tensor without dimensions
        return None
    return list(iterator)


def split_eojeol(text: str) -> list[str]:
    """Cut at white space. For Korean this gives 어절 (word plus particles), not words.

    Raises:
        ValueError: if `text` is no string.
    """
    return _one_text(text).split()


def split_syllables(text: str) -> list[str]:
    """Cut into the characters of the composed form (NFC); a Hangul syllable block is one of them.

    Spaces are kept, so that "".join(...) gives the NFC text back.

    Raises:
        ValueError: if `text` is no string.
    """
    return list(unicodedata.normalize("NFC", _one_text(text)))


def split_jamo(text: str) -> list[str]:
    """Cut into the characters of the decomposed form (NFD): conjoining jamo, U+1100 to U+11FF.

    An initial and a final consonant are different characters there (도 starts with
    U+1103, 곧 ends with U+11AE), which is why NFC can put the letters together
    again (Unicode Standard, section 3.12). Spaces are kept.

    Raises:
        ValueError: if `text` is no string.
    """
    return list(unicodedata.normalize("NFD", _one_text(text)))


def compatibility_jamo(text: str) -> str:
    """Write the letters of `text` as one sees them on a keyboard: U+3131 to U+3163.

    Letters of old Korean become U+3165 to U+318E, or stay what they are where that
    block has no sign for them. Good for showing, not for storing: the block has one
    sign for the initial and the final consonant, and NFC does not put its letters
    together again.

    Raises:
        ValueError: if `text` is no string.
    """
    return "".join(_compatibility_letter(jamo) for jamo in split_jamo(text))


def _one_text(text: str) -> str:
    if not isinstance(text, str):
        raise ValueError(f"text must be a string, got {type(text).__name__} {text!r}")
    return text


def _compatibility_letter(character: str) -> str:
    if character == "\u11a1":  # the only letter with two names: ARAEA-I, and ARAEAE in that block
        return "\u318e"
    name = unicodedata.name(character, "")
    for position in ("CHOSEONG", "JUNGSEONG", "JONGSEONG"):
        if name.startswith(f"HANGUL {position} "):
            try:
                return unicodedata.lookup(name.replace(position, "LETTER", 1))
            except KeyError:  # a letter of old Korean without a sign in that block
                return character
    return character


def train_sentencepiece(
    sentences: Sequence[str],
    vocab_size: int,
    *,
    model_type: str = "bpe",
    byte_fallback: bool = False,
) -> sentencepiece.SentencePieceProcessor:
    """Train SentencePiece on sentences, in memory, with the ids of `Vocabulary`.

    <pad>=0, <unk>=1, <bos>=2 and <eos>=3; SentencePiece's own default gives <unk>
    the id 0 and has no padding (Kudo & Richardson 2018, section 3.3). One thread, no
    sampling, no output and every sentence, however long (its default leaves out those
    above 4,192 bytes), except those with ▅ (U+2585), which it keeps for itself. Text
    is normalised by its default rule, nmt_nfkc: NFKC, so that NFD input comes back
    composed; control characters go; tab, line end and zero-width space count as spaces,
    of which one stays between words and none at the ends ("한국어 \\t\\n탭" -> "한국어 탭").

    Args:
        sentences: the training text.
        vocab_size: number of ids, special tokens included.
        model_type: "bpe" (Sennrich et al. 2016), which counts and so gives the same
            pieces everywhere, or "unigram" (Kudo 2018), whose pieces may differ
            between versions of SentencePiece.
        byte_fallback: write unknown characters as their UTF-8 bytes, 256 of the ids.

    Raises:
        ValueError: if there is no text, the type is unknown, or the text does not
            allow that many (or so few) ids.
    """
    if model_type not in ("bpe", "unigram"):
        raise ValueError(f"model_type must be 'bpe' or 'unigram', got {model_type!r}")
    sentences = _checked(sentences)
    if vocab_size <= len(SPECIAL_TOKENS):
        raise ValueError(f"vocab_size must exceed the {len(SPECIAL_TOKENS)} special tokens, got {vocab_size}")
    if not any(sentence.strip() for sentence in sentences):
        raise ValueError(f"sentences must hold some text, got {len(sentences)} empty ones")
    longest = max(len(sentence.encode("utf-8")) for sentence in sentences)  # in bytes
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            vocab_size=vocab_size,
            model_type=model_type,
            byte_fallback=byte_fallback,
            character_coverage=1.0,
            max_sentence_length=max(4192, longest),
            pad_id=PAD_ID,
            unk_id=UNK_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            pad_piece=PAD,
            unk_piece=UNK,
            bos_piece=BOS,
            eos_piece=EOS,
            num_threads=1,
            shuffle_input_sentence=False,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise ValueError(f"vocab_size {vocab_size} does not fit this text: {_reason(error)}") from error
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def _reason(error: RuntimeError) -> str:
    """Return the limit that SentencePiece names, without the file and line of its C++ source."""
    for limit, named in (("at most", r"to a value <= (\d+)"), ("at least", r"required_chars\. \d+ vs (\d+)")):
        if found := re.search(named, str(error)):
            return f"expected {limit} {found[1]}"
    return str(error).splitlines()[-1]


def byte_symbols() -> list[str]:
    """Return 256 printable characters that stand for the bytes, in the order of GPT-2's first 256 ids.

    Bytes that print in Latin-1 stand for themselves and come first; the other 68
    (space, control characters...) are written as U+0100 and up, so that a space
    becomes Ġ (Radford et al. 2019, section 2.2, and the code published with it).
    """
    return [symbol for _, symbol in _byte_table()]


def _byte_table() -> list[tuple[int, str]]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    symbols = [chr(byte) for byte in printable] + [chr(0x100 + n) for n in range(len(others))]
    return list(zip(printable + others, symbols, strict=True))


def gpt2_merges() -> list[tuple[str, str]]:
    """Return the 50,000 merges of GPT-2's byte-level BPE, first learnt first (OpenAI, modified MIT)."""
    packed = (resources.files("tutorial_lib") / "assets/gpt2_merges.txt.gz").read_bytes()
    lines = gzip.decompress(packed).decode("utf-8").splitlines()
    return [tuple(line.split(" ")) for line in lines if not line.startswith("#version")]


def gpt2_tokenizer() -> tokenizers.Tokenizer:
    """Build GPT-2's tokenizer: 256 bytes, then one token per merge, then <|endoftext|>, 50,257 in all.

    Any text can be encoded and comes back unchanged, except a literal
    <|endoftext|>: that is the end token, which `decode` leaves out unless it is
    called with skip_special_tokens=False. There is no <unk>, no <pad> and no
    normalisation (Radford et al. 2019, section 2.2).
    """
    merges = gpt2_merges()
    tokens = [*byte_symbols(), *(left + right for left, right in merges), GPT2_END_OF_TEXT]
    tokenizer = tokenizers.Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([GPT2_END_OF_TEXT])
    return tokenizer


def gpt2_pieces(tokenizer: tokenizers.Tokenizer, text: str) -> list[bytes]:
    """Cut `text` into the bytes of its tokens; b"".join(...) is the UTF-8 text again.

    A piece need not be a whole character: one Hangul syllable has three bytes, and
    a cut may fall between them.
    """
    byte_of = {symbol: byte for byte, symbol in _byte_table()}
    return [
        token.encode() if token == GPT2_END_OF_TEXT else bytes(byte_of[symbol] for symbol in token)
        for token in tokenizer.encode(text).tokens
    ]
