"""What is impossible is refused when it is said, not when a training has ended."""

from __future__ import annotations

import math

from support import assert_raises, error_table

from tutorial_lib.settings import Settings, TrainConfig


@error_table(
    [
        ("updates", lambda: TrainConfig(updates=0), "updates"),
        ("batch", lambda: TrainConfig(batch_size=0), "batch_size"),
        ("pieces", lambda: TrainConfig(accumulation=0), "accumulation"),
        ("evaluate", lambda: TrainConfig(evaluate_every=0), "evaluate_every"),
        ("save", lambda: TrainConfig(save_every=0), "save_every"),
        ("keep", lambda: TrainConfig(keep=0), "keep"),
        ("schedule", lambda: TrainConfig(schedule="step"), "'step'"),
        ("precision", lambda: TrainConfig(precision="int8"), "'int8'"),
        ("smoothing", lambda: TrainConfig(label_smoothing=1.0), "label_smoothing"),
        ("clip", lambda: TrainConfig(clip=-1.0), "clip must be finite and not negative, got -1.0"),
        ("no clip", lambda: TrainConfig(clip=math.nan), "clip must be finite and not negative, got nan"),
        ("decay", lambda: TrainConfig(weight_decay=-0.1), "-0.1"),
        ("warm-up", lambda: TrainConfig(updates=5, warmup=6), "from 0 to 5 (updates), got 6"),
        ("endless decay", lambda: TrainConfig(weight_decay=math.inf), "weight_decay must be finite"),
        ("peak", lambda: TrainConfig(peak=-1.0), "peak must be positive"),
        ("endless peak", lambda: TrainConfig(peak=math.inf), "peak must be positive and finite, got inf"),
        ("eps", lambda: TrainConfig(eps=0.0), "eps must be positive and finite, got 0.0"),
        ("one beta", lambda: TrainConfig(betas=(0.9,)), "betas must be two numbers, got (0.9,)"),
        ("beta", lambda: TrainConfig(betas=(0.9, 1.0)), "betas must lie in [0, 1), got 1.0"),
        ("seed", lambda: TrainConfig(seed=0.5), "a seed must be a whole number, got 0.5"),
        (
            "no translation",
            lambda: Settings("toy", max_length=0),
            "max_length must be an integer of at least 1, got 0",
        ),
        ("no width", lambda: Settings("toy", width=0), "width must be an integer of at least 1, got 0"),
        ("dropout", lambda: Settings("toy", dropout=math.nan), "dropout must lie in [0, 1), got nan"),
        ("norm", lambda: Settings("toy", norm="none"), "'none'"),
        ("limit", lambda: Settings("toy", limit=-1), "limit must be 0 (no limit) or more, got -1"),
        ("valid", lambda: Settings("toy", valid=math.nan), "valid must be a number of rows, or a share"),
        ("test", lambda: Settings("toy", test=1.5), "test must be a number of rows, or a share"),
        ("one column", lambda: Settings("toy", columns=(1,)), "columns must be two numbers from 0, got (1,)"),
        ("column", lambda: Settings("toy", columns=(0, 1.5)), "columns must be two numbers from 0"),
        ("labels", lambda: Settings("toy", labels=(0, 1)), "labels must be strings, as the file writes them"),
        ("on error", lambda: Settings("toy", on_error="stop"), "'stop'"),
        ("source", lambda: Settings("toy", source="de"), "'de'"),
        ("another seed", lambda: Settings("toy", seed="1"), "a seed must be a whole number, got '1'"),
    ]
)
def test_impossible_settings_are_refused(wrong, says):
    assert_raises(wrong, says)


def test_bad_rows_are_skipped_only_where_they_are_known_or_allowed():
    assert [Settings(data).bad_rows for data in ("nsmc", "nsmc-small", "toy")] == ["skip", "skip", "raise"]
    assert Settings("nsmc", on_error="raise").bad_rows == "raise"
    assert Settings("toy", on_error="skip").bad_rows == "skip"
