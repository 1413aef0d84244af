import itertools
import math

import pytest
import torch
from support import assert_raises, error_table

from tutorial_lib.schedules import SCHEDULES, learning_rate, vaswani_rate


def test_the_formula_of_the_paper():
    for update in (1, 2, 3999, 4000, 4001, 100_000):
        assert vaswani_rate(update, 512, 4000) == 512**-0.5 * min(update**-0.5, update * 4000**-1.5)
    assert vaswani_rate(4000, 512, 4000) == pytest.approx(6.99e-4, rel=1e-3)


def test_both_branches_meet_at_the_end_of_the_warm_up_which_is_the_peak():
    rates = [vaswani_rate(update, 64, 50) for update in range(1, 200)]
    assert rates.index(max(rates)) == 49
    assert max(rates) == pytest.approx((64 * 50) ** -0.5)


def test_vaswani_with_a_peak_is_the_paper_up_to_a_factor():
    factors = {
        round(learning_rate(u, 300, schedule="vaswani", peak=1.0, warmup=40) / vaswani_rate(u, 512, 40), 9)
        for u in range(1, 301)
    }
    assert factors == {round((512 * 40) ** 0.5, 9)}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_rise_is_a_straight_line_to_the_peak(schedule):
    rates = [learning_rate(u, 100, schedule=schedule, peak=2.0, warmup=10) for u in range(1, 101)]
    assert rates[:10] == pytest.approx([0.2 * n for n in range(1, 11)])
    assert max(rates) == 2.0
    assert all(a >= b for a, b in itertools.pairwise(rates[9:]))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_without_warm_up_the_first_update_has_the_peak_or_is_just_below(schedule):
    assert 1.98 <= learning_rate(1, 100, schedule=schedule, peak=2.0) <= 2.0


def test_how_they_come_down():
    def at(update, schedule):
        return learning_rate(update, 110, schedule=schedule, peak=1.0, warmup=10)

    assert at(60, "constant") == 1.0
    assert at(60, "linear") == pytest.approx(0.5) and at(85, "linear") == pytest.approx(0.25)
    assert at(60, "cosine") == pytest.approx(0.5)
    assert at(85, "cosine") == pytest.approx(0.5 * (1 + math.cos(math.pi * 0.75)))
    assert at(40, "vaswani") == pytest.approx(0.5)
    assert at(110, "linear") == at(110, "cosine") == 0.0


def test_cosine_and_linear_are_those_of_torch():
    """An independent reference: torch's schedulers, without warm-up."""
    for name, build in {
        "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 50),
        "linear": lambda o: torch.optim.lr_scheduler.LinearLR(o, 1.0, 0.0, 50),
    }.items():
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.3)
        scheduler = build(optimizer)
        for update in range(1, 51):
            optimizer.step()
            scheduler.step()
            ours = learning_rate(update, 50, schedule=name, peak=0.3)
            assert optimizer.param_groups[0]["lr"] == pytest.approx(ours, abs=1e-12)


@error_table(
    [
        ("update 0", lambda: learning_rate(0, 10), "update must be an integer of at least 1"),
        ("too late", lambda: learning_rate(11, 10), "at most 10 (updates), got 11"),
        ("name", lambda: learning_rate(1, 10, schedule="step"), ("'cosine'", "'step'")),
        ("peak", lambda: learning_rate(1, 10, peak=0.0), "peak must be positive, got 0.0"),
        ("peak is no number", lambda: learning_rate(1, 10, peak=math.nan), "got nan"),
        ("warm-up", lambda: learning_rate(1, 10, warmup=11), "from 0 to 10 (updates), got 11"),
        ("half a warm-up", lambda: learning_rate(1, 10, warmup=0.5), "got 0.5"),
        ("width", lambda: vaswani_rate(1, 0, 10), "width"),
    ]
)
def test_impossible_numbers_are_refused(wrong, says):
    assert_raises(wrong, says)
