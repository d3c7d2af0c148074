#!/usr/bin/env python3
"""Reads an index by docs/index-format.md alone, and compares it with what was put into it.

usage: index_expected.py PATH_OF_index_dump
Exits 0 if all agree, 1 and says what differs if not.
"""
import ctypes
import ctypes.util
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

FINGERPRINT = bytes([1, 2, 3, 250]) + bytes(27) + bytes([9])
WORDS = 68
CODES = {"BOOL": 2, "U8": 256, "F8_E4M3": 256}  # of the others here: 65,536
WIDE = ("F32", "F64", "I64")

# The fields in the order of stats.json, with their offsets in a record.
INTEGERS = {
    "n": 104, "zero_count": 112, "neg_zero_count": 120, "nan_count": 128, "pos_inf_count": 136,
    "neg_inf_count": 144, "subnormal_count": 152, "absmax_index": 184, "distinct": 240,
    "zero_rows": 248, "zero_cols": 256,
}
REALS = {
    "min": 160, "max": 168, "absmax": 176, "mean": 192, "var": 200, "std": 208, "l1": 216,
    "l2": 224, "entropy": 232,
}
QUANTILES = ("0.001", "0.01", "0.05", "0.25", "0.5", "0.75", "0.95", "0.99", "0.999")


# --- hashes ---


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def xxhash():
    library = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0")
    library.XXH3_64bits.restype = ctypes.c_uint64
    library.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    library.XXH3_128bits.restype = Hash128
    library.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    return library


XXHASH = xxhash()


def hash64(data):
    return XXHASH.XXH3_64bits(data, len(data))


def hash128(data):
    value = XXHASH.XXH3_128bits(data, len(data))
    return struct.pack("<QQ", value.high, value.low)


# --- the file, by the specification ---


def u64(data, offset):
    return struct.unpack_from("<Q", data, offset)[0]


def u32(data, offset):
    return struct.unpack_from("<I", data, offset)[0]


def sections_of(data):
    assert data[:8] == b"\x89TMIDX\r\n"
    assert struct.unpack_from("<HHIQQII", data, 8) == (1, 0, 1, 0, len(data), 4, 48)
    table = data[128 : 128 + 4 * 48]
    assert data[40:56] == hash128(table) and data[56:88] == FINGERPRINT
    assert data[88:112] == bytes(24) and data[112:128] == hash128(data[:112])
    sections, at = {}, 128 + len(table)
    for i in range(4):
        kind, flags, item, offset, stored, used = struct.unpack_from("<IHHQQQ", table, 48 * i)
        whole = data[offset : offset + stored]
        assert (kind, flags, item) == (i + 1, 0, 344 if i == 0 else 0)
        assert offset == at and stored % 8 == 0 and 0 <= stored - used < 8
        assert hash128(whole) == table[48 * i + 32 : 48 * i + 48]
        assert whole[used:] == bytes(stored - used)
        sections[kind] = whole[:used]
        at += stored
    assert at == len(data)
    return sections


def sum_of(data):
    """The sum that DATA begins with, as an integer of 68 words, and what follows it."""
    first, count, zero = struct.unpack_from("<HHI", data)
    words = struct.unpack_from(f"<{count}Q", data, 8)
    assert zero == 0 and first + count <= WORDS
    value = sum(word << 64 * (first + i) for i, word in enumerate(words))
    if words and words[-1] >> 63:
        value -= 1 << 64 * (first + count)
    return value % (1 << 64 * WORDS), data[8 + 8 * count :]


def varints(data):
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0
    assert shift == 0


def histogram_of(data):
    """The counts of bins that are not empty."""
    bins, at = {}, 0
    for value in varints(data):
        if value % 2:
            at += (value + 1) // 2
        else:
            bins[at] = value // 2 + 1
            at += 1
    return bins


def record_lines(record, dtype):
    values = {name: str(u64(record, at)) for name, at in INTEGERS.items()}
    values |= {name: f"{u64(record, at):016x}" for name, at in REALS.items()}
    for i, q in enumerate(QUANTILES):
        values["q" + q] = f"{u64(record, 264 + 8 * i):016x}"
    n, zero = int(values["n"]), int(values["zero_count"])
    sparsity = struct.pack(">d", zero / n).hex() if n else "7ff8000000000000"
    values["sparsity"] = sparsity
    if values["absmax"] == "7ff8000000000000":
        values["absmax_index"] = "none"
    if dtype in WIDE:
        values["distinct"] = "none"
    return values


class Tensor:
    def __init__(self, sections, number, ends):
        self.record = record = sections[1][344 * number : 344 * (number + 1)]
        assert hash64(record[:336]) == u64(record, 336)
        parts = []
        for i in range(3):
            offset, length = u64(record, 8 * i), u32(record, 48 + 4 * i)
            assert offset == ends[i]
            ends[i] += length
            parts.append(sections[i + 2][offset : offset + length])
            assert len(parts[i]) == length and hash64(parts[i]) == u64(record, 24 + 8 * i)
        self.name, sums, self.hist = parts
        self.shift = u32(record, 60)
        self.dtype = record[64:80].rstrip(b"\0").decode()
        self.head = [self.dtype, *map(str, (u64(record, at) for at in (80, 88, 96)))]
        self.fields = record_lines(record, self.dtype)
        self.sums = []
        for _ in range(3):
            value, sums = sum_of(sums)
            self.sums.append(f"{value:0{16 * WORDS}x}")
        assert sums == b""


# --- histograms, written anew ---


def varint(value):
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    data.append(value)
    return bytes(data)


def written(codes, shift):
    bins = {}
    for code, count in codes.items():
        bins[code >> shift] = bins.get(code >> shift, 0) + count
    data, at = b"", 0
    for bin_, count in sorted(bins.items()):
        if bin_ > at:
            data += varint(2 * (bin_ - at - 1) + 1)
        data += varint(2 * (count - 1))
        at = bin_ + 1
    return bins, data


def check_histogram(tensor, codes):
    room = max(256, int(tensor.head[2]) // 1024)
    for shift in range(17):
        bins, data = written(codes, shift)
        if len(data) <= room:
            break
    assert max(codes, default=0) < CODES.get(tensor.dtype, 65536)
    assert tensor.shift == shift, f"{tensor.name}: shift {tensor.shift}, not {shift}"
    assert tensor.hist == data and histogram_of(data) == bins
    return shift


# --- what was put in ---


def expected_tensors(text):
    """(name, head, fields, sums, codes) of each."""
    for part in text.split("tensor ")[1:]:
        head, *lines = part.splitlines()
        name, *head = head.split()
        fields, sums, codes = {}, [], {}
        for line in lines:
            key, _, rest = line.partition(" ")
            if key == "sum":
                sums.append(rest)
            elif key == "hist":
                codes = {int(c): int(k) for c, k in (x.split(":") for x in rest.split())}
            else:
                fields[key] = rest
        yield bytes.fromhex(name[1:]), head, fields, sums, codes


def main(arguments):
    if len(arguments) != 1:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.tmidx"
        done = subprocess.run([*arguments, path], capture_output=True, text=True, check=True)
        sections = sections_of(path.read_bytes())
    expected = sorted(expected_tensors(done.stdout))
    assert len(sections[1]) == 344 * len(expected) and len(expected) > 10
    ends, shifts = [0, 0, 0], []
    for number, (name, head, fields, sums, codes) in enumerate(expected):
        tensor = Tensor(sections, number, ends)
        found = (tensor.name, tensor.head, tensor.fields, tensor.sums)
        assert found == (name, head, fields, sums), f"{found} is not {(name, head, fields, sums)}"
        shifts.append(check_histogram(tensor, codes))
    assert ends == [len(sections[kind]) for kind in (2, 3, 4)]
    assert any(shifts) and not all(shifts)
    print(f"{len(expected)} tensors agree; shifts {shifts}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
