"""Reading what the mount shows, and exact comparison with what it must be."""
import io

import numpy as np


def table(path):
    """A TSV file as a list of dicts, and its head."""
    lines = path.read_text().split("\n")
    assert lines[-1] == "", f"{path}: does not end in LF"
    head = lines[0].split("\t")
    rows = [dict(zip(head, line.split("\t"), strict=True)) for line in lines[1:-1]]
    return head, rows


def same_values(got, want, what):
    """Equal shape, type and bits; NaN equals NaN of any payload."""
    assert got.dtype == want.dtype, f"{what}: {got.dtype}, not {want.dtype}"
    assert got.shape == want.shape, f"{what}: {got.shape}, not {want.shape}"
    if got.dtype.kind in "fc":
        part = np.float32 if got.dtype.itemsize in (4, 8) and got.dtype != np.float64 \
            else np.float64
        got, want = (np.ascontiguousarray(a).reshape(-1).view(part) for a in (got, want))
        nan = np.isnan(want)
        assert np.array_equal(np.isnan(got), nan), f"{what}: NaN elsewhere"
        got, want = (np.where(nan, part(0), a).tobytes() for a in (got, want))
        assert got == want, f"{what}: other values"
    else:
        assert np.array_equal(got, want), f"{what}: other values"


def load(path):
    return np.load(io.BytesIO(path.read_bytes()))


def scalar(path):
    """The number of a one-value file, which must be 24 columns and LF."""
    text = path.read_text()
    assert len(text) == 25 and text[-1] == "\n", f"{path}: {text!r}"
    assert text == text.strip().rjust(24) + "\n", f"{path}: not right-aligned: {text!r}"
    return text.strip()


def is_shortest(text, value):
    """TEXT reads back as VALUE, and has no more digits than Python's shortest form."""
    def digits(t):
        return t.lower().split("e")[0].replace(".", "").replace("-", "").strip("0")
    value = float(value)
    if np.isnan(value):
        return text == "nan"
    if np.isinf(value):
        return text == ("inf" if value > 0 else "-inf")
    return float(text) == value and np.signbit(float(text)) == np.signbit(value) \
        and len(digits(text)) <= len(digits(repr(value)))
