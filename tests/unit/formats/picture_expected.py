#!/usr/bin/env python3
"""Decodes pictures of formats/picture.c by the PNG specification, and computes them anew.

usage: picture_expected.py PATH_OF_picture_dump
Exits 0 if all agree, 1 and says what differs if not. Where pngcheck is installed, it must agree.
"""
import math
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from fractions import Fraction
from pathlib import Path

DESCRIPTION = (
    "A pixel is the mean of a cell of a tensor, from -Scale (blue) over 0 (white) to Scale (red)."
    " Magenta: not finite."
)
STORED_MAX = 65535
STEPS = 127


# --- the colours, by their formula ---


def srgb_of_oklab(lightness, chroma, hue):
    a = chroma * math.cos(math.radians(hue))
    b = chroma * math.sin(math.radians(hue))
    l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    s = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
        -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
        -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s,
    )
    assert all(-1e-4 < v < 1 + 1e-4 for v in linear), "a colour that sRGB does not have"
    return tuple(round(255 * encode(min(max(v, 0.0), 1.0))) for v in linear)


def encode(linear):
    if linear <= 0.0031308:
        return 12.92 * linear
    return 1.055 * linear ** (1 / 2.4) - 0.055


def palette():
    colours = []
    for index in range(2 * STEPS + 1):
        t = abs(index - STEPS) / STEPS
        hue = 260 if index < STEPS else 27
        colours.append(srgb_of_oklab(1 - 0.55 * t, 0.16 * t, hue))
    return [*colours, (255, 0, 255)]


# --- the file, by the specification ---


def require(condition, words):
    if not condition:
        raise ValueError(words)


def chunks_of(data):
    require(data[:8] == b"\x89PNG\r\n\x1a\n", "signature")
    at = 8
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + 8 + length]
        require(len(body) == length, f"{kind} is cut short")
        (crc,) = struct.unpack_from(">I", data, at + 8 + length)
        require(crc == zlib.crc32(kind + body), f"checksum of {kind}")
        yield kind, body
        at += 12 + length


def stored_blocks(stream, raw_size):
    """The lengths of the blocks, each of which must be a stored one."""
    require(stream[:2] == b"\x78\x01", "zlib header")
    at, lengths = 2, []
    while True:
        final, length, check = struct.unpack_from("<BHH", stream, at)
        require(length ^ check == 0xFFFF and final in (0, 1), "a block that is not stored")
        lengths.append(length)
        at += 5 + length
        if final:
            break
    require(at + 4 == len(stream) and sum(lengths) == raw_size, "blocks")
    return lengths


def decoded(data):
    """(rows, cols, palette, texts, pixels)"""
    chunks = list(chunks_of(data))
    kinds = [kind for kind, _ in chunks]
    require(kinds == [b"IHDR", b"sRGB", b"PLTE", *[b"tEXt"] * 6, b"IDAT", b"IEND"], f"{kinds}")
    bodies = dict(chunks)
    cols, rows, *how = struct.unpack(">IIBBBBB", bodies[b"IHDR"])
    require(how == [8, 3, 0, 0, 0], f"IHDR {how}")
    require(bodies[b"sRGB"] == b"\0" and bodies[b"IEND"] == b"", "sRGB, IEND")
    colours = list(struct.iter_unpack("BBB", bodies[b"PLTE"]))
    texts = [tuple(body.decode("ascii").split("\0")) for kind, body in chunks if kind == b"tEXt"]
    raw = zlib.decompress(bodies[b"IDAT"])
    lengths = stored_blocks(bodies[b"IDAT"], rows * (cols + 1))
    require(all(n == STORED_MAX for n in lengths[:-1]) and lengths[-1] > 0, f"blocks {lengths}")
    lines = [raw[y * (cols + 1) : (y + 1) * (cols + 1)] for y in range(rows)]
    require(all(line[0] == 0 for line in lines), "filters")
    return rows, cols, colours, texts, b"".join(line[1:] for line in lines)


# --- what it must be ---


def index_of(value, scale):
    if not math.isfinite(value):
        return 255
    steps = STEPS
    if abs(value) < scale:
        steps = math.floor(STEPS * Fraction(abs(value)) / Fraction(scale) + Fraction(1, 2))
    elif value == 0:
        steps = 0
    return STEPS - steps if value < 0 else STEPS + steps


def texts_of(dtype, level, scale):
    return [
        ("Software", "tensormorph"),
        ("Description", DESCRIPTION),
        ("Scale", f"{scale:.8e}"),
        ("Cell", f"2^{level} x 2^{level} elements".ljust(20)),
        ("Level", f"{level}".ljust(2)),
        ("Dtype", dtype.ljust(11)),
    ]


def size_of(rows, cols, texts):
    raw = rows * (cols + 1)
    text_bytes = sum(12 + len(keyword) + 1 + len(text) for keyword, text in texts)
    blocks = -(-raw // STORED_MAX)
    return 8 + (12 + 13) + (12 + 1) + (12 + 768) + text_bytes + (12 + 6 + 5 * blocks + raw) + 12


def check(source, file):
    head = struct.Struct("<16sIIIIf")
    dtype, rows, cols, level, has_nonfinite, scale = head.unpack_from(source)
    dtype, count = dtype.rstrip(b"\0").decode(), rows * cols
    cells = struct.unpack_from(f"<{count}f", source, head.size)
    nonfinite = [0.0] * count
    if has_nonfinite:
        nonfinite = struct.unpack_from(f"<{count}f", source, head.size + 4 * count)

    got_rows, got_cols, colours, texts, pixels = decoded(file)
    require((got_rows, got_cols) == (rows, cols), f"{got_rows} x {got_cols}, not {rows} x {cols}")
    require(colours == palette(), "palette")
    require(texts == texts_of(dtype, level, scale), f"texts {texts}")
    require(len(file) == size_of(rows, cols, texts), f"{len(file)} bytes")
    known = {value: index_of(value, scale) for value in set(cells) if value == value}
    want = bytes(
        255 if marks != 0 else known.get(value, 255) for value, marks in zip(cells, nonfinite)
    )
    require(pixels == want, "pixels")


def check_with_pngcheck(paths):
    if shutil.which("pngcheck") is None:
        print("pngcheck is not here: its word is not asked")
        return []
    done = subprocess.run(["pngcheck", "-q", *paths], capture_output=True, text=True)
    return [f"pngcheck: {done.stdout}{done.stderr}"] if done.returncode != 0 else []


def main():
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        pictures = sorted(Path(folder).glob("*.png"))
        for picture in pictures:
            try:
                check(picture.with_suffix(".bin").read_bytes(), picture.read_bytes())
            except ValueError as fault:
                faults.append(f"{picture.name}: {fault}")
        faults += check_with_pngcheck(pictures)
    print(*faults, f"{len(pictures)} pictures, {len(faults)} faults", sep="\n")
    return 1 if faults or not pictures else 0


if __name__ == "__main__":
    sys.exit(main())
