"""What the functions of `checks` say, in English and Korean."""

from __future__ import annotations

from tutorial_lib.validation import require_choice

LANGUAGES = ("en", "ko")

MESSAGES: dict[str, tuple[str, str]] = {
    # modes
    "train": ("training mode", "학습 모드"),
    "eval": ("evaluation mode", "평가 모드"),
    "function": ("a plain function", "함수"),
    "usual": ("Usual cause: {cause}", "흔한 원인: {cause}"),
    # reports
    "passed": (
        "{name}: passed ({modes}); largest difference {largest:.1e}, allowed {tolerance:.1e}",
        "{name}: 통과({modes}), 가장 큰 차이 {largest:.1e}, 허용 {tolerance:.1e}",
    ),
    # causality
    "leak": (
        "The output sees the future in {mode}: changing token {token} changes output {position} "
        "(by up to {largest:.2g}), which comes before it.",
        "{mode}에서 출력이 미래를 봅니다. {token}번 토큰을 바꾸면 그보다 앞에 있는 {position}번 출력이 "
        "바뀝니다(최대 {largest:.2g}).",
    ),
    "leak_eval_only": (
        "the causal mask is made only while training; evaluation and decoding need it too.",
        "학습할 때만 인과 마스크를 만들었습니다. 평가와 디코딩에도 필요합니다.",
    ),
    "leak_train_only": (
        "the causal mask is made only in evaluation, or a layer mixes positions while training "
        "(batch normalisation does).",
        "평가할 때만 인과 마스크를 만들었거나, 학습할 때 위치를 섞는 층(예: 배치 정규화)이 있습니다.",
    ),
    "leak_next": (
        "the mask is shifted by one: each position also sees the next one. "
        "Row t may attend to columns 0 to t (`tril` without a diagonal offset).",
        "마스크가 한 칸 밀려서 각 위치가 바로 다음 위치까지 봅니다. t번 행은 0번부터 t번 열까지만 "
        "볼 수 있습니다(대각선을 옮기지 않은 `tril`).",
    ),
    "leak_inverted": (
        "the mask is inverted: the outputs see only what comes later. "
        "Here True means 'may attend'; `nn.MultiheadAttention` means the opposite.",
        "마스크가 뒤집혀서 출력이 뒤에 오는 토큰만 봅니다. 여기서는 True가 '볼 수 있음'이고 "
        "`nn.MultiheadAttention`에서는 그 반대입니다.",
    ),
    "leak_all": (
        "no causal mask reaches the attention, it is added after the softmax, or its constant is too small "
        "(-1e4 is; use -inf).",
        "인과 마스크가 어텐션에 전달되지 않았거나, 소프트맥스 뒤에 적용되었거나, 가리는 값이 너무 "
        "작습니다(-1e4는 작습니다. -inf를 쓰십시오).",
    ),
    "constant": (
        "Nothing can be said: in {mode} the output does not change whichever token is changed.",
        "판단할 수 없습니다. {mode}에서 어떤 토큰을 바꾸어도 출력이 바뀌지 않습니다.",
    ),
    # padding
    "padding": (
        "Padding changes the result in {mode}: with {extra} padding tokens appended, {place} changes "
        "by up to {largest:.2g}.",
        "{mode}에서 패딩이 결과를 바꿉니다. 패딩 토큰 {extra}개를 붙이면 {place}의 값이 최대 "
        "{largest:.2g}만큼 바뀝니다.",
    ),
    "place_position": ("output {position}", "{position}번 출력"),
    "place_pooled": ("the output for the whole text", "글 전체의 출력"),
    "padding_token": (
        "no padding mask reaches the attention, it is inverted, or it masks the rows of padding queries "
        "instead of the columns of padding keys.",
        "패딩 마스크가 어텐션에 전달되지 않았거나, 뒤집혔거나, 패딩 키의 열이 아니라 패딩 쿼리의 행을 "
        "가렸습니다.",
    ),
    "padding_pooled": (
        "the average (or maximum) over the text counts padding, or a layer on the way lost the mask: "
        "in Keras `supports_masking` is missing, or `+` was used instead of `layers.Add`.",
        "글 전체의 평균(또는 최댓값)을 구할 때 패딩도 세었거나, 중간의 층이 마스크를 잃었습니다. Keras에서는 "
        "`supports_masking`이 없거나 `layers.Add` 대신 `+`를 쓴 경우입니다.",
    ),
    "padding_left": (
        "positions are counted from the first padding token, or the padding mask is missing.",
        "첫 패딩 토큰부터 위치를 세었거나 패딩 마스크가 없습니다.",
    ),
    # rows
    "rows": (
        "Attention weights of {place} sum to {value:.4g}, not to 1.",
        "{place}의 어텐션 가중치 합이 1이 아니라 {value:.4g}입니다.",
    ),
    "rows_empty": (
        "{place} may attend to nothing, but its weights sum to {value:.4g}, not to 0.",
        "{place}에는 볼 수 있는 키가 없는데 가중치 합이 0이 아니라 {value:.4g}입니다.",
    ),
    "negative": (
        "{place} has the negative weight {value:.4g}.",
        "{place}에 음수 가중치가 있습니다({value:.4g}).",
    ),
    "forbidden": (
        "{place} gives the weight {value:.4g} to a key that the mask forbids.",
        "{place}에서 마스크로 가린 키의 가중치가 {value:.4g}입니다.",
    ),
    "not_a_number": (
        "{place} has weights that are not finite.",
        "{place}의 가중치에 유한하지 않은 값이 있습니다.",
    ),
    "place_row": ("row {index}", "{index}번 행"),
    "rows_columns": (
        "the columns sum to 1: the softmax ran over the queries; it belongs to the last axis, the keys.",
        "열의 합이 1입니다. 소프트맥스를 쿼리 축에 적용했습니다. 마지막 축(키)에 적용해야 합니다.",
    ),
    "rows_after": (
        "the mask was multiplied in after the softmax, without dividing by the new sum.",
        "소프트맥스 뒤에 마스크를 곱하고 새 합으로 나누지 않았습니다.",
    ),
    "rows_other": (
        "these are scores rather than weights, or weights after dropout.",
        "가중치가 아니라 점수이거나, 드롭아웃을 거친 가중치입니다.",
    ),
    "rows_softmax_of_minus_infinity": (
        "a row of nothing but -inf went through the softmax.",
        "모두 -inf인 행이 소프트맥스를 지났습니다.",
    ),
    "rows_finite_mask": (
        "the mask was not applied, or with a finite constant that leaves a rest (or a uniform row).",
        "마스크를 적용하지 않았거나, 유한한 값으로 가려서 가중치가 남았습니다(또는 균등해졌습니다).",
    ),
    # permutation
    "permutation": (
        "The order matters in {mode}: after reordering the tokens, the output for token {position} differs "
        "by up to {largest:.2g}.",
        "{mode}에서 순서가 결과를 바꿉니다. 토큰의 순서를 바꾸면 {position}번 토큰의 출력이 최대 "
        "{largest:.2g}만큼 달라집니다.",
    ),
    "permutation_cause": (
        "the model adds positions, has a causal mask, or contains a recurrent or convolutional layer. "
        "If it should know the order, this is what you want.",
        "모델이 위치를 더하거나, 인과 마스크를 쓰거나, 순환층이나 합성곱층을 포함합니다. 순서를 알아야 하는 "
        "모델이라면 이것이 바라는 결과입니다.",
    ),
    # cache
    "cache": (
        "With the cache, in chunks of {chunks} tokens, output {position} differs by up to {largest:.2g} "
        "from the output without it.",
        "캐시를 쓰고 {chunks}개씩 나누어 넣으면 {position}번 출력이 캐시 없이 얻은 출력과 최대 "
        "{largest:.2g}만큼 다릅니다.",
    ),
    "cache_single": (
        "positions start at 0 again in every chunk (they must go on from the cached length), "
        "or new keys are not appended after the old ones.",
        "조각마다 위치를 0부터 다시 세었거나(캐시 길이부터 이어야 합니다) 새 키를 이전 키 뒤에 붙이지 "
        "않았습니다.",
    ),
    "cache_chunk": (
        "one token at a time is right, several are not: their mask must be (T, S) with the T queries "
        "as the last of the S positions.",
        "한 토큰씩 넣으면 맞지만 여러 토큰을 한꺼번에 넣으면 틀립니다. 마스크는 (T, S)여야 하고 쿼리 T개는 "
        "S개 위치의 마지막이어야 합니다.",
    ),
    # gradients
    "gradient_missing": (
        "No gradient reaches {names} in {mode}.",
        "{mode}에서 {names}에 기울기가 전달되지 않습니다.",
    ),
    "gradient_zero": (
        "The gradient of {names} is exactly zero in {mode}.",
        "{mode}에서 {names}의 기울기가 정확히 0입니다.",
    ),
    "gradient_infinite": (
        "The gradient of {names} is not finite in {mode}.",
        "{mode}에서 {names}의 기울기가 유한하지 않습니다.",
    ),
    "gradient_missing_cause": (
        "the layer is created but never called, or its result is thrown away or detached.",
        "층을 만들고 호출하지 않았거나, 결과를 버렸거나 `detach`했습니다.",
    ),
    "gradient_zero_cause": (
        "a mask forbids everything, an activation is dead, or a constant multiplies the result by 0.",
        "마스크가 모두 가렸거나, 활성화 함수가 죽었거나, 결과에 0이 곱해졌습니다.",
    ),
    "gradient_infinite_cause": (
        "a row of nothing but -inf went through the softmax, or a square root or logarithm was taken at 0.",
        "모두 -inf인 행이 소프트맥스를 지났거나, 0에서 제곱근이나 로그를 구했습니다.",
    ),
}


def require_language(language: str) -> None:
    """Expect "en" or "ko"."""
    require_choice("language", language, LANGUAGES)


def say(key: str, language: str, **values: object) -> str:
    """Return one message in "en" or "ko", with its values filled in."""
    require_language(language)
    return MESSAGES[key][LANGUAGES.index(language)].format(**values)


def complain(key: str, cause: str, language: str, **values: object) -> str:
    """Return what is wrong, followed by its usual cause."""
    usual = say("usual", language, cause=say(cause, language))
    return f"{say(key, language, **values)} {usual}"
