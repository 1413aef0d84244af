import torch
from support import close
from toys import Table, batched, decoder_only, inputs

from tutorial_lib.stepping import Stepper, evaluation_mode


def test_the_scores_are_those_after_the_last_real_token():
    model, parts = decoder_only(), inputs("decoder-only")
    for side in ("left", "right"):
        (prompt,) = batched(parts, side)
        with evaluation_mode(model):
            stepper = Stepper(model, prompt, None, None, 3, None)
            for row, (part,) in enumerate(parts):
                close(stepper.scores[row, 1:], model(part)[0, -1, 1:])
            assert (stepper.scores[:, 0] == -torch.inf).all()


def test_rows_are_selected_with_their_scores():
    model = Table(5)
    stepper = Stepper(model, torch.tensor([[1, 2], [3, 4]]), None, None, 3, 4)
    before, rows = stepper.scores, torch.tensor([1, 1, 0])
    stepper.select(rows)
    assert torch.equal(stepper.scores, before[rows])
    stepper.read(torch.tensor([0, 1, 2]))
    text = [3, 4, 1]
    expected = torch.tensor(model.probabilities(text), dtype=torch.float64)
    close(torch.softmax(stepper.scores[1], -1), expected)
    assert stepper.ends(torch.tensor([[4, 0]])).tolist() == [[True, False]]


def test_the_model_is_not_asked_for_what_nobody_needs():
    """Columns that are padding everywhere are left out, and a model need not know `real`."""
    model = Table(5, padding_id=0)
    Stepper(model, torch.tensor([[0, 1, 2, 0], [0, 3, 4, 0]]), None, None, 3, None)
    assert model.steps[0].tolist() == [[1, 2], [3, 4]]


def test_evaluation_mode_gives_modes_and_gradients_back_after_an_error():
    model = Table()
    model.train()
    try:
        with evaluation_mode(model):
            assert (
                not model.training and not torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
            )
            raise RuntimeError
    except RuntimeError:
        pass
    assert model.training and torch.is_grad_enabled()
