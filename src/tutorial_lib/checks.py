"""Checks that readers run on their own models: each says what is wrong, where, and what usually causes it.

    from tutorial_lib.checks import check_causal
    print(check_causal(model, ids))

Every check takes a torch module, a Keras layer (torch backend) or a plain
function, tries it in training and in evaluation mode with the same random
numbers each time, and leaves weights, buffers and modes as it found them. It
returns a `CheckReport` or raises a `CheckError`, in English or Korean.
"""

from tutorial_lib.check_parts import check_cache, check_gradients, check_rows_sum_to_one
from tutorial_lib.check_sequence import (
    check_causal,
    check_padding_invariance,
    check_permutation_equivariance,
)
from tutorial_lib.check_subject import CheckError, CheckReport

__all__ = [
    "CheckError",
    "CheckReport",
    "check_cache",
    "check_causal",
    "check_gradients",
    "check_padding_invariance",
    "check_permutation_equivariance",
    "check_rows_sum_to_one",
]
