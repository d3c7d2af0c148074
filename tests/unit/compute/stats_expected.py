#!/usr/bin/env python3
"""Checks the kernels of compute/ against NumPy in float64, and Python's exact integers.

usage: stats_expected.py PATH_OF_stats_dump
Every type with values, on distributions that have caught others out, in shapes with ragged edges.
Exits 0 if all agree, 1 and says what differs if not, 77 where NumPy or ml_dtypes is missing.
"""
import collections
import math
import subprocess
import sys
import tempfile
from fractions import Fraction
from pathlib import Path

try:
    import ml_dtypes
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TYPES = {
    "BOOL": np.uint8, "U8": np.uint8, "I8": np.int8, "I16": np.int16, "U16": np.uint16,
    "I32": np.int32, "U32": np.uint32, "I64": np.int64, "U64": np.uint64,
    "F4": ml_dtypes.float4_e2m1fn,
    "F8_E5M2": ml_dtypes.float8_e5m2, "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E8M0": ml_dtypes.float8_e8m0fnu,
    "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "F16": np.float16, "BF16": ml_dtypes.bfloat16, "F32": np.float32, "F64": np.float64,
}
WIDE = {"I32", "U32", "I64", "U64", "F32", "F64"}
QUANTILES = [1, 10, 50, 250, 500, 750, 950, 990, 999]
EXACT_ELEMS = 3000  # up to so many, moments are compared with exact fractions
# Rows, columns, and the distributions they are tried on; an empty list is all of them.
SHAPES = [
    ((270, 130), []), ((1, 1), ["gaussian", "nan_inf"]), ((0, 5), ["gaussian"]),
    ((5, 0), ["gaussian"]), ((1, 9001), ["gaussian", "pruned"]), ((5001, 1), ["any_bits"]),
    ((255, 257), ["any_bits"]), ((16, 16), []), ((1, 37), []), ((33, 1), ["pruned"]),
    ((257, 31), ["any_bits", "nan_inf"]),
]

random = np.random.default_rng(7)


# --- data ---


def is_integer(name):
    return not name.startswith(("F", "BF"))


def any_bits(name, n):
    """Random codes: of F4 one a byte, unpacked."""
    if name == "F4":
        return random.integers(0, 16, n, dtype=np.uint8)
    width = np.dtype(TYPES[name]).itemsize
    return random.integers(0, 256, n * width, dtype=np.uint8)


def cast(name, values):
    """Values (float64) as codes of a type, in bytes; integers are scaled to be of use."""
    if is_integer(name):
        if name == "BOOL":
            return (values > 0).astype(np.uint8)
        info = np.iinfo(TYPES[name])
        scaled = np.rint(values * (30 if info.bits == 8 else 3000))
        scaled = scaled if info.min < 0 else np.abs(scaled)
        return np.clip(scaled, info.min, min(info.max, 2**62)).astype(TYPES[name]).view(np.uint8)
    with np.errstate(all="ignore"):
        return values.astype(TYPES[name]).view(np.uint8)


def special_codes(name, n):
    """Values with NaNs and infinities among them, half of all."""
    values = random.normal(0, 1, n)
    which = random.integers(0, 6, n)
    for code, special in enumerate([np.nan, np.inf, -np.inf]):
        values[which == code] = special
    if is_integer(name):
        return any_bits(name, n)
    return cast(name, values)


def smallest(name):
    return float(ml_dtypes.finfo(TYPES[name]).smallest_subnormal)


def denormal(name, n):
    if is_integer(name) or name == "F8_E8M0":
        return cast(name, random.integers(0, 2, n).astype(np.float64))
    steps = random.integers(-3, 4, n) if TYPES[name] not in (np.float32, np.float64) \
        else random.integers(-2**22, 2**22, n)
    return cast(name, steps * smallest(name))


DISTRIBUTIONS = {
    "gaussian": lambda name, n: cast(name, random.normal(0, 0.5, n)),
    "norm_like": lambda name, n: cast(name, random.normal(1, 1e-4, n)),
    "pruned": lambda name, n: cast(name, random.normal(0, 1, n) * (random.random(n) > 0.95)),
    "any_bits": any_bits,
    "constant": lambda name, n: cast(name, np.full(n, 0.75)),
    "denormal": denormal,
    "nan_inf": special_codes,
    "zeros": lambda name, n: cast(name, np.where(random.random(n) < 0.5, 0.0, -0.0)),
}


def pack(name, codes):
    if name != "F4":
        return codes.tobytes()
    padded = np.append(codes, np.zeros(codes.size % 2, np.uint8))
    return (padded[::2] | padded[1::2] << 4).tobytes()


# --- what is expected ---


class Checker:
    def __init__(self, case):
        self.case, self.faults = case, []

    def equal(self, what, got, want):
        if got != want and not (got != got and want != want):
            self.faults.append(f"{self.case}: {what} is {got!r}, want {want!r}")

    def close(self, what, got, want, relative, absolute=0.0):
        same = got == want or (got != got and want != want)
        if not same and not abs(got - want) <= relative * abs(want) + absolute:
            self.faults.append(f"{self.case}: {what} is {got!r}, want {want!r} about")


def entropy(counts):
    p = counts / counts.sum() if counts.size else counts
    return float(-(p * np.log2(p)).sum()) if counts.size else 0.0


def root(value):
    """The square root of a Fraction, correct to 40 digits more than a double has."""
    scale = 4**1300
    return Fraction(math.isqrt(value.numerator * scale // value.denominator), 2**1300)


def nearest(value):
    """The double nearest to a Fraction; infinity beyond."""
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.inf


def check_moments(check, got, name, raw, finite):
    """raw: the finite values as Python or NumPy numbers that are exact."""
    n = finite.size
    if n == 0:
        for key in ("mean", "var", "std"):
            check.equal(key, got[key], math.nan)
        return
    if n <= EXACT_ELEMS:
        exact = [Fraction(int(x)) if is_integer(name) else Fraction(float(x)) for x in raw]
        total, squares = sum(exact), sum(x * x for x in exact)
        variance = (n * squares - total * total) / (n * n)
        check.equal("mean", got["mean"], nearest(total / n))
        check.equal("var", got["var"], nearest(variance))
        check.close("std", got["std"], nearest(root(variance)), 2.3e-16)
        check.equal("l1", got["l1"], nearest(sum(abs(x) for x in exact)))
        check.close("l2", got["l2"], nearest(root(squares)), 2.3e-16)
        return
    with np.errstate(all="ignore"):
        mean = math.fsum(finite) / n if np.abs(finite).max() < 1e290 else None
        if mean is None:
            return
        check.close("mean", got["mean"], mean, 5e-16, 1e-17 * float(np.abs(finite).max()))
        variance = math.fsum((finite - mean) ** 2) / n
        if 1e-290 < variance < math.inf or finite.min() == finite.max():
            check.close("var", got["var"], variance, 1e-12)
            check.close("std", got["std"], math.sqrt(variance), 1e-12)
        check.close("l1", got["l1"], math.fsum(np.abs(finite)), 5e-16)
        if np.abs(finite).max() < 1e150:
            check.close("l2", got["l2"], math.sqrt(math.fsum(finite * finite)), 1e-14, 1e-160)


def check_quantiles(check, got, name, finite):
    ordered = np.sort(finite)
    for q in QUANTILES:
        if finite.size == 0:
            check.equal(f"q{q}", got[f"q{q}"], math.nan)
            continue
        want = float(ordered[q * (finite.size - 1) // 1000])
        if name not in WIDE or want == 0:
            check.equal(f"q{q}", got[f"q{q}"], want)
        elif name == "F64" and not 2**-120 < abs(want) < 2**128:
            pass  # beyond f32 there is one bin
        else:
            tiny = 2**-133 if name in ("F32", "F64") else 0
            check.close(f"q{q}", got[f"q{q}"], want, 2**-8, tiny)


def smallest_normal(name):
    if is_integer(name) or name == "F8_E8M0":
        return 0
    return float(ml_dtypes.finfo(TYPES[name]).smallest_normal)


def check_summary(check, got, name, raw, values):
    finite = values[np.isfinite(values)]
    size = np.abs(finite)
    check.equal("n", got["n"], values.size)
    check.equal("nan", got["nan"], int(np.isnan(values).sum()))
    check.equal("pos_inf", got["pos_inf"], int((values == np.inf).sum()))
    check.equal("neg_inf", got["neg_inf"], int((values == -np.inf).sum()))
    check.equal("zero", got["zero"], int((values == 0).sum()))
    check.equal("neg_zero", got["neg_zero"], int(((values == 0) & np.signbit(values)).sum()))
    is_subnormal = (size > 0) & (size < smallest_normal(name))
    check.equal("subnormal", got["subnormal"], int(is_subnormal.sum()))
    none = finite.size == 0
    for key, reduce, of in (("min", np.min, finite), ("max", np.max, finite),
                            ("absmax", np.max, size)):
        check.equal(key, got[key], math.nan if none else float(reduce(of)))
        check.equal(f"sign of {key}", got[key] == 0 and math.copysign(1, got[key]) < 0, False)
    if not none:
        masked = np.where(np.isfinite(values), np.abs(values), -1)
        check.equal("absmax_index", got["absmax_index"], int(np.argmax(masked)))
    share = math.nan if values.size == 0 else int((values == 0).sum()) / values.size
    check.equal("sparsity", got["sparsity"], share)
    check_moments(check, got, name, raw[np.isfinite(values)], finite)
    check_quantiles(check, got, name, finite)


def bins_of(name, raw, values, codes):
    """The codes by which the histogram counts: patterns, or the cut to the top 16 bits of f32."""
    if name == "BOOL":
        return (codes != 0).astype(np.int64)
    if name not in WIDE:
        return codes if name == "F4" else codes.view(f"u{np.dtype(TYPES[name]).itemsize}")
    if name == "F32":
        quiet = np.where(np.isnan(raw), raw.view(np.uint32) | 0x400000, raw.view(np.uint32))
        return quiet >> 16
    if name == "F64":
        with np.errstate(all="ignore"):
            single = values.astype(np.float32)
            over = np.abs(single).astype(np.float64) > np.abs(values)
            toward = np.nextafter(single, np.float32(0))
        cut = np.where(over, toward, single).astype(np.float32)
        return np.where(np.isnan(values), 0x7fc00000, cut.view(np.uint32)) >> 16
    return np.array([integer_bin(int(x)) for x in raw], np.int64)


def integer_bin(x):
    if x == 0:
        return 0
    size = abs(x)
    shift = size.bit_length() - 8
    top = size >> shift if shift > 0 else size << -shift
    return (x < 0) << 15 | (127 + size.bit_length() - 1) << 7 | top & 0x7f


def check_bins(check, got, name, raw, values, codes):
    bins = bins_of(name, raw, values, codes)
    if name == "F64":  # NaN payloads are not kept
        return
    counts = np.unique(bins, return_counts=True)[1] if values.size else np.array([])
    check.close("entropy", got["entropy"], entropy(counts), 1e-12, 1e-13)
    check.equal("distinct", got["distinct"], -1 if name in WIDE else counts.size)


def check_histogram(check, lines, values):
    rows = [(float.fromhex(lo), float.fromhex(hi), int(n)) for lo, hi, n in lines]
    check.equal("histogram's total", sum(n for _, _, n in rows), values.size)
    for low, high, n in rows:
        if low != low:
            want = np.isnan(values).sum() if n else 0
            check.equal("histogram of NaN is within", n <= want, True)
        elif low == high:
            check.equal(f"histogram of {low}", n, int((values == low).sum()))
        elif 2**-120 < min(abs(low), abs(high)) and max(abs(low), abs(high)) < 2**127:
            inside = (values >= low) & (values < high) if low >= 0 else \
                (values > low) & (values <= high)
            check.equal(f"histogram of {low} to {high}", n, int(inside.sum()))


# --- levels of detail, axes ---


def blocks_of(values, side):
    """values as [rows of cells, columns of cells, elements], filled up with zeros, and where there
    are elements. An axis shorter than a cell is not filled up."""
    down, across = (min(side, n) for n in values.shape)
    high, wide = -(-values.shape[0] // down), -(-values.shape[1] // across)
    shape = (high * down, wide * across)
    full, there = np.zeros(shape), np.zeros(shape, bool)
    full[:values.shape[0], :values.shape[1]] = values
    there[:values.shape[0], :values.shape[1]] = True

    def cells(a):
        return a.reshape(high, down, wide, across).swapaxes(1, 2).reshape(high, wide, -1)
    return cells(full), cells(there)


def check_level(check, level, lines, plane):
    cells, there = blocks_of(plane, 2**level)
    finite = np.isfinite(cells) & there
    kept = np.where(finite, cells, 0)
    count = finite.sum(axis=2)
    got = np.full((4, *count.shape), -7.0)
    for r, c, *numbers in lines:
        got[:, int(r), int(c)] = [*map(float.fromhex, numbers[:3]), float(numbers[3])]
    with np.errstate(all="ignore"):
        total = kept.sum(axis=2)
        mean = np.where(count > 0, total / count, np.nan).astype(np.float32)
        low = np.where(finite, cells, np.inf).min(axis=2).astype(np.float32)
        high = np.where(finite, cells, -np.inf).max(axis=2).astype(np.float32)
        slack = 1e-13 * np.abs(kept).sum(axis=2) / np.maximum(count, 1)
        near = np.abs(got[0] - mean) <= np.spacing(np.abs(mean)) + slack
    same = near | (np.isnan(mean) & np.isnan(got[0])) | (got[0] == mean)
    same |= ~np.isfinite(total)
    check.equal(f"level {level}: cells", len(lines), count.size)
    check.equal(f"level {level}: means that differ", int((~same).sum()), 0)
    for what, ours, want in (("minima", got[1], low), ("maxima", got[2], high)):
        want = np.where(count > 0, want, np.nan)
        same = (ours == want) | (np.isnan(ours) & np.isnan(want))
        check.equal(f"level {level}: {what} that differ", int((~same).sum()), 0)
    bad = (there & ~finite).sum(axis=2)
    check.equal(f"level {level}: counts that differ", int((bad != got[3]).sum()), 0)


def check_axis(check, key, lines, plane):
    """plane: the axis first."""
    check.equal(f"{key}s", len(lines), plane.shape[0])
    for line, part in zip(lines, plane):
        finite = part[np.isfinite(part)]
        want = [part.size, np.isnan(part).sum(), np.isinf(part).sum(), (part == 0).sum()]
        check.equal(f"{key} {line[0]}", [int(x) for x in line[1:5]], [int(x) for x in want])
        absmax, rms = float.fromhex(line[5]), float.fromhex(line[6])
        size = np.abs(finite)
        check.equal(f"{key} {line[0]} absmax", absmax, float(size.max()) if size.size else 0.0)
        if size.size == 0:
            check.equal(f"{key} {line[0]} rms", rms, math.nan)
        elif size.max() < 1e150:
            check.close(f"{key} {line[0]} rms", rms, math.sqrt(math.fsum(size * size) / size.size),
                        1e-12, 1e-160)


def values_of(name, codes):
    """The elements as the type's own (exact), and in float64."""
    if name == "BOOL":
        raw = (codes != 0).astype(np.uint8)
    else:
        raw = codes.view(TYPES[name])
    with np.errstate(all="ignore"):
        return raw, raw.astype(np.float64)


def parse(text):
    scalars, lists = {}, collections.defaultdict(list)
    for line in text.splitlines():
        key, *rest = line.split()
        if key == "lod":
            lists[key, int(rest[0])].append(rest[1:])
        elif key in ("row", "col", "hist"):
            lists[key].append(rest)
        else:
            scalars[key] = float.fromhex(rest[0]) if "x" in rest[0] or rest[0].strip("-") in (
                "nan", "inf") else int(rest[0])
    return scalars, lists


def check_case(program, path, name, shape, kind):
    n = shape[0] * shape[1]
    codes = np.ascontiguousarray(DISTRIBUTIONS[kind](name, n)).view(np.uint8)
    raw, values = values_of(name, codes)
    path.write_bytes(pack(name, codes))
    check = Checker(f"{name} {shape[0]}x{shape[1]} {kind}")
    done = subprocess.run([program, "best", name, *map(str, shape), str(path)],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return [f"{check.case}: exit {done.returncode}: {done.stderr}"]
    got, lists = parse(done.stdout)
    plane = values.reshape(shape)
    check_summary(check, got, name, raw, values)
    check_bins(check, got, name, raw, values, codes)
    check_histogram(check, lists["hist"], values)
    check.equal("zero_rows", got["zero_rows"], int((~(plane != 0).any(axis=1)).sum()))
    check.equal("zero_cols", got["zero_cols"], int((~(plane != 0).any(axis=0)).sum()))
    if n > 0:
        levels = math.ceil(math.log2(max(shape)))
        check.equal("levels", got["levels"], levels)
        for level in range(1, levels + 1):
            check_level(check, level, lists["lod", level], plane)
    check_axis(check, "row", lists["row"], plane)
    check_axis(check, "col", lists["col"], plane.T)
    return check.faults


def main():
    faults, cases = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for name in TYPES:
            for shape, kinds in SHAPES:
                for kind in kinds or DISTRIBUTIONS:
                    faults += check_case(sys.argv[1], Path(folder, "data"), name, shape, kind)
                    cases += 1
    print(*faults[:60], f"{cases} cases, {len(faults)} differences", sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
