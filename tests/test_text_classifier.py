import pytest
import torch
from support import assert_raises, close, error_table, make_ids, seeded

from tutorial_lib.encoder_only import EncoderOnlyConfig
from tutorial_lib.layers import LayerConfig
from tutorial_lib.text_classifier import TextClassifier

CONFIG = EncoderOnlyConfig(20, LayerConfig(8, 2, 16), 2)


@pytest.fixture
def model():
    return seeded(TextClassifier, CONFIG, 3).double().eval()


def test_it_scores_the_mean_vector_of_real_tokens(model):
    ids = make_ids(2, 5)
    ids[1, 3:] = 0
    vectors = model.encoder(ids)
    means = torch.stack([vectors[0].mean(dim=0), vectors[1, :3].mean(dim=0)])
    assert close(model(ids), means @ model.output.weight.T + model.output.bias)
    assert model(ids).shape == (2, 3)


@pytest.mark.parametrize("left", [0, 2])
def test_padding_changes_nothing(model, left):
    ids = make_ids(2, 5)
    assert close(model(torch.nn.functional.pad(ids, (left, 4))), model(ids))


def test_a_text_without_a_token_has_finite_scores(model):
    ids = torch.zeros(1, 4, dtype=torch.long)
    assert close(model(ids), model.output.bias[None])


@error_table(
    [
        ("classes", lambda: TextClassifier(CONFIG, 0), "classes"),
        ("dropout", lambda: TextClassifier(CONFIG, dropout=1.0), "dropout"),
        (
            "padding",
            lambda: TextClassifier(EncoderOnlyConfig(20, CONFIG.layer, 1, padding_id=None)),
            "padding_id, got None",
        ),
    ]
)
def test_wrong_settings_are_named(wrong, says):
    assert_raises(wrong, says)
