#!/usr/bin/env python3
"""Writes a checkpoint of any size in seconds: true headers and index, data as one hole.

    make_sparse.py DIR [--tensors N] [--shards N] [--shape R,C] [--dtype BF16] [--flat]

Every element reads as zero. Names are those of a mixture of experts (--flat: short names of one
pattern, so that 870,000 tensors fit the 100 MB that a header may have). Memory does not grow with
the number of tensors.
"""
import argparse
import json
import math
import pathlib
import struct

BITS = {"F64": 64, "F32": 32, "BF16": 16, "F16": 16, "U8": 8, "F8_E4M3": 8}
EXPERTS, PARTS = 256, ("gate_proj", "up_proj", "down_proj")
FLUSH_ROWS = 10_000


def moe_name(i):
    """Layer, expert and projection of tensor I."""
    expert, part = divmod(i, len(PARTS))
    layer, expert = divmod(expert, EXPERTS)
    return f"model.layers.{layer}.mlp.experts.{expert}.{PARTS[part]}.weight"


def flat_name(i):
    return f"layers.{i // 10000}.w{i % 10000:04}.weight"


def write_header(f, names, dtype, shape):
    """Streams a header for NAMES, one tensor after the other; returns the bytes of data."""
    size = math.prod(shape) * BITS[dtype] // 8
    fixed = f'":{{"dtype":"{dtype}","shape":{json.dumps(list(shape), separators=(",", ":"))},' \
            f'"data_offsets":['
    f.seek(8)
    f.write(b'{"__metadata__":{"format":"pt"}')
    rows, offset = [], 0
    for name in names:
        rows.append(f',"{name}{fixed}{offset},{offset + size}]}}')
        offset += size
        if len(rows) == FLUSH_ROWS:
            f.write("".join(rows).encode())
            rows.clear()
    f.write(("".join(rows) + "}").encode())
    f.write(b" " * (-f.tell() % 8))
    header = f.tell() - 8
    f.seek(0)
    f.write(struct.pack("<Q", header))
    return header, offset


def write_index(path, files):
    """Streams the shard index; FILES gives (tensor, file)."""
    with open(path, "w") as f:
        f.write('{"metadata":{"total_size":0},"weight_map":{')
        for i, (name, file) in enumerate(files):
            f.write(("," if i else "") + f'"{name}":"{file}"')
        f.write("}}")


def make(path, *, tensors, shards=1, shape=(16, 16), dtype="BF16", name=moe_name):
    """Writes the checkpoint; returns the number of parameters."""
    path = pathlib.Path(path)
    path.mkdir(parents=True, exist_ok=True)
    files = [f"model-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards)] \
        if shards > 1 else ["model.safetensors"]
    bounds = [tensors * i // shards for i in range(shards + 1)]
    for file, begin, end in zip(files, bounds, bounds[1:]):
        with open(path / file, "wb") as f:
            header, data = write_header(f, map(name, range(begin, end)), dtype, shape)
            f.truncate(8 + header + data)
    if shards > 1:
        write_index(path / "model.safetensors.index.json",
                    ((name(i), file) for file, begin, end in zip(files, bounds, bounds[1:])
                     for i in range(begin, end)))
    (path / "config.json").write_text(json.dumps({
        "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3",
        "torch_dtype": "bfloat16", "num_local_experts": EXPERTS}))
    return tensors * math.prod(shape)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("dir")
    parser.add_argument("--tensors", type=int, default=120_000)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--shape", default="16,16")
    parser.add_argument("--dtype", default="BF16", choices=sorted(BITS))
    parser.add_argument("--flat", action="store_true")
    args = parser.parse_args()
    parameters = make(args.dir, tensors=args.tensors, shards=args.shards, dtype=args.dtype,
                      shape=tuple(map(int, args.shape.split(","))),
                      name=flat_name if args.flat else moe_name)
    print(f"{args.dir}: {args.tensors} tensors, {parameters} parameters")


if __name__ == "__main__":
    main()
