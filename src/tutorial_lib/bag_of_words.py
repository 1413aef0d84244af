"""The baseline that a text classifier has to beat: logistic regression on counts of words (chapter 11)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from tutorial_lib.tokenizers import split_eojeol


class BagOfWords:
    """Logistic regression on counts, c(word) -> log(1 + c), with an L2 penalty.

    The same numbers on every run: the problem is convex, starts from zero and is
    solved in float64.

    Args:
        classes: how many.
        cut:     makes words of a text.
        at_least: texts in which a word must occur to count.
        penalty: strength of the L2 penalty on the weights, per text of training.
        steps:   at most so many iterations of L-BFGS.
    """

    def __init__(
        self,
        classes: int = 2,
        *,
        cut: Callable[[str], list[str]] = split_eojeol,
        at_least: int = 2,
        penalty: float = 1e-4,
        steps: int = 100,
    ):
        self.classes, self.cut, self.at_least = classes, cut, at_least
        self.penalty, self.steps = penalty, steps
        self.words: dict[str, int] = {}
        self.weight = torch.zeros(0, classes, dtype=torch.float64)
        self.bias = torch.zeros(classes, dtype=torch.float64)

    def fit(self, texts: Sequence[str], labels: Sequence[int]) -> BagOfWords:
        """Choose the words and learn their weights; return the model itself.

        Raises:
            ValueError: if there is no text, numbers differ, or a label is not in 0, ..., classes - 1.
        """
        if not len(texts) or len(texts) != len(labels):
            raise ValueError(f"each text needs one label, got {len(texts)} texts and {len(labels)} labels")
        if min(labels) < 0 or max(labels) >= self.classes:
            raise ValueError(
                f"labels must lie between 0 and {self.classes - 1}, got {min(labels)} to {max(labels)}"
            )
        found = Counter(word for text in texts for word in set(self.cut(text)))
        kept = sorted(word for word, count in found.items() if count >= self.at_least)
        self.words = {word: index for index, word in enumerate(kept)}
        counts, wanted = self._counts(texts), torch.tensor(labels)
        self.weight = torch.zeros(len(kept), self.classes, dtype=torch.float64, requires_grad=True)
        self.bias = torch.zeros(self.classes, dtype=torch.float64, requires_grad=True)
        solver = torch.optim.LBFGS(
            [self.weight, self.bias],
            max_iter=self.steps,
            line_search_fn="strong_wolfe",
            tolerance_change=1e-9,
        )

        def closure() -> Tensor:
            solver.zero_grad()
            loss = F.cross_entropy(counts @ self.weight + self.bias, wanted)
            loss = loss + 0.5 * self.penalty * self.weight.square().sum()
            loss.backward()
            return loss

        solver.step(closure)
        self.weight, self.bias = self.weight.detach(), self.bias.detach()
        return self

    def predict(self, texts: Sequence[str]) -> Tensor:
        """Return the likeliest class of each text, int64 (B,); words that training had not seen count nothing."""
        return (self._counts(texts) @ self.weight + self.bias).argmax(dim=-1)

    def _counts(self, texts: Sequence[str]) -> Tensor:
        rows, columns, values = [], [], []
        for row, text in enumerate(texts):
            for word, count in Counter(self.cut(text)).items():
                if word in self.words:
                    rows.append(row)
                    columns.append(self.words[word])
                    values.append(float(count))
        where = torch.tensor([rows, columns], dtype=torch.long).reshape(2, len(rows))
        counts = torch.tensor(values, dtype=torch.float64).log1p()
        return torch.sparse_coo_tensor(
            where, counts, (len(texts), len(self.words)), check_invariants=False
        ).coalesce()
