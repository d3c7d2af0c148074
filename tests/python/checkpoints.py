"""Checkpoints made for tests: the files, and what every tensor's values must be.

A checkpoint is written from a dict name -> Tensor, so that a test compares what the mount shows
with values that NumPy and ml_dtypes computed from the same stored bytes.
"""
import dataclasses
import hashlib
import json
import os
import pathlib
import struct

import ml_dtypes
import numpy as np

# dtype -> (bits, the NumPy type of stored elements, the NumPy type of data.npy; None: no values)
DTYPES = {
    "BOOL": (8, np.bool_, np.bool_),
    "F4": (4, ml_dtypes.float4_e2m1fn, np.float32),
    "F6_E2M3": (6, None, None),
    "F6_E3M2": (6, None, None),
    "U8": (8, np.uint8, np.uint8),
    "I8": (8, np.int8, np.int8),
    "F8_E5M2": (8, ml_dtypes.float8_e5m2, np.float32),
    "F8_E4M3": (8, ml_dtypes.float8_e4m3fn, np.float32),
    "F8_E8M0": (8, ml_dtypes.float8_e8m0fnu, np.float32),
    "F8_E4M3FNUZ": (8, ml_dtypes.float8_e4m3fnuz, np.float32),
    "F8_E5M2FNUZ": (8, ml_dtypes.float8_e5m2fnuz, np.float32),
    "I16": (16, np.int16, np.int16),
    "U16": (16, np.uint16, np.uint16),
    "F16": (16, np.float16, np.float32),
    "BF16": (16, ml_dtypes.bfloat16, np.float32),
    "I32": (32, np.int32, np.int32),
    "U32": (32, np.uint32, np.uint32),
    "F32": (32, np.float32, np.float32),
    "C64": (64, np.complex64, np.complex64),
    "F64": (64, np.float64, np.float64),
    "I64": (64, np.int64, np.int64),
    "U64": (64, np.uint64, np.uint64),
}


@dataclasses.dataclass
class Tensor:
    dtype: str
    shape: tuple
    raw: bytes

    @property
    def elems(self):
        return int(np.prod(self.shape, dtype=np.int64))

    def values(self):
        """What data.npy holds, were the tensor not scaled."""
        bits, stored, shown = DTYPES[self.dtype]
        if bits == 4:
            packed = np.frombuffer(self.raw, np.uint8)
            codes = np.stack([packed & 15, packed >> 4], axis=-1).reshape(-1)
            flat = codes.view(stored)
        else:
            flat = np.frombuffer(self.raw, stored)
        return flat.astype(shown).reshape(self.shape)


@dataclasses.dataclass
class Checkpoint:
    path: pathlib.Path
    tensors: dict
    files: dict  # tensor name -> its shard's file name

    def values(self, name):
        return self.tensors[name].values()


# ---------------------------------------------------------------- tensors


def random_bits(dtype, shape, rng):
    """A tensor of random bits: every value of the type, NaN and infinities too."""
    count = int(np.prod(shape, dtype=np.int64))
    bits = count * DTYPES[dtype][0]
    assert bits % 8 == 0, "an element range must fill whole bytes"
    raw = rng.integers(0, 2 if dtype == "BOOL" else 256, bits // 8, dtype=np.uint8)
    return Tensor(dtype, tuple(shape), raw.tobytes())


def of_array(dtype, array):
    """A tensor of the values of ARRAY, rounded to DTYPE."""
    return Tensor(dtype, tuple(array.shape),
                  np.ascontiguousarray(array).astype(DTYPES[dtype][1]).tobytes())


def normal(dtype, shape, rng, scale=1.0):
    return of_array(dtype, rng.standard_normal(shape, dtype=np.float32) * np.float32(scale))


# ---------------------------------------------------------------- files


def header_of(tensors, metadata=None):
    """The JSON header for tensors laid out in the order given, as a dict."""
    header, offset = {}, 0
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, t in tensors.items():
        header[name] = {"dtype": t.dtype, "shape": list(t.shape),
                        "data_offsets": [offset, offset + len(t.raw)]}
        offset += len(t.raw)
    return header


def safetensors_bytes(tensors, metadata=None):
    text = json.dumps(header_of(tensors, metadata), separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(t.raw for t in tensors.values())


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


def write_checkpoint(path, tensors, *, shards=1, config=None, metadata=None, stem="model"):
    """Writes a folder: shards (with an index where there are several), config.json, tokenizer."""
    path.mkdir(parents=True, exist_ok=True)
    metadata = {"format": "pt"} if metadata is None else metadata
    names = list(tensors)
    files = {}
    for i in range(shards):
        part = {n: tensors[n] for n in names[i * len(names) // shards:
                                            (i + 1) * len(names) // shards]}
        file = f"{stem}.safetensors" if shards == 1 else \
            f"{stem}-{i + 1:05}-of-{shards:05}.safetensors"
        (path / file).write_bytes(safetensors_bytes(part, metadata))
        files.update(dict.fromkeys(part, file))
    if shards > 1:
        total = sum(len(t.raw) for t in tensors.values())
        write_json(path / f"{stem}.safetensors.index.json",
                   {"metadata": {"total_size": total}, "weight_map": files})
    if config is not None:
        write_json(path / "config.json", config)
    return Checkpoint(path, tensors, files)


def write_tokenizer(path):
    write_json(path / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})
    write_json(path / "tokenizer.json", {"version": "1.0", "model": {"type": "BPE", "vocab": {},
                                                                     "merges": []}})
    write_json(path / "generation_config.json", {"eos_token_id": 2})


# ---------------------------------------------------------------- whole models


LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
         "rms_norm_eps": 1e-5, "max_position_embeddings": 128, "torch_dtype": "bfloat16"}


def llama(path, *, layers=3, hidden=64, vocab=160, shards=2, dtype="BF16", tied=False, seed=1):
    """A small Llama: shards with an index, config, tokenizer files, a subfolder."""
    rng = np.random.default_rng(seed)
    inner, kv = hidden * 2, hidden // 2
    shapes = {"model.embed_tokens.weight": (vocab, hidden)}
    for i in range(layers):
        p = f"model.layers.{i}."
        shapes.update({
            p + "input_layernorm.weight": (hidden,),
            p + "mlp.down_proj.weight": (hidden, inner),
            p + "mlp.gate_proj.weight": (inner, hidden),
            p + "mlp.up_proj.weight": (inner, hidden),
            p + "post_attention_layernorm.weight": (hidden,),
            p + "self_attn.k_proj.weight": (kv, hidden),
            p + "self_attn.o_proj.weight": (hidden, hidden),
            p + "self_attn.q_proj.weight": (hidden, hidden),
            p + "self_attn.v_proj.weight": (kv, hidden),
        })
    shapes["model.norm.weight"] = (hidden,)
    if not tied:
        shapes["lm_head.weight"] = (vocab, hidden)
    tensors = {n: normal(dtype, s, rng, 0.1) for n, s in shapes.items()}
    config = dict(LLAMA, hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers,
                  num_attention_heads=4, num_key_value_heads=2, vocab_size=vocab,
                  tie_word_embeddings=tied)
    made = write_checkpoint(path, tensors, shards=shards, config=config)
    write_tokenizer(path)
    (path / "original").mkdir(exist_ok=True)
    write_json(path / "original/params.json", {"dim": hidden})
    return made


def mixture(path, *, layers=2, experts=3, hidden=32, seed=2):
    """A Mixtral: one tensor an expert and projection."""
    rng = np.random.default_rng(seed)
    shapes = {"model.embed_tokens.weight": (64, hidden), "model.norm.weight": (hidden,)}
    for i in range(layers):
        p = f"model.layers.{i}.block_sparse_moe."
        shapes[p + "gate.weight"] = (experts, hidden)
        for e in range(experts):
            shapes[f"{p}experts.{e}.w1.weight"] = (48, hidden)
            shapes[f"{p}experts.{e}.w2.weight"] = (hidden, 48)
            shapes[f"{p}experts.{e}.w3.weight"] = (48, hidden)
    config = {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral",
              "num_hidden_layers": layers, "num_local_experts": experts, "hidden_size": hidden}
    return write_checkpoint(path, {n: normal("BF16", s, rng) for n, s in shapes.items()},
                            shards=2, config=config)


def fused_experts(path, *, layers=2, experts=4, hidden=16, seed=3):
    """All experts of a layer in one tensor, along axis 0."""
    rng = np.random.default_rng(seed)
    shapes = {"model.embed_tokens.weight": (32, hidden)}
    for i in range(layers):
        p = f"model.layers.{i}.mlp."
        shapes[p + "router.weight"] = (experts, hidden)
        shapes[p + "experts.gate_up_proj"] = (experts, hidden, 48)
        shapes[p + "experts.down_proj"] = (experts, 24, hidden)
    config = {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss",
              "num_hidden_layers": layers, "num_local_experts": experts, "hidden_size": hidden}
    return write_checkpoint(path, {n: normal("BF16", s, rng) for n, s in shapes.items()},
                            config=config)


def every_dtype(path, seed=4):
    """Every dtype at rank 0 to 4 and with a zero dimension, as random bits."""
    rng = np.random.default_rng(seed)
    tensors = {}
    for dtype, (bits, _, _) in DTYPES.items():
        shapes = [(8,), (5, 8), (3, 4, 6), (2, 3, 2, 4), (0, 3)]
        if bits % 8 == 0:
            shapes += [(), (1,), (7,), (3, 5)]
        for shape in shapes:
            name = f"{dtype.lower()}.{'x'.join(map(str, shape)) or 'scalar'}"
            tensors[name] = random_bits(dtype, shape, rng)
    return write_checkpoint(path, tensors)


ODD_NAMES = ["", ".", "..", "...", ".hidden", "a/b", "/etc/passwd", "100%", "%2F", "a b",
             "tab\there", "new\nline", "del\x7f", "üñí", "emoji\U0001F600", "a:b", "*", "'\"\\",
             "-n", "~", "q.weight", "q.weight.absmax", "q.weight.quant_map", "CON", "UPPER",
             "upper"]


def odd_names(path, seed=5):
    rng = np.random.default_rng(seed)
    return write_checkpoint(path, {n: normal("F32", (2, 3), rng) for n in ODD_NAMES})


def long_names(path, seed=6):
    """Names over 255 bytes, which share their prefix."""
    rng = np.random.default_rng(seed)
    names = ["x" * 255, "x" * 256, "x" * 300 + "a", "x" * 300 + "b", "é" * 200]
    return write_checkpoint(path, {n: normal("F32", (3,), rng) for n in names})


# ---------------------------------------------------------------- scaled (FP8)


@dataclasses.dataclass
class Scaled(Checkpoint):
    expected: dict  # name of a scaled tensor -> its f32 values

    def values(self, name):
        return self.expected.get(name, super().values(name))


def blocks_expanded(scale, block, shape):
    """Per-block scales repeated to the weight's shape; blocks at the edges may be partial."""
    for axis, side in zip((-2, -1), block):
        scale = np.repeat(scale, side, axis=axis)
    return scale[..., :shape[-2], :shape[-1]]


def fp8_block(path, *, block=(128, 128), scale_dtype="F32", shards=1, seed=7):
    """DeepSeek's and Qwen's FP8: weight_scale_inv multiplies blocks, partial ones too."""
    rng = np.random.default_rng(seed)
    tensors, expected = {}, {}
    weights = {"model.layers.0.self_attn.q_proj.weight": (200, 300),
               "model.layers.0.mlp.up_proj.weight": (2 * block[0], block[1]),
               "model.layers.0.mlp.experts.down_proj.weight": (3, 130, 70)}
    for name, shape in weights.items():
        weight = normal("F8_E4M3", shape, rng, 8)
        grid = shape[:-2] + tuple(-(-n // b) for n, b in zip(shape[-2:], block))
        scale = random_scale(scale_dtype, grid, rng)
        tensors[name], tensors[name + "_scale_inv"] = weight, scale
        expected[name] = weight.values() * blocks_expanded(scale.values(), block, shape)
    tensors["model.norm.weight"] = normal("BF16", (64,), rng)
    # in this order weights and their scales stand in different shards
    tensors = dict(sorted(tensors.items(), key=lambda kv: (kv[0].endswith("scale_inv"), kv[0])))
    config = {"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3",
              "torch_dtype": "bfloat16", "num_hidden_layers": 1,
              "quantization_config": {"quant_method": "fp8", "fmt": "e4m3",
                                      "activation_scheme": "dynamic",
                                      "weight_block_size": list(block)}}
    made = write_checkpoint(path, tensors, shards=shards, config=config)
    return Scaled(made.path, made.tensors, made.files, expected)


def random_scale(dtype, shape, rng):
    if dtype == "F8_E8M0":
        codes = rng.integers(110, 140, shape, dtype=np.uint8)
        return Tensor(dtype, tuple(shape), codes.tobytes())
    return of_array(dtype, rng.uniform(0.001, 0.1, shape).astype(np.float32))


def fp8_scaled(path, *, scheme="naive-quantized", scale_dtype="F32", seed=8):
    """compressed-tensors' FP8: weight_scale as a scalar, of one element, and one a channel."""
    rng = np.random.default_rng(seed)
    tensors, expected = {}, {}
    for name, shape in {"scalar": (), "one": (1,), "channel": (40, 1)}.items():
        stem = f"model.layers.0.mlp.{name}."
        weight = normal("F8_E4M3", (40, 72), rng, 8)
        scale = random_scale(scale_dtype, shape, rng)
        tensors[stem + "weight"], tensors[stem + "weight_scale"] = weight, scale
        tensors[stem + "input_scale"] = random_scale("F32", (), rng)
        expected[stem + "weight"] = weight.values() * scale.values()
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama",
              "torch_dtype": "bfloat16", "num_hidden_layers": 1,
              "quantization_config": {
                  "quant_method": "compressed-tensors", "format": scheme,
                  "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
                      "num_bits": 8, "type": "float", "strategy": "channel"}}}}}
    made = write_checkpoint(path, tensors, config=config)
    return Scaled(made.path, made.tensors, made.files, expected)


def fp8_without_scale(path, seed=9):
    rng = np.random.default_rng(seed)
    return write_checkpoint(path, {"model.a.weight": random_bits("F8_E4M3", (4, 6), rng),
                                   "model.b.weight": random_bits("F8_E5M2", (4, 6), rng)})


# ---------------------------------------------------------------- quantised: values not readable


def _packed(config, tensors, refused):
    return {"config": {"architectures": ["LlamaForCausalLM"], "model_type": "llama",
                       "torch_dtype": "bfloat16", "quantization_config": config},
            "tensors": tensors, "refused": refused}


def quantised_schemes(seed=10):
    """scheme -> config, tensors, and the tensors whose values cannot be shown (raw can)."""
    rng = np.random.default_rng(seed)
    p = "model.layers.0.mlp.up_proj."

    def bits(dtype, *shape):
        return random_bits(dtype, shape, rng)

    def real(dtype, *shape):
        return normal(dtype, shape, rng, 0.1)

    state = json.dumps({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16",
                        "shape": [16, 32]}).encode()
    return {
        "gptq": _packed({"quant_method": "gptq", "bits": 4, "group_size": 32}, {
            p + "qweight": bits("I32", 8, 16), p + "qzeros": bits("I32", 2, 2),
            p + "scales": real("F16", 2, 16),
            p + "g_idx": of_array("I32", np.arange(64) // 32)}, [p + "qweight"]),
        "awq": _packed({"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm"}, {
            p + "qweight": bits("I32", 64, 2), p + "qzeros": bits("I32", 2, 2),
            p + "scales": real("F16", 2, 16)}, [p + "qweight"]),
        "bnb-4bit": _packed({"quant_method": "bitsandbytes", "load_in_4bit": True,
                             "bnb_4bit_quant_type": "nf4"}, {
            p + "weight": bits("U8", 256, 1), p + "weight.absmax": real("F32", 8),
            p + "weight.quant_map": real("F32", 16),
            p + "weight.quant_state.bitsandbytes__nf4":
                Tensor("U8", (len(state),), state)}, [p + "weight"]),
        "pack-quantized": _packed({"quant_method": "compressed-tensors",
                                   "format": "pack-quantized"}, {
            p + "weight_packed": bits("I32", 16, 8), p + "weight_scale": real("BF16", 16, 2),
            p + "weight_shape": of_array("I64", np.array([16, 64]))}, [p + "weight_packed"]),
        "nvfp4": _packed({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}, {
            p + "weight_packed": bits("U8", 16, 32), p + "weight_scale": real("F8_E4M3", 16, 4),
            p + "weight_global_scale": real("F32", 1)}, [p + "weight_packed"]),
        "mxfp4": _packed({"quant_method": "mxfp4"}, {
            "model.layers.0.mlp.experts.gate_up_proj_blocks": bits("U8", 2, 8, 3, 16),
            "model.layers.0.mlp.experts.gate_up_proj_scales": bits("U8", 2, 8, 3)},
            ["model.layers.0.mlp.experts.gate_up_proj_blocks"]),
    }


# ---------------------------------------------------------------- damaged


def framed(text, data=b""):
    """A file with this very header text."""
    return struct.pack("<Q", len(text)) + text + data


def _header(**tensors):
    return json.dumps(tensors, separators=(",", ":")).encode()


def _entry(begin, end, shape=(4,), dtype="U8", **more):
    return dict({"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}, **more)


UPSTREAM_TAKES = ("duplicate-tensor", "array-form")


def damaged_files():
    """name of a defect -> the bytes of a file with it. Upstream's reader refuses them too, but for
    those of UPSTREAM_TAKES.
    """
    one = _header(a=_entry(0, 4))
    two = _header(a=_entry(0, 4), b=_entry(4, 8))
    lfs = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 1234\n"
    return {
        "empty-file": b"",
        "seven-bytes": b"\x08\0\0\0\0\0\0",
        "header-of-zero-bytes": struct.pack("<Q", 0),
        "header-past-the-end": struct.pack("<Q", 1 << 20) + one,
        "header-over-the-limit": struct.pack("<Q", 1 << 40) + one,
        "not-json": framed(b"hello, world"),
        "empty-json": framed(b"        "),
        "byte-order-mark": framed(b"\xef\xbb\xbf" + one, b"1234"),
        "trailing-comma": framed(one[:-1] + b",}", b"1234"),
        "garbage-after-json": framed(one + b"x", b"1234"),
        "nul-after-json": framed(one + b"\0", b"1234"),
        "bad-utf-8": framed(one.replace(b'"a"', b'"\xff"'), b"1234"),
        "lone-surrogate": framed(one.replace(b'"a"', b'"\\ud800"'), b"1234"),
        "top-level-array": framed(b"[" + one + b"]", b"1234"),
        "tensor-is-null": framed(b'{"a":null}'),
        "no-dtype": framed(b'{"a":{"shape":[4],"data_offsets":[0,4]}}', b"1234"),
        "unknown-dtype": framed(_header(a=_entry(0, 4, dtype="F7")), b"1234"),
        "lower-case-dtype": framed(_header(a=_entry(0, 4, dtype="u8")), b"1234"),
        "negative-dimension": framed(one.replace(b"[4]", b"[-4]"), b"1234"),
        "fractional-dimension": framed(one.replace(b"[4]", b"[4.0]"), b"1234"),
        "overflowing-shape": framed(_header(a=_entry(0, 4, (1 << 32, 1 << 32, 4))), b"1234"),
        "three-offsets": framed(one.replace(b"[0,4]", b"[0,4,4]"), b"1234"),
        "reversed-offsets": framed(_header(a=_entry(4, 0)), b"1234"),
        "hole-at-the-start": framed(_header(a=_entry(4, 8)), b"12345678"),
        "hole-in-the-middle": framed(_header(a=_entry(0, 4), b=_entry(8, 12)), b"123456789abc"),
        "bytes-after-the-end": framed(one, b"12345"),
        "overlap": framed(_header(a=_entry(0, 4), b=_entry(2, 6)), b"123456"),
        "same-bytes-twice": framed(_header(a=_entry(0, 4), b=_entry(0, 4)), b"1234"),
        "size-against-shape": framed(_header(a=_entry(0, 8)), b"12345678"),
        "duplicate-tensor": framed(b"{" + one[1:-1] + b"," + one[1:], b"1234"),
        "odd-bits": framed(_header(a=_entry(0, 2, (3,), "F4")), b"12"),
        "metadata-is-a-number": framed(b'{"__metadata__":{"a":1},' + one[1:], b"1234"),
        "array-form": framed(b'{"a":["U8",[4],[0,4]]}', b"1234"),
        "deep-nesting": framed(b'{"a":' + b"[" * 300 + b"]" * 300 + b"}"),
        "cut-short": framed(two, b"123456"),
        "lfs-pointer": lfs,
        "html-page": b"<!DOCTYPE html><html><body>404</body></html>",
        "pickle-in-disguise": b"PK\x03\x04" + b"\0" * 64,
    }


def accepted_files():
    """name of an oddity -> the bytes of a file that is good, and the shapes of its tensors."""
    one = _header(a=_entry(0, 4))
    return {
        "no-tensors": (framed(b"{}"), {}),
        "white-space-around": (framed(b" \t\r\n" + one + b" \t\r\n", b"1234"), {"a": [4]}),
        "unaligned-header": (framed(one + b" " * (3 - len(one) % 2), b"1234"), {"a": [4]}),
        "metadata-null": (framed(b'{"__metadata__":null,' + one[1:], b"1234"), {"a": [4]}),
        "extra-field": (framed(_header(a=_entry(0, 4, extra=[1, {"x": None}])), b"1234"),
                        {"a": [4]}),
        "unordered-header": (framed(_header(b=_entry(4, 8), a=_entry(0, 4)), b"12345678"),
                             {"a": [4], "b": [4]}),
        "misaligned-tensor": (framed(_header(a=_entry(0, 1, (1,)),
                                             b=_entry(1, 9, (1,), "F64")), b"123456789"),
                              {"a": [1], "b": [1]}),
        "zero-before-overflow": (framed(_header(a=_entry(0, 0, (0, 1 << 32, 1 << 32, 1 << 32)))),
                                 {"a": [0, 1 << 32, 1 << 32, 1 << 32]}),
        "rank-1000": (framed(_header(a=_entry(0, 4, (1,) * 999 + (4,))), b"1234"),
                      {"a": [1] * 999 + [4]}),
    }


# ---------------------------------------------------------------- layouts of folders


REVISION = "0123456789abcdef0123456789abcdef01234567"


def hf_cache(path, made):
    """Puts a checkpoint into the layout of a Hub cache: snapshots of symlinks to blobs."""
    blobs, snapshot = path / "blobs", path / "snapshots" / REVISION
    for where in (blobs, snapshot, path / "refs"):
        where.mkdir(parents=True)
    (path / "refs/main").write_text(REVISION)
    for file in sorted(p for p in made.path.rglob("*") if p.is_file()):
        content = file.read_bytes()
        blob = blobs / hashlib.sha256(content).hexdigest()
        blob.write_bytes(content)
        link = snapshot / file.relative_to(made.path)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    return snapshot


def training_run(path, steps=(500, 1000)):
    """A folder without weights whose children have some."""
    made = {f"checkpoint-{s}": llama(path / f"checkpoint-{s}", layers=1, hidden=32, shards=1,
                                     seed=s) for s in steps}
    (path / "trainer_log.txt").write_text("step 1\n")
    (path / "runs").mkdir()
    (path / "runs/events.txt").write_text("no weights here\n")
    return made


def diffusion(path, seed=11):
    """unet/ and vae/, each with its diffusion_pytorch_model.safetensors."""
    rng = np.random.default_rng(seed)
    path.mkdir(parents=True)
    write_json(path / "model_index.json", {"_class_name": "StableDiffusionPipeline"})
    return {part: write_checkpoint(path / part,
                                   {"conv_in.weight": normal("F16", (8, 4, 3, 3), rng),
                                    "conv_in.bias": normal("F16", (8,), rng)},
                                   stem="diffusion_pytorch_model", config={"_class_name": part})
            for part in ("unet", "vae")}
