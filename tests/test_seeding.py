import itertools

import pytest
import torch

from tutorial_lib.seeding import mixed_seed, seeded


def test_the_same_numbers_give_the_same_chance_and_others_another():
    drawn = {}
    for numbers in itertools.product(range(4), range(4)):
        with seeded(*numbers):
            drawn[numbers] = torch.rand(3)
        with seeded(*numbers):
            assert torch.equal(torch.rand(3), drawn[numbers])
    assert len({tuple(value.tolist()) for value in drawn.values()}) == 16


def test_the_callers_random_numbers_go_on_as_if_nothing_had_been():
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    with seeded(1):
        torch.rand(100)
    assert torch.equal(torch.rand(2), expected)


def test_seeds_nearby_do_not_meet():
    seeds = {mixed_seed(a, b) for a in range(-50, 50) for b in range(-50, 50)}
    assert len(seeds) == 10_000 and min(seeds) >= 0 and max(seeds) < 2**63


@pytest.mark.parametrize("wrong", [1.5, "1", None, True])
def test_a_seed_is_a_whole_number(wrong):
    with pytest.raises(ValueError, match="a seed must be a whole number"):
        mixed_seed(0, wrong)
