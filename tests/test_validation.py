import torch
from support import assert_raises, error_table
from torch import nn

from tutorial_lib.validation import (
    require_choice,
    require_ids,
    require_like_parameters,
    require_positive,
    require_probability,
    require_same_batch,
    require_tensor,
    require_vectors,
)


def test_right_inputs_pass():
    x, ids = torch.zeros(2, 3, 4), torch.tensor([[0, 9]])
    assert require_tensor("x", x) is x
    require_vectors("x", x, 4)
    require_vectors("x", x[0], 4, rank=2)
    require_like_parameters("x", x, nn.Linear(4, 4))
    require_ids("ids", ids, 10)
    require_ids("ids", ids.int(), 10, like=nn.Linear(1, 1))
    require_ids("ids", ids[:, :0], 10)
    require_same_batch("x", x, "y", x[:, :1])
    require_positive(width=1)
    require_probability("dropout", 0.0)
    require_choice("norm", "pre", ("post", "pre"))


def test_autocast_may_mix_dtypes():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        require_like_parameters("x", torch.zeros(2, 4, dtype=torch.bfloat16), nn.Linear(4, 4))


@error_table(
    [
        ("no tensor", lambda: require_tensor("x", None), ("x must be a torch.Tensor", "NoneType")),
        ("rank", lambda: require_vectors("x", torch.zeros(2, 4), 4), ("(B, T, 4)", "(2, 4)")),
        ("integers", lambda: require_vectors("x", torch.zeros(1, 1, 4).int(), 4), ("floating", "int32")),
        (
            "dtype",
            lambda: require_like_parameters("x", torch.zeros(1).double(), nn.Linear(1, 1)),
            ("64", "32"),
        ),
        (
            "device",
            lambda: require_like_parameters("x", torch.zeros(1).to("meta"), nn.Linear(1, 1)),
            ("cpu", "meta"),
        ),
        ("ids: rank", lambda: require_ids("ids", torch.tensor([1]), 3), ("(B, T)", "(1,)")),
        ("ids: dtype", lambda: require_ids("ids", torch.zeros(1, 1).short(), 3), ("int64", "int16")),
        (
            "ids: device",
            lambda: require_ids("i", torch.tensor([[1]], device="meta"), 3, like=nn.Linear(1, 1)),
            "meta",
        ),
        ("ids: range", lambda: require_ids("ids", torch.tensor([[1, 3]]), 3), ("0 and 2", "1 to 3")),
        (
            "batch",
            lambda: require_same_batch("a", torch.zeros(2), "b", torch.zeros(3)),
            ("a and b", "2 and 3"),
        ),
        ("positive: bool", lambda: require_positive(heads=True), ("heads", "True")),
        ("positive: zero", lambda: require_positive(heads=0), ("at least 1", "0")),
        ("probability", lambda: require_probability("p", 1.0), ("[0, 1)", "1.0")),
        ("choice", lambda: require_choice("kind", "c", ("a", "b")), ("'a', 'b'", "'c'")),
    ]
)
def test_wrong_inputs_are_named(wrong, says):
    assert_raises(wrong, says)
