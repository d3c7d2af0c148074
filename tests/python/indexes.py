"""Indexes in tests: the runs that make them; what is in them and may be wrong with them, by
docs/index-format.md; what stats.json of layers and modules must say, by NumPy.
"""
import contextlib
import ctypes
import ctypes.util
import functools
import hashlib
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import time

import numpy as np

import checkpoints
import stats_reference as ref
import tmtest
from test_stats import DISTRIBUTIONS, read_exact
from test_trouble import PROMPT, SlowFolder
from tmtest import TMORPH, Skip, folder, listing, process_io, tmorph

IS_ROOT = os.geteuid() == 0
HEADER, ENTRY, RECORD = 128, 48, 344  # bytes of the header, a section's entry, a tensor's record
SECTIONS = {1: "TENSORS", 2: "NAMES", 3: "SUMS", 4: "HIST"}
# Of a group's stats.json, behind its name and the numbers of tensors.
GROUP = [f for f in ref.FIELDS if f not in ("absmax_index", "entropy", "distinct")]


# ---------------------------------------------------------------- running it


def index(*args, check=0):
    done = tmorph("index", *args, check=check)
    tmtest.check_sanitizers()
    return done


@contextlib.contextmanager
def indexing(*args):
    """A run that goes on meanwhile; killed at the end."""
    process = subprocess.Popen([TMORPH, "index", *map(str, args)], env=tmtest.environment(),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=PROMPT)


def ended(process, code, words):
    """Waits for the end of a run, which owes an exit status and says WORDS."""
    out, errors = process.communicate(timeout=30)
    assert process.returncode == code and words in errors, (process.returncode, out, errors)


def read_by(action, *args, **kwargs):
    """How many bytes ACTION read, with the processes that it started and waited for."""
    before = process_io("self", "rchar")
    action(*args, **kwargs)
    return process_io("self", "rchar") - before


@contextlib.contextmanager
def cache():
    """The folder of indexes in the user's cache, which is empty before and after."""
    path = pathlib.Path(tmtest.environment()["XDG_CACHE_HOME"])
    shutil.rmtree(path, ignore_errors=True)
    try:
        yield path / "tmorph/index"
    finally:
        shutil.rmtree(path, ignore_errors=True)


def made_in(path):
    """relative path -> bytes of all the indexes below PATH, of which nothing is left half done."""
    left = [n for n in listing(path) if n.endswith((".tmidx.part", ".tmidx.tmp"))]
    assert not left, left
    return {n: (path / n).read_bytes() for n in listing(path) if n.endswith(".tmidx")}


def fresh(source):
    """The indexes of SOURCE as a run of its own makes them."""
    out = folder("fresh")
    index("--out", out, source)
    return made_in(out)


@contextlib.contextmanager
def caught(slow, out):
    """A run that hangs in the midst of the shard of many() in the slow folder, and its log."""
    part = out / "model.safetensors.tmidx.part"
    for _ in range(5):
        with indexing("--jobs", 2, "--out", out, slow.path / "m") as process:
            # at once, so not by wait_until()
            while process.poll() is None and not (part.exists() and part.stat().st_size > 40_000):
                time.sleep(0.001)
            slow.hold("read")
            time.sleep(0.2)  # what was read already may be finished
            if process.poll() is None:
                yield process, part
                return
            slow.let_go()
        shutil.rmtree(out)
    raise AssertionError("it was too quick to be caught")


@functools.cache
def index_of_many():
    return fresh(many(folder("src") / "m").path)


@functools.cache
def log_of_many():
    """What a run leaves that was killed in the midst of many()."""
    out = folder("log")
    with SlowFolder() as slow:
        many(slow.real / "m")
        with caught(slow, out) as (process, part):
            process.kill()
            process.wait(PROMPT)
            assert os.listdir(out) == [part.name]
            return part.read_bytes()


# ---------------------------------------------------------------- disks


def mounted(action, source, *args):
    if subprocess.run(["mount", *action, *args, source], check=False,
                      stderr=subprocess.DEVNULL).returncode:
        raise Skip(f"mount {' '.join(map(str, action))} is not allowed here")


@contextlib.contextmanager
def small_disk(size):
    """A folder on a filesystem of SIZE."""
    path = folder("disk")
    if not IS_ROOT:
        raise Skip("only root can mount a small filesystem")
    mounted(["-t", "tmpfs", "-o", f"size={size}", "tmtest"], path)
    try:
        yield path
    finally:
        subprocess.run(["umount", path], check=True)


@contextlib.contextmanager
def read_only(path):
    """PATH may not be written to, by root neither."""
    if IS_ROOT:
        mounted(["--bind", path], path)
    try:
        if IS_ROOT:
            mounted(["-o", "remount,bind,ro"], path)
        else:
            os.chmod(path, 0o555)
        yield
    finally:
        if IS_ROOT:
            subprocess.run(["umount", path], check=True)
        else:
            os.chmod(path, 0o755)


# ---------------------------------------------------------------- checkpoints


def small(path, seed=1, shards=1):
    return checkpoints.llama(path, layers=1, hidden=32, shards=shards, seed=seed)


@functools.cache
def many_tensors():
    rng = np.random.default_rng(21)
    return {f"model.layers.{i}.weight": checkpoints.normal("BF16", (64, 128), rng)
            for i in range(160)}


def many(path):
    """One shard of 160 tensors: 2.6 MB, whose index has some 110 KB."""
    return checkpoints.write_checkpoint(path, many_tensors())


KINDS = ("gaussian", "special", "zero", "pruned", "denormal", "bits")


def special(path, kinds=KINDS, shards=2):
    """Layers with NaN and infinities, without any finite value, of zeros, without an element."""
    rng = np.random.default_rng(22)
    some = {}
    for layer, kind in enumerate(kinds):
        for dtype, shape in (("BF16", (33, 40)), ("F32", (5, 3, 4)), ("I8", (70,)), ("F64", (9,)),
                             ("F8_E4M3", (2, 64, 48)), ("I64", (4, 4)), ("F16", ())):
            some[f"h.{layer}.{dtype.lower()}"] = DISTRIBUTIONS[kind](dtype, shape, rng)
    some["h.6.nan"] = checkpoints.of_array("F32", np.full((3, 4), np.nan))
    some["h.7.none"] = checkpoints.Tensor("F32", (0, 4), b"")
    some["h.8.codes"] = checkpoints.random_bits("F6_E2M3", (4, 4), rng)
    some["h.8.mlp.weight"] = checkpoints.normal("BF16", (8, 8), rng)
    return checkpoints.write_checkpoint(path, some, shards=shards)


def every_dtype(path):
    """Every dtype with and without NaN and infinities, and without an element."""
    rng = np.random.default_rng(23)
    some = {}
    for dtype in checkpoints.DTYPES:
        some[f"{dtype}.none"] = checkpoints.Tensor(dtype, (3, 0), b"")
        some[f"{dtype}.bits"] = checkpoints.random_bits(dtype, (4, 3, 8), rng)
        if dtype not in ref.NO_VALUES:
            for kind in ("pruned", "special"):
                some[f"{dtype}.{kind}"] = DISTRIBUTIONS[kind](dtype, (38, 62), rng)
    return checkpoints.write_checkpoint(path, some)


# ---------------------------------------------------------------- what is in a file


def sections(content):
    """kind -> (offset, bytes used) by the table."""
    found = {}
    for i in range(struct.unpack_from("<I", content, 32)[0]):
        kind, _, _, offset, _, size = struct.unpack_from("<IHHQQQ", content, HEADER + i * ENTRY)
        found[kind] = offset, size
    assert set(found) == set(SECTIONS)
    return found


def names_in(content):
    (records, size), (names, _) = sections(content)[1], sections(content)[2]
    found = []
    for at in range(records, records + size, RECORD):
        begin = names + struct.unpack_from("<Q", content, at)[0]
        length = struct.unpack_from("<I", content, at + 48)[0]
        found.append(content[begin:begin + length].decode())
    return found


def fingerprint(path):
    """Of a shard, as text."""
    content = path.read_bytes()
    size, header = len(content), 8 + struct.unpack("<Q", content[:8])[0]
    parts = [content]
    if size > header + 65536:
        parts = [content[:header]] + [content[(size - 4096) * i // 15:][:4096] for i in range(16)]
    return hashlib.sha256(b"%d\0" % size + b"".join(parts)).hexdigest()


# ---------------------------------------------------------------- what may be wrong with it


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


@functools.cache
def xxh3_128():
    name = ctypes.util.find_library("xxhash")
    if not name:
        raise Skip("libxxhash is not there to make the check of a changed header")
    function = ctypes.CDLL(name).XXH3_128bits
    function.restype, function.argtypes = Hash128, [ctypes.c_char_p, ctypes.c_size_t]
    return function


def with_header(content, at, kind, value):
    """CONTENT with another VALUE (of struct's KIND) in its header, which its check fits."""
    head = bytearray(content[:HEADER - 16])
    struct.pack_into(kind, head, at, value)
    check = xxh3_128()(bytes(head), len(head))
    return bytes(head) + struct.pack("<QQ", check.high, check.low) + content[HEADER:]


def flipped(content, at):
    return content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1:]


def in_sections(good, _other):
    """name -> GOOD with a wrong byte in a section, early or late."""
    return {f"{SECTIONS[kind]} at {share}": flipped(good, offset + int(share * (size - 1)))
            for kind, (offset, size) in sections(good).items() for share in (0.1, 0.9)}


def in_heads(good, other):
    """name -> what may lie where the index GOOD should, which its header and table tell of; OTHER
    is the index of another shard."""
    return {
        "magic": flipped(good, 1), "fingerprint": flipped(good, 60), "zeros": flipped(good, 90),
        "check of the header": flipped(good, 120), "table": flipped(good, HEADER + 8),
        "check of a section": flipped(good, HEADER + 40), "empty": b"", "one byte": good[:1],
        "header alone": good[:HEADER], "half": good[:len(good) // 2], "cut": good[:-1],
        "longer": good + b"\0", "of another shard": other, "noise": os.urandom(len(good)),
        "version": with_header(good, 8, "<H", 2), "rules": with_header(good, 12, "<I", 99),
        "features": with_header(good, 16, "<Q", 1 << 40),
        "length": with_header(good, 24, "<Q", len(good) + 8)}


def anywhere(good, other):
    return in_heads(good, other) | in_sections(good, other)


# ---------------------------------------------------------------- layers and modules


def rows_of(path):
    """name -> its line of a table."""
    lines = path.read_text().splitlines()
    return {line.split("\t")[0]: line for line in lines[1:]}


def told(m, model="m"):
    """Of each tensor its line of stats.tsv, None where it is not known."""
    return {n: None if line.split("\t")[1].strip() == "-" else line
            for n, line in rows_of(m.model(model) / "stats.tsv").items()}


def module_names(top):
    """path of each module's folder below TOP -> its name, with the dots."""
    found = {top: ""}
    for where, folders, _ in os.walk(top):
        for f in folders:
            path = pathlib.Path(where, f)
            if not path.is_symlink():
                name = f.replace("%2F", "/").replace("%0A", "\n").replace("%25", "%")
                found[path] = found[pathlib.Path(where)] + name + "."
    return found


def read_group(path):
    content = read_exact(path)
    text = content.rstrip(b" \n")
    assert content == text.ljust(len(content) - 1) + b"\n", f"{path}: spaces stand before the LF"
    told = json.loads(content)
    assert list(told)[1:] == ["tensors", "counted", "known"] + GROUP, list(told)
    return told


def _sums(x):
    """Of finite doubles."""
    if np.abs(x).max(initial=0) > 1e150:  # no double holds their squares
        return ref._moments(x)
    found = {"mean": None, "var": None, "std": None, "l1": math.fsum(np.abs(x)),
             "l2": math.sqrt(math.fsum(x * x))}
    if x.size:
        mean = math.fsum(x) / x.size
        var = math.fsum((x - mean)**2) / x.size
        found.update(mean=mean, var=var, std=math.sqrt(var))
    return found


class Groups:
    """What the tensors of a checkpoint say together, all of which are known."""

    def __init__(self, made):
        self.made = made
        self.values, self.records = {}, {}
        scaled = getattr(made, "expected", {})
        for name, tensor in made.tensors.items():
            if tensor.dtype in ref.NO_VALUES:
                continue
            dtype = "F32" if name in scaled else tensor.dtype
            values = scaled[name] if name in scaled else ref.stored(tensor)
            self.records[name] = ref.record(dtype, values)
            with np.errstate(all="ignore"):
                self.values[name] = values.reshape(-1).astype(np.float64)

    def expected(self, names):
        counted = [n for n in names if n in self.values]
        whole = np.concatenate([np.empty(0)] + [self.values[n] for n in counted])
        finite = whole[np.isfinite(whole)]
        zeros = int((whole == 0).sum())
        want = {"tensors": len(names), "counted": len(counted), "known": len(counted),
                "n": whole.size, "zero_count": zeros, "nan_count": np.isnan(whole).sum(),
                "pos_inf_count": (whole == np.inf).sum(), "neg_inf_count": (whole == -np.inf).sum(),
                "sparsity": zeros / whole.size if whole.size else None,
                "min": None, "max": None, "absmax": None}
        if finite.size:
            want.update(min=finite.min() + 0.0, max=finite.max() + 0.0,
                        absmax=np.abs(finite).max())
        for key in ("neg_zero_count", "subnormal_count", "zero_rows", "zero_cols"):
            want[key] = sum(int(self.records[n][key]) for n in counted)
        return want | _sums(finite)

    def check(self, path, head, names):
        """That the file at PATH begins with HEAD and says what the tensors NAMES say."""
        told, want = read_group(path), self.expected(names)
        assert next(iter(told.items())) == head and set(told) == {head[0], *want}, told
        for key, value in want.items():
            got = told[key]
            if value == math.inf:
                assert got is None, (path, key, got)
            elif key in ("mean", "var", "std", "l1", "l2") and value is not None:
                assert math.isclose(got, value, rel_tol=1e-12, abs_tol=1e-300), \
                    (path, key, got, value)
            else:
                assert got == value, (path, key, got, value)
