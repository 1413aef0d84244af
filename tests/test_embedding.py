import pytest
import torch
from support import assert_raises, close, error_table, make_ids, seeded

from tutorial_lib.embedding import TokenEmbedding, check_positions_name
from tutorial_lib.positions import sinusoidal_encoding

IDS = make_ids(2, 5, high=9)


def build(**kwargs):
    return seeded(TokenEmbedding, 9, 6, **kwargs)


def test_token_vectors_are_scaled_before_positions_are_added():
    embedding = build(scale=6**0.5)
    expected = embedding.tokens.weight[IDS] * 6**0.5 + sinusoidal_encoding(torch.arange(5), 6)
    close(embedding(IDS), expected, 1e-7)


def test_positions_count_along_the_sentence_and_not_along_the_batch():
    embedding = build(positions="learned", max_length=5)
    same = torch.full((3, 5), 4)
    output = embedding(same)
    close(output[0], output[2], 0)
    assert (output[0, 0] - output[0, 1]).abs().max() > 0
    close(embedding(same, torch.tensor([[4, 3, 2, 1, 0]])), output.flip(1), 0)


@pytest.mark.parametrize("name", ["none", "rotary"])
def test_other_names_add_nothing(name):
    embedding = build(positions=name)
    close(embedding(IDS), embedding.tokens.weight[IDS], 0)


def test_bert_adds_segments_and_normalises():
    embedding = build(positions="learned", max_length=5, segments=2, norm_eps=1e-12).double()
    segments = torch.tensor([[0, 0, 1, 1, 1]]).expand(2, 5)
    parts = (
        embedding.tokens.weight[IDS] + embedding.positions.table.weight + embedding.segments.weight[segments]
    )
    close(embedding(IDS, None, segments), embedding.norm(parts))
    close(embedding(IDS), embedding(IDS, None, torch.zeros_like(IDS)), 0)


def test_dropout_comes_last_and_only_in_training():
    embedding = build(dropout=0.5, norm_eps=1e-5)
    assert (embedding(IDS) == 0).float().mean() > 0.2
    embedding.eval()
    assert torch.equal(embedding(IDS), embedding(IDS))


def test_int32_ids_and_empty_texts_are_fine():
    embedding = build()
    close(embedding(IDS.int()), embedding(IDS), 0)
    assert embedding(IDS[:, :0]).shape == (2, 0, 6)


@error_table(
    [
        ("id too large", lambda: build()(torch.tensor([[9]])), ("0 and 8", "9 to 9")),
        ("negative id", lambda: build()(torch.tensor([[-1]])), ("0 and 8", "-1")),
        ("float ids", lambda: build()(torch.zeros(2, 3)), ("int64 or int32", "float32")),
        ("bool ids", lambda: build()(torch.zeros(2, 3, dtype=torch.bool)), ("int64", "bool")),
        ("one sentence", lambda: build()(IDS[0]), ("(B, T)", "(5,)")),
        ("a list", lambda: build()([[1]]), ("ids must be a torch.Tensor", "list")),
        ("segments missing", lambda: build()(IDS, None, IDS), ("no segment vectors",)),
        ("segment id", lambda: build(segments=2)(IDS, None, IDS + 2), ("segment_ids", "0 and 1")),
        ("segments: shape", lambda: build(segments=2)(IDS, None, IDS[:, :1] * 0), ("of ids", "1)")),
        ("segments: batch", lambda: build(segments=2)(IDS[:1], None, IDS * 0), ("shape of ids (1,", "(2,")),
        ("segments: device", lambda: build(segments=2)(IDS, None, IDS.to("meta")), ("segment_ids", "meta")),
        ("learned, no length", lambda: build(positions="learned"), ("max_length", "None")),
        ("name", lambda: check_positions_name("sin", None, ("none",)), ("'learned', 'none'", "'sin'")),
        ("name, no length", lambda: check_positions_name("learned", None, ()), ("max_length", "None")),
        ("length 0", lambda: check_positions_name("learned", 0, ()), ("max_length", "0")),
    ]
)
def test_wrong_inputs_are_named(wrong, says):
    assert_raises(wrong, says)
