"""What the attention explorer accepts: weights of any library, tokens, masks, each turned into one form or refused."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tutorial_lib.explorer_still import Token, readable_tokens

MASK_KINDS = ("none", "padding", "causal", "both")


def as_array(values) -> np.ndarray:
    """float64 or bool from a tensor on any device, an array or nested lists."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.double() if values.is_floating_point() else values
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:  # for example rows of different lengths
        raise ValueError(f"expected numbers in rows of one length, got {type(values).__name__}") from error
    if array.dtype.kind not in "bfiu":
        raise ValueError(
            f"expected numbers in rows of one length, got {type(values).__name__} of {array.dtype}"
        )
    return array if array.dtype == bool else array.astype(np.float64)


def as_layers(weights) -> tuple[np.ndarray, list[str] | None]:
    """(layers, H, T, S), and the layers' names if they have any."""
    names = None
    if isinstance(weights, Mapping):
        names = [str(name) for name in weights]
        for name, calls in weights.items():
            if isinstance(calls, list | tuple) and len(calls) != 1:
                raise ValueError(
                    f"{name} must hold the weights of one call, got {len(calls)} calls: choose one"
                )
        weights = [w[0] if isinstance(w, list | tuple) else w for w in weights.values()]
    if isinstance(weights, list | tuple) and any(layer is None for layer in weights):
        raise ValueError(
            "weights are a sequence with None in it: the model did not return them. "
            "Hugging Face's models need attn_implementation='eager' and output_attentions=True"
        )
    if isinstance(weights, list | tuple) and weights and all(hasattr(layer, "shape") for layer in weights):
        if all(len(layer.shape) == 1 for layer in weights):  # rows of one head
            return np.stack([as_array(row) for row in weights])[None, None], names
        layers = [_one_layer(as_array(layer)) for layer in weights]
        for layer in layers:
            if layer.shape != layers[0].shape:
                raise ValueError(
                    f"all layers must have the same (H, T, S), got {layers[0].shape} and {layer.shape}: "
                    "show self- and cross-attention in two explorers"
                )
        return np.stack(layers), names
    array = as_array(weights)
    if array.ndim == 5 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim not in (2, 3, 4) or 0 in array.shape:
        raise ValueError(
            "weights must be (T, S), (H, T, S), (layers, H, T, S) or (layers, 1, H, T, S), "
            f"none of them empty, got {array.shape}"
        )
    return array.reshape((1,) * (4 - array.ndim) + array.shape), names


def _one_layer(layer: np.ndarray) -> np.ndarray:
    if layer.ndim == 4 and layer.shape[0] == 1:
        layer = layer[0]
    if layer.ndim == 2:
        layer = layer[None]
    if layer.ndim != 3 or 0 in layer.shape:
        raise ValueError(
            f"each layer must be (T, S), (H, T, S) or (1, H, T, S) for one sentence, got {layer.shape}"
        )
    return layer


def as_names(tokens, key_tokens, T: int, S: int) -> tuple[list[Token], list[Token]]:
    """The T query tokens and S key tokens as shown; the key tokens are the query tokens where T = S.

    Raises:
        ValueError: if there are not T and S of them, or one string was given for a list.
    """
    for name, given in (("tokens", tokens), ("key_tokens", key_tokens)):
        if isinstance(given, str | bytes):
            raise ValueError(f"{name} must be a list of tokens, got one {type(given).__name__}: {given!r}")
    tokens = tokens.tolist() if hasattr(tokens, "tolist") else list(tokens)
    if len(tokens) != T:
        raise ValueError(f"tokens must name the {T} queries, got {len(tokens)} tokens")
    if key_tokens is None:
        if T != S:
            raise ValueError(f"there are {T} queries and {S} keys: name the keys by key_tokens")
        queries = readable_tokens(tokens)
        return queries, queries
    key_tokens = key_tokens.tolist() if hasattr(key_tokens, "tolist") else list(key_tokens)
    if len(key_tokens) != S:
        raise ValueError(f"key_tokens must name the {S} keys, got {len(key_tokens)} tokens")
    return readable_tokens(tokens), readable_tokens(key_tokens)


def check_weights(array: np.ndarray) -> None:
    """Refuse what cannot be attention weights (layers, H, T, S).

    Raises:
        ValueError: naming the first number outside 0 to 1 and its place.
    """
    wrong = ~np.isfinite(array) | (array < -1e-3) | (array > 1 + 1e-2)  # half precision passes 1 a little
    if wrong.any():
        layer, head, i, j = np.argwhere(wrong)[0].tolist()
        raise ValueError(
            f"weights must lie between 0 and 1, got {array[layer, head, i, j]:g} "
            f"in layer {layer}, head {head}, query {i}, key {j}: are these scores, or a row without an allowed key?"
        )


def as_mask(mask, shape: tuple[int, ...]) -> np.ndarray:
    """A boolean mask broadcast to the weights' shape (layers, H, T, S).

    Raises:
        ValueError: if it is not boolean or does not fit.
    """
    allowed = as_array(mask)
    if allowed.dtype != bool:
        raise ValueError(
            f"mask must be boolean (True = may attend), got {getattr(mask, 'dtype', allowed.dtype)}"
        )
    fits = 2 <= allowed.ndim <= 4 and all(
        m in (1, s) for m, s in zip(reversed(allowed.shape), reversed(shape), strict=False)
    )
    if not fits:
        raise ValueError(
            f"mask must be (T, S), (H, T, S) or broadcast to (layers, H, T, S) = {shape}, got {allowed.shape}"
        )
    return np.broadcast_to(allowed, shape)


def as_index(name: str, value: int, size: int) -> int:
    """A place from 0 to size - 1; negative places count from the end.

    Raises:
        ValueError: if there is no such place.
    """
    if not isinstance(value, int | np.integer) or not -size <= value < size:
        raise ValueError(f"{name} must be a whole number below {size}, got {value!r}")
    return int(value) % size


def as_matrix(name: str, values) -> np.ndarray:
    """One sentence's and head's vectors, (length, width), without leading dimensions of size 1.

    Raises:
        ValueError: if more dimensions are left, or a number is not finite.
    """
    array = as_array(values)
    while array.ndim > 2 and array.shape[0] == 1:
        array = array[0]
    if array.ndim != 2 or 0 in array.shape or array.dtype == bool:
        raise ValueError(f"{name} must be (length, width) for one sentence and head, got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}")
    return array


def as_padding(padding, S: int) -> np.ndarray:
    """The padding mask of one sentence, bool (S,); True = a real token.

    Raises:
        ValueError: if it is not boolean or has another length.
    """
    real = as_array(padding)
    if real.dtype != bool or real.size != S or real.shape[-1:] != (S,):
        raise ValueError(
            f"padding must be boolean (True = a real token) of shape ({S},) or (1, 1, 1, {S}), "
            f"got {getattr(padding, 'dtype', real.dtype)} of {real.shape}"
        )
    return real.reshape(S)


def mask_kinds(padding, T: int, S: int) -> list[str]:
    """The masks that a reader can choose from: padding needs a padding mask, causal needs T <= S."""
    possible = {"padding": padding is not None, "causal": T <= S, "both": padding is not None and T <= S}
    return [kind for kind in MASK_KINDS if possible.get(kind, True)]
