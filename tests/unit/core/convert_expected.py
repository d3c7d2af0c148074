#!/usr/bin/env python3
"""Checks the conversions of core/convert.c against NumPy, ml_dtypes and Python's own floats.

usage: convert_expected.py PATH_OF_convert_dump
Exits 0 if all agree, 1 and says what differs if not, 77 where NumPy or ml_dtypes is missing.
"""
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import ml_dtypes
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

# The source type of each dtype that has values, as an independent library defines it.
TYPES = {
    "BOOL": np.uint8, "U8": np.uint8, "I8": np.int8, "I16": np.int16, "U16": np.uint16,
    "I32": np.int32, "U32": np.uint32, "I64": np.int64, "U64": np.uint64,
    "F4": ml_dtypes.float4_e2m1fn,
    "F8_E5M2": ml_dtypes.float8_e5m2, "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E8M0": ml_dtypes.float8_e8m0fnu,
    "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "F16": np.float16, "BF16": ml_dtypes.bfloat16, "F32": np.float32, "F64": np.float64,
}


def expected(name, source):
    if name == "BOOL":
        return (source != 0).astype(np.float32)
    if name == "F4":
        nibbles = np.stack([source & 15, source >> 4], axis=-1).ravel()
        return nibbles.view(TYPES[name]).astype(np.float32)
    with np.errstate(all="ignore"):
        return source.view(TYPES[name]).astype(np.float32)


def records(path):
    data = path.read_bytes()
    at = 0
    while at < len(data):
        name, n, size = struct.unpack_from("<16sQQ", data, at)
        at += 32
        source = np.frombuffer(data, np.uint8, size, at)
        values = np.frombuffer(data, np.float32, n, at + size)
        at += size + 4 * n
        yield name.rstrip(b"\0").decode(), source, values


def check_decode(path):
    """Every value bit for bit, but for NaN's payload, whose rule test_convert.c checks."""
    faults, seen = [], set()
    for name, source, values in records(path):
        seen.add(name)
        want = expected(name, source)
        if want.shape != values.shape:
            faults.append(f"{name}: {values.size} values, want {want.size}")
            continue
        both_nan = np.isnan(want) & np.isnan(values)
        wrong = np.flatnonzero((want.view(np.uint32) != values.view(np.uint32)) & ~both_nan)
        faults += [f"{name}[{i}]: {values[i]!r}, want {want[i]!r}" for i in wrong[:5]]
        if wrong.size > 5:
            faults.append(f"{name}: {wrong.size} of {values.size} differ")
    faults += [f"{name}: not dumped" for name in sorted(TYPES.keys() - seen)]
    return faults


def check_text(path):
    """repr() is the shortest text that reads back; ours leaves out the '.0' of a whole number."""
    faults = []
    lines = path.read_text("ascii").splitlines()
    for line in lines:
        bits, text = line.split("\t")
        value = struct.unpack("<d", struct.pack("<Q", int(bits, 16)))[0]
        want = repr(value).removesuffix(".0")
        if text != want:
            faults.append(f"text of {bits}: {text}, want {want}")
    if len(lines) < 200000:
        faults.append(f"text.tsv has only {len(lines)} lines")
    return faults


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        faults = check_decode(Path(folder, "decode.bin")) + check_text(Path(folder, "text.tsv"))
    print("\n".join(faults[:40]) or "all values and texts agree")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
