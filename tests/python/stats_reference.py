"""What stats.json and hist.tsv must say of values: NumPy for what is counted, exact integers for
what is summed. Nothing here is taken from the program; docs/mount-tree.md is the specification.
"""
import fractions
import math

import ml_dtypes
import numpy as np

from checkpoints import DTYPES

FIELDS = ["n", "zero_count", "neg_zero_count", "nan_count", "pos_inf_count", "neg_inf_count",
          "subnormal_count", "min", "max", "absmax", "absmax_index", "mean", "var", "std", "l1",
          "l2", "sparsity", "entropy", "distinct", "zero_rows", "zero_cols"]
QUANTILES = ["0.001", "0.01", "0.05", "0.25", "0.5", "0.75", "0.95", "0.99", "0.999"]
KEYS = FIELDS + [f"q{q}" for q in QUANTILES]
WIDE = {"I32", "U32", "I64", "U64", "F32", "F64"}
NO_VALUES = {"F6_E2M3", "F6_E3M2", "C64"}
ROWS = 4096
EXTRA = 128  # binary digits that a square root is computed to beyond what it is made of


def stored(tensor):
    """The elements of a tensor in their own NumPy type, in its shape."""
    bits, kind, _ = DTYPES[tensor.dtype]
    if bits == 4:
        packed = np.frombuffer(tensor.raw, np.uint8)
        flat = np.stack([packed & 15, packed >> 4], axis=-1).reshape(-1).view(kind)
    else:
        flat = np.frombuffer(tensor.raw, kind)
    return flat.reshape(tensor.shape)


def _doubles(values):
    with np.errstate(all="ignore"):
        return values.reshape(-1).astype(np.float64)


def planes_of(shape):
    """(planes, rows, cols), as core/planes.h arranges a tensor of any rank."""
    if len(shape) < 2:
        return 1, 1, math.prod(shape)
    if len(shape) == 2:
        return 1, *shape
    if math.prod(shape) == 0:
        return 1, 0, 0
    if min(shape[-2:]) >= 32:
        return math.prod(shape[:-2]), *shape[-2:]
    return 1, shape[0], math.prod(shape[1:])


# ---------------------------------------------------------------- by bit patterns


def _f32_cut(doubles):
    """The f32 next to each double on the side of 0, as bits; infinities and NaN as they are."""
    with np.errstate(all="ignore"):
        single = doubles.astype(np.float32)
        beyond = np.isfinite(doubles) & (np.abs(single.astype(np.float64)) > np.abs(doubles))
        single = np.where(beyond, np.nextafter(single, np.float32(0)), single)
    return single.astype(np.float32).view(np.uint32)


def _integer_bin(x):
    size = abs(x)
    if size == 0:
        return 0
    shift = size.bit_length() - 8
    top = size >> shift if shift > 0 else size << -shift
    return (x < 0) << 15 | (126 + size.bit_length()) << 7 | top & 0x7f


def codes_of(dtype, values):
    """What entropy and distinct count: bit patterns, or bins of types wider than 16 bits."""
    flat = values.reshape(-1)
    if dtype == "BOOL":
        return flat.astype(np.uint8)
    if dtype not in WIDE:
        return flat.view(f"u{flat.dtype.itemsize}")
    if dtype == "F32":
        bits = flat.view(np.uint32)
        return np.where(np.isnan(flat), bits | 0x400000, bits) >> 16
    if dtype == "F64":
        bits = flat.view(np.uint64)
        nan = (bits >> 48 & 0x8000) | 0x7fc0 | (bits >> 45 & 0x7f)
        return np.where(np.isnan(flat), nan, _f32_cut(flat) >> 16)
    return np.array([_integer_bin(int(x)) for x in flat], np.int64)


def histogram(dtype, values):
    """The counts of hist.tsv's 4096 rows; NaN is in any of the rows whose bounds are NaN, so all of
    them are given in the last."""
    doubles = _doubles(values)
    if dtype in WIDE and dtype not in ("F32", "F64"):
        bits = codes_of(dtype, values).astype(np.uint32) << 16
    else:
        bits = _f32_cut(doubles)
    nan = np.isnan(doubles)
    bits = bits[~nan]
    size = (bits & 0x7fffffff) >> 20
    row = np.where(bits >> 31, ROWS // 2 - 1 - size.astype(np.int64), ROWS // 2 + size)
    counts = np.bincount(row, minlength=ROWS)
    counts[-1] = nan.sum()
    return counts


# ---------------------------------------------------------------- sums, exactly


def _ratio(top, bottom):
    """The double nearest to a ratio of integers, infinity where it is too great."""
    try:
        return top / bottom
    except OverflowError:
        return math.inf


def _root(top, bottom):
    """The square root of top / bottom**2."""
    return _ratio(math.isqrt(top << 2 * EXTRA), bottom << EXTRA)


def _moments(values):
    """VALUES are finite, in their own type."""
    if values.dtype.kind not in "iub":
        values = _doubles(values)  # which are exact
    kinds, counts = np.unique(values, return_counts=True)
    exact = [fractions.Fraction(v.item()) for v in kinds]
    scale = max((f.denominator for f in exact), default=1)  # powers of two, all of them
    whole = [int(f * scale) for f in exact]
    counts = [int(c) for c in counts]
    n = sum(counts)
    total = sum(c * x for c, x in zip(counts, whole))
    squares = sum(c * x * x for c, x in zip(counts, whole))
    spread = n * squares - total * total
    found = {"l1": _ratio(sum(c * abs(x) for c, x in zip(counts, whole)), scale),
             "l2": _root(squares, scale), "mean": None, "var": None, "std": None}
    if n:
        found.update(mean=_ratio(total, n * scale), var=_ratio(spread, (n * scale) ** 2),
                     std=_root(spread, n * scale))
    return found


# ---------------------------------------------------------------- all of it


def _smallest_normal(dtype):
    if dtype[0] not in "FB" or dtype in ("BOOL", "F8_E8M0"):
        return 0.0
    return float(ml_dtypes.finfo(DTYPES[dtype][1]).smallest_normal)


def _counts(dtype, values, doubles):
    size = np.abs(doubles)
    return {
        "n": doubles.size,
        "zero_count": (doubles == 0).sum(),
        "neg_zero_count": ((doubles == 0) & np.signbit(doubles)).sum(),
        "nan_count": np.isnan(doubles).sum(),
        "pos_inf_count": (doubles == np.inf).sum(),
        "neg_inf_count": (doubles == -np.inf).sum(),
        "subnormal_count": ((size > 0) & (size < _smallest_normal(dtype))).sum(),
    }


def _empty_lines(shape, doubles):
    planes, rows, cols = planes_of(shape)
    if doubles.size == 0:
        return {"zero_rows": 0, "zero_cols": 0}
    there = doubles.reshape(planes, rows, cols) != 0  # NaN is a value
    return {"zero_rows": (~there.any(axis=2)).sum(), "zero_cols": (~there.any(axis=1)).sum()}


def entropy(counts):
    n = int(sum(counts))
    return math.fsum(c / n * math.log2(n / c) for c in map(int, counts)) if n else 0.0


def record(dtype, values):
    """field -> number, None where there is none; quantiles are elements, as their own type has
    them. DTYPE is that of the values: F32 for scaled ones.
    """
    doubles = _doubles(values)
    finite = np.isfinite(doubles)
    chosen = values.reshape(-1)[finite]
    found = _counts(dtype, values, doubles) | _moments(chosen) | _empty_lines(values.shape, doubles)
    found |= dict.fromkeys(["min", "max", "absmax", "absmax_index", *KEYS[len(FIELDS):]])
    if finite.any():
        size = np.where(finite, np.abs(doubles), -1)
        found.update(min=doubles[finite].min() + 0.0, max=doubles[finite].max() + 0.0,
                     absmax=size.max(), absmax_index=size.argmax())
        order = np.argsort(doubles[finite], kind="stable")
        for q in QUANTILES:
            at = round(float(q) * 1000) * (order.size - 1) // 1000
            found[f"q{q}"] = chosen[order[at]]
    found["sparsity"] = found["zero_count"] / doubles.size if doubles.size else None
    counts = np.unique(codes_of(dtype, values), return_counts=True)[1]
    found["entropy"] = entropy(counts)
    found["distinct"] = None if dtype in WIDE else counts.size
    return found
