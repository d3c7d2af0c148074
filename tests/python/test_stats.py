"""stats.json, hist.tsv, stats/KEY, rows.tsv, cols.tsv: what they say, their sizes, their cost."""
import functools
import io
import json
import math
import os
import subprocess
import tarfile

import tmtest

tmtest.need_modules("numpy", "ml_dtypes")

import ml_dtypes
import numpy as np

import checkpoints
import stats_reference as ref
from expect import scalar, table
from tmtest import Mount, folder, process_io, read_error

HEAD = ["tensor", "dtype", "shape", "scaled"]
HIST_HEAD = b"lo\thi\tcount\n"
LINES_HEAD = b"index\tn\tnan_count\tinf_count\tzero_count\tabsmax\trms\n"
HIST_BYTES = len(HIST_HEAD) + ref.ROWS * 3 * 25


# ---------------------------------------------------------------- reading


def as_number(text):
    return None if text in ("-", "nan", None) else float(text)


def read_exact(path):
    """The bytes of PATH, whose size is the same before and after it is read."""
    before = path.stat()
    content = path.read_bytes()
    assert len(content) == before.st_size == path.stat().st_size, f"{path}: not of its size"
    assert before.st_blocks == -(-before.st_size // 512), path
    return content


def read_record(at):
    """stats.json with its numbers as texts, the quantiles among the fields."""
    content = read_exact(at / "stats.json")
    text = content.rstrip(b" \n")
    assert content == text.ljust(len(content) - 1) + b"\n", f"{at}: spaces stand before the LF"
    told = json.loads(content, parse_int=str, parse_float=str)
    assert list(told) == HEAD + ref.FIELDS + ["quantiles"], list(told)
    assert list(told["quantiles"]) == ref.QUANTILES
    return told | {f"q{q}": v for q, v in told.pop("quantiles").items()}


# ---------------------------------------------------------------- comparing


@functools.cache
def bounds():
    """lo and hi of each row of hist.tsv: sign, exponent, 3 bits of the mantissa."""
    bits = (np.arange(ref.ROWS // 2 + 1, dtype=np.uint64) << np.uint64(20)).astype(np.uint32)
    with np.errstate(all="ignore"):
        near = bits.view(np.float32).astype(np.float64)
    infinite = 0x7f8
    near[infinite] = 2.0**128  # as a bound; the infinities have a row of their own
    low, high = near[:-1].copy(), near[1:].copy()
    low[infinite] = high[infinite] = math.inf
    low[infinite + 1:] = high[infinite + 1:] = math.nan
    return np.concatenate([-high[::-1], low]), np.concatenate([-low[::-1], high])


@functools.cache
def check_bounds(columns):
    """COLUMNS: the bytes of lo and hi, which are the same in every hist.tsv."""
    rows = np.array([[float(f) for f in columns[i:i + 50].split()]
                     for i in range(0, len(columns), 50)])
    for i, want in enumerate(bounds()):
        assert np.array_equal(rows[:, i], want, equal_nan=True), "bounds"


def check_histogram(at, want, what):
    content = read_exact(at / "hist.tsv")
    assert len(content) == HIST_BYTES and content.startswith(HIST_HEAD), what
    rows = np.frombuffer(content, np.uint8, offset=len(HIST_HEAD)).reshape(ref.ROWS, 75)
    assert bytes(rows[0, 24::25]) == b"\t\t\n" and (rows[:, 24::25] == rows[0, 24::25]).all(), what
    check_bounds(rows[:, :50].tobytes())
    got = np.array([int(row.tobytes()) for row in rows[:, 50:74]])
    nan = np.isnan(bounds()[0])
    assert got[nan].sum() == want[-1], f"{what}: NaN"
    assert np.array_equal(got[~nan], want[~nan]), f"{what}: counts"


def is_near(got, want, relative, absolute=0.0):
    return got == want or abs(got - want) <= relative * abs(want) + absolute


def check_quantile(dtype, got, want, what):
    """WANT is the element itself. Of wider types GOT is in its bin."""
    if want is None or dtype not in ref.WIDE or want == 0:
        assert got == (None if want is None else float(want)), f"{what}: {got}, not {want}"
        return
    kind = checkpoints.DTYPES[dtype][1]
    value = kind(got) if kind in (np.float32, np.float64) else kind(int(got))
    bins = ref.codes_of(dtype, np.array([value, want], kind))
    assert bins[0] == bins[1], f"{what}: {got} is not in the bin of {want!r}"


def check_number(key, dtype, text, want, what):
    what = f"{what}: {key}"
    got = as_number(text)
    if key[0] == "q":
        check_quantile(dtype, got, want, what)
    elif key == "entropy":
        assert is_near(got, want, 1e-12, 1e-12), f"{what}: {got}, not {want}"
    elif key in ("std", "l2") and want is not None:
        assert is_near(got, want, 2.3e-16), f"{what}: {got!r}, not {want!r}"
    else:
        assert got == (None if want is None else float(want)), f"{what}: {got!r}, not {want!r}"


def read_keys(at, told, what):
    """key -> its text in stats/KEY, which says what stats.json says, NaN and infinities too."""
    texts = {}
    for key in ref.KEYS:
        content = read_exact(at / "stats" / key)
        texts[key] = text = content.decode().strip()
        assert content == text.encode().rjust(24) + b"\n", f"{what}: stats/{key}: {content}"
        if told[key] is None:
            assert text in ("-", "nan", "inf", "-inf"), f"{what}: stats/{key} is {text}"
        else:
            assert text == told[key], f"{what}: stats/{key} is {text}, not {told[key]}"
    return texts


def check(at, dtype, values, what, head):
    """Everything that AT says of VALUES, which have DTYPE. HEAD: what stats.json begins with."""
    told = read_record(at)
    assert {k: told[k] for k in HEAD} == head, (what, told)
    want = ref.record(dtype, values)
    assert set(want) == set(ref.KEYS)
    for key, text in read_keys(at, told, what).items():
        check_number(key, dtype, text, want[key], what)
    check_histogram(at, ref.histogram(dtype, values), what)


def check_all(tensors):
    """Mounts TENSORS (name -> Tensor) as a checkpoint and checks each."""
    made = checkpoints.write_checkpoint(folder("src") / "m", tensors)
    with Mount(f"m={made.path}") as m:
        for name, t in tensors.items():
            if t.dtype not in ref.NO_VALUES:
                head = {"tensor": name, "dtype": t.dtype, "shape": [str(d) for d in t.shape],
                        "scaled": False}
                check(m.tensor("m", name), t.dtype, ref.stored(t), name, head)


# ---------------------------------------------------------------- what they say


def test_every_dtype_at_every_rank():
    rng = np.random.default_rng(4)
    check_all(checkpoints.every_dtype(folder("src") / "all").tensors)
    check_all({f"r{rank}": checkpoints.random_bits("F32", (2,) * rank, rng)
               for rank in range(5, 9)})


def is_integer(dtype):
    return dtype == "BOOL" or dtype[0] in "IU"


def cast(dtype, values):
    """VALUES as DTYPE; integers are scaled to be of use."""
    kind = checkpoints.DTYPES[dtype][1]
    if is_integer(dtype) and dtype != "BOOL":
        limits = np.iinfo(kind)
        values = np.rint(values * (30 if limits.bits == 8 else 3000))
        values = values if limits.min else np.abs(values)
        values = np.clip(values, limits.min, min(limits.max, 2**62))
    with np.errstate(all="ignore"):
        array = values.astype(kind)
    if dtype == "F4":
        codes = array.reshape(-1).view(np.uint8)
        raw = (codes[::2] | codes[1::2] << 4).tobytes()
    else:
        raw = array.tobytes()
    return checkpoints.Tensor(dtype, values.shape, raw)


def denormal(dtype, shape, rng):
    if is_integer(dtype) or dtype == "F8_E8M0":
        return cast(dtype, rng.integers(0, 2, shape).astype(np.float64))
    reach = 2**22 if dtype in ref.WIDE else 3
    smallest = float(ml_dtypes.finfo(checkpoints.DTYPES[dtype][1]).smallest_subnormal)
    return cast(dtype, rng.integers(-reach, reach + 1, shape) * smallest)


def with_specials(dtype, shape, rng):
    """Half of the values are NaN or infinite, where the type has such."""
    if is_integer(dtype):
        return checkpoints.random_bits(dtype, shape, rng)
    values = rng.normal(0, 1, shape)
    which = rng.integers(0, 6, shape)
    for i, special in enumerate((np.nan, np.inf, -np.inf)):
        values[which == i] = special
    return cast(dtype, values)


DISTRIBUTIONS = {
    "gaussian": lambda d, s, r: cast(d, r.normal(0, 0.5, s)),
    "norm": lambda d, s, r: cast(d, r.normal(1, 1e-4, s)),
    "pruned": lambda d, s, r: cast(d, r.normal(0, 1, s) * (r.random(s) > 0.95)),
    "bits": checkpoints.random_bits,
    "constant": lambda d, s, r: cast(d, np.full(s, 0.75)),
    "zero": lambda d, s, r: cast(d, np.where(r.random(s) < 0.5, 0.0, -0.0)),
    "denormal": denormal,
    "special": with_specials,
}


def test_distributions_that_have_caught_others_out():
    rng = np.random.default_rng(7)
    check_all({f"{dtype}.{kind}": make(dtype, (38, 61), rng)
               for dtype in checkpoints.DTYPES if dtype not in ref.NO_VALUES
               for kind, make in DISTRIBUTIONS.items()})


def test_every_pattern_of_16_bits():
    patterns = np.random.default_rng(3).permutation(65536).astype(np.uint16)
    for dtype in ("BF16", "F16", "I16", "U16"):
        check_all({dtype: checkpoints.Tensor(dtype, (512, 128), patterns.tobytes())})


def test_shapes_as_planes():
    rng = np.random.default_rng(8)
    shapes = [(), (1,), (0,), (0, 5), (5, 0), (3, 0, 40), (1, 1), (300, 1), (1, 9001), (513, 257),
              (8, 4, 3, 3), (16, 1, 5, 5), (3, 40, 48), (2, 2, 32, 33), (2, 31, 64), (64, 3, 32)]
    check_all({f"{dtype}.{'x'.join(map(str, shape))}": DISTRIBUTIONS["pruned"](dtype, shape, rng)
               for dtype in ("BF16", "F32", "I8") for shape in shapes})


def test_tensors_of_many_blocks():
    rng = np.random.default_rng(9)
    few = np.sort(rng.normal(0, 1, 3000))
    check_all({
        "long": checkpoints.of_array("F32", rng.choice(few, 1_300_001)),
        "wide": DISTRIBUTIONS["pruned"]("BF16", (9, 500_000), rng),
        "high": DISTRIBUTIONS["gaussian"]("BF16", (700_000, 5), rng),
        "nan": checkpoints.of_array("F16", np.full((2, 1500, 1100), np.nan)),
    })


def test_names_that_need_escapes_in_json():
    made = [checkpoints.odd_names(folder("src") / "odd"),
            checkpoints.long_names(folder("src") / "long")]
    with Mount(f"odd={made[0].path}", f"long={made[1].path}") as m:
        for name in made[0].tensors:
            assert read_record(m.tensor("odd", name))["tensor"] == name
        paths = [p for p in (m.models / "long/tensors").iterdir()]
        assert {read_record(p)["tensor"] for p in paths} == set(made[1].tensors)


def test_scaled_tensors_count_as_f32():
    made = {"block": checkpoints.fp8_block(folder("src") / "b"),
            "e8m0": checkpoints.fp8_block(folder("src") / "e", scale_dtype="F8_E8M0", shards=2),
            "scaled": checkpoints.fp8_scaled(folder("src") / "s")}
    with Mount(*[f"{k}={v.path}" for k, v in made.items()]) as m:
        for model, one in made.items():
            assert one.expected
            for name, t in one.tensors.items():
                scaled = name in one.expected
                head = {"tensor": name, "dtype": t.dtype, "shape": [str(d) for d in t.shape],
                        "scaled": scaled}
                values = one.expected[name] if scaled else ref.stored(t)
                check(m.tensor(model, name), "F32" if scaled else t.dtype, values, name, head)


def test_experts_of_separate_tensors():
    made = checkpoints.mixture(folder("src") / "moe")
    with Mount(f"moe={made.path}") as m:
        for name, t in made.tensors.items():
            head = {"tensor": name, "dtype": "BF16", "shape": [str(d) for d in t.shape],
                    "scaled": False}
            check(m.tensor("moe", name), "BF16", ref.stored(t), name, head)
        link = m.models / "moe/experts/0/2/w1.weight/stats.json"
        whole = m.tensor("moe", "model.layers.0.block_sparse_moe.experts.2.w1.weight")
        assert link.read_bytes() == (whole / "stats.json").read_bytes()


def test_each_expert_of_a_fused_tensor_is_its_slice():
    plain = checkpoints.fused_experts(folder("src") / "f")
    fp8 = checkpoints.fp8_block(folder("src") / "b")
    with Mount(f"f={plain.path}", f"b={fp8.path}") as m:
        roles = [("f", f"model.layers.{i}.mlp.experts.{role}", i, role) for i in range(2)
                 for role in ("gate_up_proj", "down_proj")]
        roles.append(("b", "model.layers.0.mlp.experts.down_proj.weight", 0, "down_proj.weight"))
        for model, name, layer, role in roles:
            t = (fp8 if model == "b" else plain).tensors[name]
            values = fp8.expected[name] if model == "b" else ref.stored(t)
            for e in range(t.shape[0]):
                at = m.models / model / f"experts/{layer}/{e}/{role}"
                head = {"tensor": name, "dtype": t.dtype,
                        "shape": [str(d) for d in t.shape[1:]], "scaled": model == "b"}
                check(at, "F32" if model == "b" else "BF16", values[e], f"{at}", head)


# ---------------------------------------------------------------- rows.tsv, cols.tsv


def read_lines(path):
    """The columns of a file of fixed width, by name."""
    content = read_exact(path)
    assert content.startswith(LINES_HEAD), path
    lines = np.frombuffer(content, "S25", offset=len(LINES_HEAD)).reshape(-1, 7)
    raw = np.frombuffer(content, np.uint8, offset=len(LINES_HEAD)).reshape(-1, 7, 25)
    assert (raw[:, :, 24] == np.frombuffer(b"\t\t\t\t\t\t\n", np.uint8)).all(), path
    names = LINES_HEAD.decode().split()
    return {name: lines[:, i].astype(np.float64) for i, name in enumerate(names)}


def check_lines(at, values, what):
    """rows.tsv and cols.tsv: counts and absmax are exact, the sums of squares may be rounded."""
    planes = values.reshape(ref.planes_of(values.shape) if values.size else (0, 1, 1))
    for name, axis in (("rows.tsv", 2), ("cols.tsv", 1)):
        got = read_lines(at / name)
        with np.errstate(all="ignore"):
            v = planes.astype(np.float64)
        finite = np.where(np.isfinite(v), v, 0)
        known = np.isfinite(v).sum(axis=axis)
        want = {
            "n": np.full(known.shape, planes.shape[axis]),
            "nan_count": np.isnan(v).sum(axis=axis),
            "inf_count": np.isinf(v).sum(axis=axis),
            "zero_count": (v == 0).sum(axis=axis),
            "absmax": np.abs(finite).max(axis=axis, initial=0),
        }
        assert np.array_equal(got["index"], np.arange(known.size)), (what, name)
        for key, column in want.items():
            assert np.array_equal(got[key], column.reshape(-1)), f"{what}: {name}: {key}"
        with np.errstate(all="ignore"):
            rms = np.sqrt((finite**2).sum(axis=axis) / known).reshape(-1)
        assert np.allclose(got["rms"], rms, rtol=1e-12, atol=0, equal_nan=True), f"{what}: {name}"


def check_all_lines(tensors):
    made = checkpoints.write_checkpoint(folder("src") / "m", tensors)
    with Mount(f"m={made.path}") as m:
        for name, t in tensors.items():
            check_lines(m.tensor("m", name), ref.stored(t), name)


def test_lines_of_every_dtype():
    rng = np.random.default_rng(12)
    check_all_lines({f"{dtype}.{kind}.{'x'.join(map(str, shape))}": make(dtype, shape, rng)
                     for dtype in checkpoints.DTYPES if dtype not in ref.NO_VALUES
                     for kind, make in (("pruned", DISTRIBUTIONS["pruned"]),
                                        ("special", with_specials))
                     for shape in ((38, 61), (3, 33, 34))})


def test_lines_of_shapes_that_are_cut():
    rng = np.random.default_rng(13)
    shapes = {"F32": [(), (1,), (0,), (0, 5), (5, 0), (3, 0, 40), (2, 1_500_000), (100_003,)],
              "BF16": [(70_001, 5), (2, 40, 66_000), (8, 4, 3, 3), (513, 257)]}
    check_all_lines({f"{dtype}.{'x'.join(map(str, shape))}": with_specials(dtype, shape, rng)
                     for dtype, some in shapes.items() for shape in some})


def test_any_part_of_the_lines_can_be_read():
    made = checkpoints.write_checkpoint(folder("src") / "m", {
        "t": DISTRIBUTIONS["gaussian"]("BF16", (70_001, 5), np.random.default_rng(14))})
    rng = np.random.default_rng(15)
    with Mount(f"m={made.path}") as m:
        path = m.tensor("m", "t") / "rows.tsv"
        parts = []
        with open(path, "rb", buffering=0) as f:
            size = os.fstat(f.fileno()).st_size
            for _ in range(20):  # the first of them before any other is known
                begin = int(rng.integers(size))
                parts.append((begin, os.pread(f.fileno(), int(rng.integers(1, 5000)), begin)))
        whole = read_exact(path)
        for begin, part in parts:
            assert part == whole[begin:begin + len(part)] and part, begin


# ---------------------------------------------------------------- what has none


def test_what_nobody_can_read_is_null():
    made = checkpoints.every_dtype(folder("src") / "all")
    with Mount(f"all={made.path}") as m:
        for name, t in made.tensors.items():
            if t.dtype not in ref.NO_VALUES:
                continue
            at = m.tensor("all", name)
            told = read_record(at)
            assert told["n"] == str(t.elems) and told["dtype"] == t.dtype, name
            assert all(told[key] is None for key in ref.KEYS[1:]), name
            assert scalar(at / "stats/n") == str(t.elems)
            assert {scalar(at / "stats" / key) for key in ref.KEYS[1:]} == {"-"}, name
            assert "stats.json" in os.listdir(at), name
            for part in ("hist.tsv", "rows.tsv", "cols.tsv"):
                assert part not in os.listdir(at), name
                assert read_error(at / part) == "EOPNOTSUPP", name
            assert f"'{name}'" in m.words("all"), name


def test_packed_codes_have_no_statistics():
    for scheme, parts in checkpoints.quantised_schemes().items():
        made = checkpoints.write_checkpoint(folder("src") / scheme, parts["tensors"],
                                            config=parts["config"])
        with Mount(f"q={made.path}") as m:
            for name, t in made.tensors.items():
                at = m.tensor("q", name)
                refused = read_error(at / "data.npy") == "EOPNOTSUPP"  # scales may be too
                assert refused or name not in parts["refused"], (scheme, name)
                for part in ("stats.json", "hist.tsv", "stats/n"):
                    assert (read_error(at / part) == "EOPNOTSUPP") == refused, (scheme, name, part)
                listed = {"stats.json", "hist.tsv"} & set(os.listdir(at))
                assert len(listed) == (0 if refused else 2), (scheme, name, listed)
                assert not refused or f"'{name}'" in m.words("q"), scheme
                if not refused:
                    assert read_record(at)["n"] == str(t.elems)


def test_damaged_tensors_have_no_statistics():
    made = checkpoints.llama(folder("src") / "m")
    cut = made.path / "model-00002-of-00002.safetensors"
    os.truncate(cut, cut.stat().st_size - 1000)
    with Mount(f"m={made.path}") as m:
        assert m.state("m") == "damaged"
        for name in made.tensors:
            at = m.tensor("m", name)
            errors = {read_error(at / p) for p in ("stats.json", "hist.tsv", "stats/mean")}
            listed = {"stats.json", "hist.tsv"} & set(os.listdir(at))
            assert (errors, len(listed)) in (({""}, 2), ({"EBADMSG"}, 0)), (name, errors, listed)
        assert read_error(m.tensor("m", "lm_head.weight") / "stats.json") == "EBADMSG"
        assert "'lm_head.weight'" in m.words("m")


def test_names_that_no_statistic_has():
    made = checkpoints.llama(folder("src") / "m", tied=True)
    with Mount(f"m={made.path}") as m:
        at = m.tensor("m", "model.norm.weight")
        assert "stats" not in os.listdir(at) and os.listdir(at / "stats") == []
        for name in ("", "quantiles", "N", "n ", "q0.10", "q0.1", "q", "0.5", "tensor", "mean.txt"):
            if name:
                assert read_error(at / "stats" / name) == "ENOENT", name
        for part in ("stats.json", "hist.tsv", "stats/mean"):
            assert tmtest.error_name(lambda p=part: open(at / p, "r+b")) in ("EROFS", "EACCES")
        tied = m.tensor("m", "lm_head.weight") / "stats.json"
        whole = m.tensor("m", "model.embed_tokens.weight") / "stats.json"
        assert tied.read_bytes() == whole.read_bytes()


# ---------------------------------------------------------------- as files


def test_tools_read_them_as_any_file():
    made = checkpoints.llama(folder("src") / "m")
    with Mount(f"m={made.path}") as m:
        at = m.tensor("m", "model.layers.1.mlp.up_proj.weight")
        packed = subprocess.run(["tar", "cf", "-", "-C", at, "."], stdout=subprocess.PIPE,
                                check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            for name in ("stats.json", "hist.tsv"):
                content = (at / name).read_bytes()
                assert tar.extractfile(f"./{name}").read() == content, name
                out = subprocess.run(["cat", at / name], stdout=subprocess.PIPE, check=True).stdout
                assert out == content, name
        with open(at / "stats.json") as f:
            assert json.load(f)["n"] == 64 * 128
        head, rows = table(at / "hist.tsv")
        assert head == ["lo", "hi", "count"] and sum(int(r["count"]) for r in rows) == 64 * 128
        assert float((at / "stats/std").read_text()) > 0
        # And without a mount.
        for name in ("stats.json", "hist.tsv", "stats/l2", "rows.tsv", "cols.tsv"):
            place = f"{made.path}::tensors/{at.name}/{name}"
            assert tmtest.tmorph("cat", place, check=0).stdout == (at / name).read_text()


def test_any_part_of_them_can_be_read():
    made = checkpoints.llama(folder("src") / "m")
    rng = np.random.default_rng(1)
    with Mount(f"m={made.path}") as m:
        for name in made.tensors:
            at = m.tensor("m", name)
            for part, size in (("hist.tsv", HIST_BYTES), ("stats/l1", 25)):
                with open(at / part, "rb", buffering=0) as f:
                    begin = int(rng.integers(size))
                    f.seek(begin)
                    piece = f.read(int(rng.integers(1, size)))  # the first read is not of the start
                    f.seek(0)
                    whole = f.read(size + 1000)
                assert piece == whole[begin:begin + len(piece)] and len(whole) == size, part


def test_tables_show_what_is_known_and_compute_nothing():
    made = checkpoints.llama(folder("m"), layers=3, hidden=64)
    with Mount(f"m={made.path}") as m:
        top = m.models / "m"
        sizes = {name: (top / name).stat().st_size for name in ("stats.tsv", "layers.tsv")}
        before = process_io(m.pid, "rchar")
        assert " -\t" in (top / "stats.tsv").read_text()
        assert process_io(m.pid, "rchar") - before < 1 << 16
        known = [n for n in made.tensors if ".layers.1." in n]
        for name in known:
            (m.tensor("m", name) / "stats.json").read_bytes()
        rows = [line.split("\t") for line in (top / "stats.tsv").read_text().splitlines()]
        head = [word.strip() for word in rows[0]]
        assert [r[0] for r in rows[1:]] == sorted(made.tensors)
        for row in rows[1:]:
            cells = dict(zip(head, (word.strip() for word in row)))
            if row[0] not in known:
                assert set(cells.values()) == {row[0], "-"}
                continue
            values = made.values(row[0]).astype(np.float64)
            assert int(cells["n"]) == values.size
            assert int(cells["zero_count"]) == (values == 0).sum()
            assert float(cells["absmax"]) == float(f"{np.abs(values).max():.9g}")
            assert float(cells["mean"]) == float(f"{math.fsum(values.ravel()) / values.size:.9g}")
        layers = [line.split("\t") for line in (top / "layers.tsv").read_text().splitlines()[1:]]
        assert [r[0] for r in layers] == ["0", "1", "2"]
        biggest = max(float(np.abs(made.values(n).astype(np.float64)).max()) for n in known)
        assert [r[4].strip() for r in layers] == ["-", "0", "-"]
        assert float(layers[1][5]) == float(f"{biggest:.9g}") and layers[0][5].strip() == "-"
        for name, size in sizes.items():
            assert (top / name).stat().st_size == size == len((top / name).read_bytes())


if __name__ == "__main__":
    tmtest.main(globals())
