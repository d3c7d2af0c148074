"""What the files of lod/ must hold: a downsample by NumPy in extended precision, and a decoder of
PNG by zlib. Nothing here is taken from the program; docs/mount-tree.md is the specification.
"""
import math
import struct
import zlib

import numpy as np

REDUCERS = ("mean", "min", "max", "nonfinite")
PICTURE_SIDE = 1024
TILE_SIDE = 256
STEPS = 127
MAGENTA = 255


# ---------------------------------------------------------------- shapes


def planes_of(shape):
    """(planes, rows, cols) of a tensor that has elements."""
    if len(shape) < 2:
        return 1, 1, math.prod(shape)
    if len(shape) == 2:
        return 1, *shape
    if min(shape[-2:]) >= 32:
        return math.prod(shape[:-2]), *shape[-2:]
    return 1, shape[0], math.prod(shape[1:])


def level_count(shape):
    return (max(planes_of(shape)[1:]) - 1).bit_length()


def level_shape(shape, level):
    """(planes, rows, cols) of the cells."""
    planes, rows, cols = planes_of(shape)
    return planes, -(-rows >> level), -(-cols >> level)


def npy_shape(shape, level):
    planes, rows, cols = level_shape(shape, level)
    return (rows, cols) if planes == 1 else (planes, rows, cols)


def overview_level(shape):
    return next(level for level in range(65)
                if max(level_shape(shape, level)[1:]) <= PICTURE_SIDE)


# ---------------------------------------------------------------- cells


def _reduced(grid, side, by):
    """Blocks of SIDE x SIDE of the last two axes, cut off at the edges, in one number each."""
    for axis in (2, 1):
        grid = by.reduceat(grid, np.arange(0, grid.shape[axis], side), axis=axis)
    return grid


class Cells:
    """Every level of an array: .level(L) gives a dict by reducer, each [planes, rows, cols].

    Sums are of 64 binary digits or more, so that they are exact where f32 is compared.
    """

    BASE = 4  # levels above are made of this one, below of the elements

    def __init__(self, values):
        with np.errstate(all="ignore"):
            elements = values.astype(np.float64).reshape(planes_of(values.shape))
        finite = np.isfinite(elements)
        self.shape = values.shape
        self.elements = {
            "sum": np.where(finite, elements, 0).astype(np.longdouble),
            "abs": np.where(finite, np.abs(elements), 0).astype(np.longdouble),
            "finite": finite.astype(np.int64),
            "nonfinite": (~finite).astype(np.int64),
            "min": np.where(finite, elements, np.inf),
            "max": np.where(finite, elements, -np.inf),
        }
        self.base = self._from(self.elements, 1 << self.BASE)

    @staticmethod
    def _from(grids, side):
        by = {"min": np.minimum, "max": np.maximum}
        return {name: _reduced(grid, side, by.get(name, np.add)) for name, grid in grids.items()}

    def level(self, level):
        """The f32 cells of a level, and by "slack" how far a mean may be off since its sum was
        rounded: infinitely where it may have overflowed a double.
        """
        found = self._from(self.elements, 1 << level) if level < self.BASE else \
            self._from(self.base, 1 << (level - self.BASE))
        none = found["finite"] == 0
        count = np.maximum(found["finite"], 1)
        with np.errstate(over="ignore"):
            shown = {"mean": (found["sum"] / count).astype(np.float64).astype(np.float32)}
            shown.update({name: (found[name] + 0.0).astype(np.float32) for name in ("min", "max")})
        for grid in shown.values():
            grid[none] = np.nan
        shown["nonfinite"] = found["nonfinite"].astype(np.float32)
        shown["slack"] = np.where(found["abs"] < np.finfo(np.float64).max / 2,
                                  found["abs"] / count * 2.0 ** -47, np.inf).astype(np.float64)
        return shown


def require_cells(got, want, what):
    """GOT (a dict by reducer) is what Cells.level() says, means to one step of f32."""
    for name in ("min", "max", "nonfinite"):
        a, b = got[name], want[name]
        assert a.dtype == np.float32 and a.shape == b.shape, f"{what} {name}: {a.dtype} {a.shape}"
        assert np.array_equal(a, b, equal_nan=True), f"{what}: {name} differs"
    for name in REDUCERS:
        assert not np.signbit(got[name][got[name] == 0]).any(), f"{what}: {name} has a -0"
    a, b = got["mean"], want["mean"]
    assert a.dtype == np.float32 and a.shape == b.shape, f"{what} mean: {a.dtype} {a.shape}"
    with np.errstate(invalid="ignore"):
        near = (a == b) | (np.isnan(a) & np.isnan(b)) | np.isinf(want["slack"]) | \
            (np.abs(a.astype(np.float64) - b) <= np.spacing(np.abs(b)) + want["slack"])
    assert near.all(), f"{what}: means differ: {a[~near][:3]}, not {b[~near][:3]}"


# ---------------------------------------------------------------- pictures


def decoded(data):
    """(pixels, palette, texts) of a PNG file of 8-bit palette colours."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n", "signature"
    at, chunks = 8, []
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8:at + 8 + length]
        crc, = struct.unpack_from(">I", data, at + 8 + length)
        assert len(body) == length and crc == zlib.crc32(kind + body), f"{kind}: checksum"
        chunks.append((kind, body))
        at += 12 + length
    assert chunks[0][0] == b"IHDR" and chunks[-1] == (b"IEND", b""), [kind for kind, _ in chunks]
    cols, rows, *how = struct.unpack(">IIBBBBB", chunks[0][1])
    assert how == [8, 3, 0, 0, 0], how
    raw = zlib.decompress(b"".join(body for kind, body in chunks if kind == b"IDAT"))
    lines = np.frombuffer(raw, np.uint8).reshape(rows, cols + 1)
    assert not lines[:, 0].any(), "filters"
    palette = next(body for kind, body in chunks if kind == b"PLTE")
    texts = dict(body.decode("ascii").split("\0") for kind, body in chunks if kind == b"tEXt")
    return lines[:, 1:], np.frombuffer(palette, np.uint8).reshape(-1, 3), texts


def scale_of(cells):
    """Of the finite magnitudes over zero, that at floor(0.99 (m - 1)) in order; 0 for none."""
    sizes = np.abs(cells[np.isfinite(cells) & (cells != 0)])
    return np.sort(sizes)[(len(sizes) - 1) * 99 // 100] if len(sizes) else np.float32(0)


def pixels_of(cells, nonfinite=None):
    """The palette's indexes: 127 at zero, a step for each 1/127 of the scale, 255 not finite."""
    scale = np.longdouble(scale_of(cells))
    fine = np.isfinite(cells)
    sizes = np.where(fine, np.abs(cells), 0).astype(np.longdouble)
    steps = np.where(sizes > 0, STEPS, 0)
    if scale > 0:
        inside = sizes < scale
        steps = np.where(inside, np.floor(STEPS * sizes / scale + np.longdouble(0.5)), steps)
    pixels = np.where(cells < 0, STEPS - steps, STEPS + steps)
    if nonfinite is not None:
        fine = fine & (nonfinite == 0)
    return np.where(fine, pixels, MAGENTA).astype(np.uint8)
