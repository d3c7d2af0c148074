#!/usr/bin/env python3
"""What NumPy says of indices and slices, as the C table of test_selection.c.

usage: selection_expected.py > selection_rows.h
"""
import itertools
import random

import numpy

BIG = "99999999999999999999"  # more than 64 bits hold
BOUNDS = ["", "0", "1", "2", "3", "4", "-1", "-2", "-3", "-4", BIG, f"-{BIG}"]
SHAPES = [(3,), (1,), (3, 4), (2, 1, 3), (4, 0), (2, 3, 2, 2), (5, 1, 1, 2, 3)]


def number(text):
    return int(text) if text else None


def of_range(text, dim):
    """(start, count) of a slice; where it is empty NumPy has no start."""
    start, stop = text.split(":")
    picked = numpy.arange(dim)[number(start) : number(stop)]
    return (int(picked[0]) if len(picked) else 0, len(picked))


def of_element(text, shape):
    """The flat index of an element, -1 where NumPy refuses."""
    array = numpy.arange(int(numpy.prod(shape, dtype=numpy.int64))).reshape(shape)
    try:
        return int(array[tuple(int(field) for field in text.split(","))])
    except IndexError:
        return -1


def range_rows():
    for dim, start, stop in itertools.product((0, 3), BOUNDS, BOUNDS):
        yield f"{start}:{stop}", dim


def some_ranges(dice):
    """Several axes at once, some omitted at the end."""
    for shape in SHAPES:
        for _ in range(8):
            axes = dice.randint(1, len(shape))
            bounds = (dice.choices(BOUNDS[:-2], k=2) for _ in range(axes))
            yield ",".join(map(":".join, bounds)), shape


def some_elements(dice):
    for shape in SHAPES:
        for _ in range(12):
            past = dice.random() < 0.3  # some of these are out of range
            yield ",".join(str(dice.randint(-dim - past, max(dim - 1, 0) + past))
                           for dim in shape), shape


def braces(items):
    return "{" + ", ".join(map(str, items)) + "}"


def table(kind, name, rows):
    """Rows packed to the width of a line."""
    lines, line = [], "   "
    for row in rows:
        if len(line) + len(row) + 2 > 98:
            lines.append(line)
            line = "   "
        line += f" {row},"
    body = "\n".join([*lines, line])
    return f"static const struct {kind} {name}[] = {{\n{body}\n}};\n"


def main():
    dice = random.Random(1)
    print(f"/* NumPy {numpy.__version__}'s answers, written by selection_expected.py. */")
    print("#ifndef TM_TESTS_UNIT_CORE_SELECTION_ROWS_H")
    print("#define TM_TESTS_UNIT_CORE_SELECTION_ROWS_H\n")
    print('#include "core/selection.h"\n')
    print("struct range_row {\n    const char *text;\n    uint64_t dim, start, count;\n};\n")
    print("struct ranges_row {\n    const char *text;\n    size_t rank;\n    uint64_t dims[5];\n"
          "    tm_range ranges[5];\n};\n")
    print("struct element_row {\n    const char *text;\n    size_t rank;\n    uint64_t dims[5];\n"
          "    int64_t index; /* -1: out of range */\n};\n")
    print("/* clang-format off */")
    print(table("range_row", "range_rows",
                (braces([f'"{text}"', dim, *of_range(text, dim)]) for text, dim in range_rows())))
    rows = []
    for text, shape in some_ranges(dice):
        fields = text.split(",") + [":"] * (len(shape) - text.count(",") - 1)
        ranges = [braces(of_range(f, dim)) for f, dim in zip(fields, shape)]
        rows.append(braces([f'"{text}"', len(shape), braces(shape), braces(ranges)]))
    print(table("ranges_row", "ranges_rows", rows))
    rows = []
    for text, shape in some_elements(dice):
        if "-0" not in text.split(","):
            rows.append(braces([f'"{text}"', len(shape), braces(shape), of_element(text, shape)]))
    print(table("element_row", "element_rows", rows), end="")
    print("/* clang-format on */\n\n#endif")


if __name__ == "__main__":
    main()
