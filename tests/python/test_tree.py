"""The mount tree's contract, file by file, for models whose every value is known."""
import io
import json
import os
import pathlib
import stat

import tmtest

tmtest.need_modules("numpy", "ml_dtypes")

import numpy as np

import checkpoints
from tmtest import Mount, error_name, folder, read_error, tmorph

MODEL_KEYS = ["name", "source", "format", "state", "error", "architecture", "layers", "experts",
              "tensors", "parameters", "parameters_stored", "bytes", "dtypes", "tied",
              "fingerprint", "files", "unused"]
TABLE_HEAD = ["name", "dtype", "shape", "params", "bytes", "layer", "role", "file"]


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


# ---------------------------------------------------------------- the mount's root, load/


def test_the_root_lists_what_the_readme_names():
    made = checkpoints.llama(folder("src") / "llama")
    with Mount(f"llama={made.path}") as m:
        names = set(os.listdir(m.path))
        assert {"README", "load", "models", ".tmorph"} <= names, names
        text = (m.path / "README").read_text()
        for name in names - {"README"}:
            assert name in text, f"README does not mention {name}"
        assert os.listdir(m.models) == ["llama"] and os.listdir(m.load) == ["llama"]


def test_load_is_the_source_byte_for_byte():
    made = checkpoints.llama(folder("src") / "llama")
    single = checkpoints.odd_names(folder("src") / "odd")
    with Mount(f"llama={made.path}", f"odd={single.path}/model.safetensors") as m:
        tmtest.same_tree(made.path, m.load / "llama")
        tmtest.same_tree(made.path, m.models / "llama/files")
        assert os.readlink(m.models / "llama/files") == "../../load/llama"
        want = (single.path / "model.safetensors").read_bytes()
        assert os.listdir(m.load / "odd") == ["model.safetensors"]
        assert (m.load / "odd/model.safetensors").read_bytes() == want


def test_load_keeps_the_sources_mtime():
    made = checkpoints.llama(folder("src") / "llama", shards=1)
    file = made.path / "model.safetensors"
    os.utime(file, ns=(1_600_000_000_123_456_789,) * 2)
    with Mount(f"llama={made.path}") as m:
        got = (m.load / "llama/model.safetensors").stat()
        assert got.st_mtime_ns == 1_600_000_000_123_456_789


def test_modes_and_owner():
    made = checkpoints.llama(folder("src") / "llama")
    with Mount(f"llama={made.path}") as m:
        for where, folders, files in os.walk(m.path):
            if ".tmorph" in where or "morphs" in where or "query" in where:
                continue
            for name in folders + files:
                at = pathlib.Path(where, name)
                got = at.lstat()
                assert (got.st_uid, got.st_gid) == (os.geteuid(), os.getegid()), at
                mode = stat.S_IMODE(got.st_mode)
                if stat.S_ISDIR(got.st_mode) and name not in (".tmorph", "morphs", "query"):
                    assert mode == 0o555, (at, oct(mode))
                elif stat.S_ISREG(got.st_mode):
                    assert mode == 0o444, (at, oct(mode))
        assert stat.S_IMODE(m.ctl.stat().st_mode) & 0o200


# ---------------------------------------------------------------- model.json, tables


def test_model_json_says_what_the_model_is():
    made = checkpoints.llama(folder("src") / "llama", layers=3, shards=2)
    stored = sum(len(t.raw) for t in made.tensors.values())
    elems = sum(t.elems for t in made.tensors.values())
    with Mount(f"llama={made.path}") as m:
        got = json.loads((m.models / "llama/model.json").read_text())
        assert list(got)[:len(MODEL_KEYS)] == MODEL_KEYS
        assert got["name"] == "llama" and got["format"] == "safetensors"
        assert got["source"] == str(made.path)
        assert got["state"] == "ready" and not got["error"]
        assert got["architecture"] == "LlamaForCausalLM"
        assert got["layers"] == 3 and not got["experts"]
        assert got["tensors"] == len(made.tensors)
        assert got["parameters"] == got["parameters_stored"] == elems
        assert got["bytes"] == stored and got["dtypes"] == {"BF16": stored}
        assert got["tied"] == [] and got["unused"] == []
        assert got["fingerprint"]
        files = {f["name"]: f for f in got["files"]}
        for name in set(made.files.values()):
            assert files[name]["bytes"] == (made.path / name).stat().st_size
            assert files[name]["state"] == "ready" and not files[name]["error"]
            assert list(files[name])[:4] == ["name", "bytes", "state", "error"]
        assert m.state("llama") == "ready"
        assert (m.models / "llama/error").read_text().strip() == ""


def test_the_fingerprint_follows_the_bytes():
    one = checkpoints.llama(folder("src") / "a", shards=1, seed=1)
    same = checkpoints.llama(folder("src") / "b", shards=1, seed=1)
    other = checkpoints.llama(folder("src") / "c", shards=1, seed=2)
    with Mount(f"a={one.path}", f"b={same.path}", f"c={other.path}") as m:
        a, b, c = (json.loads((m.models / n / "model.json").read_text())["fingerprint"]
                   for n in "abc")
        assert a == b and a != c


def test_tied_weights_are_an_alias():
    made = checkpoints.llama(folder("src") / "tied", tied=True)
    with Mount(f"tied={made.path}") as m:
        got = json.loads((m.models / "tied/model.json").read_text())
        assert got["tied"] == [["lm_head.weight", "model.embed_tokens.weight"]]
        assert m.state("tied") == "ready"


def test_mixtures_count_their_experts():
    for make in (checkpoints.mixture, checkpoints.fused_experts):
        made = make(folder("src") / "moe")
        with Mount(f"moe={made.path}") as m:
            got = json.loads((m.models / "moe/model.json").read_text())
            want = json.loads((made.path / "config.json").read_text())["num_local_experts"]
            assert got["experts"] == want and got["layers"] == 2


def test_other_sets_of_weights_are_named_as_unused():
    made = checkpoints.llama(folder("src") / "llama", shards=2)
    extra = checkpoints.odd_names(folder("src") / "extra")
    os.link(extra.path / "model.safetensors", made.path / "consolidated.safetensors")
    with Mount(f"llama={made.path}") as m:
        got = json.loads((m.models / "llama/model.json").read_text())
        assert got["unused"] == ["consolidated.safetensors"]
        assert got["tensors"] == len(made.tensors) and got["state"] == "ready"
        assert (m.load / "llama/consolidated.safetensors").exists()


def test_tensors_tsv_has_a_row_a_tensor_sorted_by_name():
    made = checkpoints.llama(folder("src") / "llama", layers=12, hidden=16)
    with Mount(f"llama={made.path}") as m:
        head, rows = table(m.models / "llama/tensors.tsv")
        assert head[:len(TABLE_HEAD)] == TABLE_HEAD
        assert [r["name"] for r in rows] == sorted(made.tensors)
        for row in rows:
            t = made.tensors[row["name"]]
            assert row["dtype"] == t.dtype and json.loads(row["shape"]) == list(t.shape)
            assert int(row["params"]) == t.elems and int(row["bytes"]) == len(t.raw)
            assert row["file"] == made.files[row["name"]]
        by_name = {r["name"]: (r["layer"], r["role"]) for r in rows}
        for name, want in {
                "model.embed_tokens.weight": ("-", "embedding"),
                "lm_head.weight": ("-", "head"), "model.norm.weight": ("-", "norm"),
                "model.layers.11.self_attn.q_proj.weight": ("11", "attention"),
                "model.layers.0.mlp.up_proj.weight": ("0", "mlp"),
                "model.layers.3.input_layernorm.weight": ("3", "norm")}.items():
            assert by_name[name] == want, (name, by_name[name])


def test_metadata_json_has_the_files_metadata():
    rng = np.random.default_rng(0)
    tensors = {"a": checkpoints.normal("F32", (2,), rng)}
    meta = {"format": "pt", "note": "quote \" and é\n"}
    made = checkpoints.write_checkpoint(folder("src") / "m", tensors, metadata=meta)
    with Mount(f"m={made.path}") as m:
        assert json.loads((m.models / "m/metadata.json").read_text()) == meta


# ---------------------------------------------------------------- one tensor


def test_name_dtype_and_shape_are_one_value_a_file():
    made = checkpoints.every_dtype(folder("src") / "all")
    with Mount(f"all={made.path}") as m:
        assert sorted(os.listdir(m.models / "all/tensors")) == sorted(made.tensors)
        for name, t in made.tensors.items():
            at = m.tensor("all", name)
            assert (at / "name").read_text() == name + "\n"
            assert (at / "dtype").read_text() == t.dtype + "\n"
            text = (at / "shape").read_text()
            assert json.loads(text) == list(t.shape) and text.endswith("]\n")
        assert (m.tensor("all", "f32.scalar") / "shape").read_text() == "[]\n"


def test_raw_and_data_of_every_dtype():
    made = checkpoints.every_dtype(folder("src") / "all")
    with Mount(f"all={made.path}") as m:
        for name, t in made.tensors.items():
            at = m.tensor("all", name)
            assert (at / "raw").read_bytes() == t.raw, name
            if t.dtype.startswith("F6_"):
                assert read_error(at / "data.npy") == "EOPNOTSUPP", name
                continue
            got = load(at / "data.npy")
            same_values(got, made.values(name), name)
            assert (at / "data.npy").stat().st_size == got.nbytes + 128 or got.ndim > 4, name


def test_at_of_every_dtype_is_the_shortest_decimal():
    made = checkpoints.every_dtype(folder("src") / "all")
    rng = np.random.default_rng(1)
    with Mount(f"all={made.path}") as m:
        for name, t in made.tensors.items():
            at = m.tensor("all", name) / "at"
            if not t.elems:
                continue
            if t.dtype.startswith("F6_") or t.dtype == "C64":
                index = ",".join(["0"] * len(t.shape)) or "0"
                assert read_error(at / index) == "EOPNOTSUPP", name
                continue
            values = made.values(name)
            for _ in range(min(6, t.elems)):
                index = tuple(int(rng.integers(d)) for d in t.shape)
                text = scalar(at / (",".join(map(str, index)) or "0"))
                value = values[index]
                if values.dtype.kind == "f":
                    assert is_shortest(text, value), (name, index, text, value)
                else:
                    assert text == str(int(value)), (name, index, text, value)


def test_words_say_why_a_value_cannot_be_shown():
    made = checkpoints.every_dtype(folder("src") / "all")
    with Mount(f"all={made.path}") as m:
        assert read_error(m.tensor("all", "f6_e2m3.5x8") / "data.npy") == "EOPNOTSUPP"
        assert read_error(m.tensor("all", "c64.5x8") / "at/0,0") == "EOPNOTSUPP"
        said = m.words("all")
        assert "f6_e2m3.5x8" in said and "F6_E2M3" in said, said[-500:]
        assert "c64.5x8" in said, said[-500:]


def test_unlisted_files_resolve_but_are_not_listed():
    made = checkpoints.llama(folder("src") / "llama")
    with Mount(f"llama={made.path}") as m:
        at = m.tensor("llama", "model.norm.weight")
        listed = set(os.listdir(at))
        assert {"name", "dtype", "shape", "data.npy"} <= listed
        assert not listed & {"raw", "at", "rows", "cols", "slice"}, listed
        assert (at / "raw").is_file()
        for name in ("at", "rows", "cols", "slice"):
            assert (at / name).is_dir() and os.listdir(at / name) == [], name


# ---------------------------------------------------------------- selections


def selection_model():
    rng = np.random.default_rng(12)
    tensors = {f"{d.lower()}.{len(s)}": checkpoints.random_bits(d, s, rng)
               for d in ("BF16", "F32", "I64", "F8_E4M3", "F4")
               for s in ((), (9,), (6, 10), (3, 4, 6), (2, 3, 4, 6))
               if not (d == "F4" and np.prod(s, dtype=int) % 2)}
    return checkpoints.write_checkpoint(folder("src") / "sel", tensors)


def test_rows_are_axis_0_and_cols_the_last():
    made = selection_model()
    with Mount(f"sel={made.path}") as m:
        for name, t in made.tensors.items():
            if not t.shape:
                continue
            values, at = made.values(name), m.tensor("sel", name)
            for i in {0, 1, t.shape[0] - 1}:
                same_values(load(at / f"rows/{i}.npy"), values[i], f"{name} row {i}")
            for j in {0, 1, t.shape[-1] - 1}:
                same_values(load(at / f"cols/{j}.npy"), values[..., j], f"{name} col {j}")


SLICES = {
    0: [""],
    1: ["2:5", ":", ":3", "7:", "-4:-1", "3:3", "-2:", "5:99", "-99:2", "20:30"],
    2: ["1:4,2:9", ":,:", ":2,-3:", "-2:,:", "0:6,9:10", "4:2,:", ":,5:5", "1:3", "-7:,:11"],
    3: ["1:3,0:2,2:5", ":,:,:", "-1:,1:,:-2", "0:1,:,3:4", "1:,2:"],
    4: ["0:2,1:3,2:4,1:6", ":,:,:,:", "-1:,:,-2:,:5", "1:2,0:1,3:4,5:6", ":,-1:"],
}


def test_slices_are_numpys():
    made = selection_model()
    with Mount(f"sel={made.path}") as m:
        for name, t in made.tensors.items():
            for text in SLICES[len(t.shape)]:
                index = tuple(slice(*(int(v) if v else None for v in part.split(":")))
                              for part in text.split(",") if part)
                got = load(m.tensor("sel", name) / f"slice/{text}.npy")
                same_values(got, made.values(name)[index], f"{name}[{text}]")


def test_negative_indices_count_from_the_end():
    made = selection_model()
    with Mount(f"sel={made.path}") as m:
        for name in ("bf16.2", "f32.3", "i64.4"):
            values, at = made.values(name), m.tensor("sel", name)
            index = tuple(-1 - i for i in range(values.ndim))
            text = scalar(at / "at" / ",".join(map(str, index)))
            assert float(text) == float(values[index]) or np.isnan(values[index]), name
            same_values(load(at / "rows/-1.npy"), values[-1], name)
            same_values(load(at / "cols/-2.npy"), values[..., -2], name)


def test_out_of_range_and_malformed_selections_do_not_exist():
    made = selection_model()
    with Mount(f"sel={made.path}") as m:
        two, zero = m.tensor("sel", "bf16.2"), m.tensor("sel", "bf16.0")
        wrong = ["at/6,0", "at/0,10", "at/-7,0", "at/0,-11", "at/0", "at/0,0,0", "at/0,", "at/a,b",
                 "at/0,18446744073709551616", "at/ 0,0", "at/0,0.npy", "at/+1,0", "at/1.0,0",
                 "rows/6.npy", "rows/-7.npy", "rows/0", "rows/x.npy", "rows/.npy", "cols/10.npy",
                 "cols/99999999999999999999.npy", "slice/0:1,0:1,0:1.npy", "slice/a:b,:.npy",
                 "slice/0:1,0:1", "slice/0:99999999999999999999.npy", "slice/1,2.npy",
                 "slice/:,:,.npy", "nothing", "data.npz"]
        for name in wrong:
            assert error_name(os.stat, f"{two}/{name}") == "ENOENT", name
        for name in ("at/1", "at/0,0", "rows/0.npy", "cols/0.npy", "slice/:.npy"):
            assert error_name(os.stat, zero / name) == "ENOENT", name
        assert error_name(os.stat, m.models / "sel/tensors/none") == "ENOENT"
        assert error_name(os.stat, m.models / "none") == "ENOENT"


def test_odd_names_are_folders_with_their_own_values():
    made = checkpoints.odd_names(folder("src") / "odd")
    with Mount(f"odd={made.path}") as m:
        want = sorted(tmtest.file_name(n) for n in made.tensors)
        assert sorted(os.listdir(m.models / "odd/tensors")) == want
        for name in made.tensors:
            at = m.tensor("odd", name)
            assert (at / "name").read_bytes() == name.encode() + b"\n", name
            same_values(load(at / "data.npy"), made.values(name), name)
        for wrong in ("%2e", "%61", "a%2fb", "100%", "%2F"[:2]):
            assert error_name(os.stat, m.models / "odd/tensors" / wrong) == "ENOENT", wrong


def test_long_names_are_cut_and_still_told_apart():
    made = checkpoints.long_names(folder("src") / "long")
    with Mount(f"long={made.path}") as m:
        at = m.models / "long/tensors"
        names = os.listdir(at)
        assert len(names) == len(made.tensors)
        assert all(len(os.fsencode(n)) <= 255 for n in names)
        found = {(at / n / "name").read_text()[:-1]: n for n in names}
        assert set(found) == set(made.tensors)
        assert found["x" * 255] == "x" * 255
        for name, file in found.items():
            assert len(name.encode()) <= 255 or "~" in file
            same_values(load(at / file / "data.npy"), made.values(name), name)


# ---------------------------------------------------------------- other ways to a tensor


def linked_tensors(top):
    """The names of the tensors that the symlinks below TOP lead to."""
    found = []
    for where, folders, files in os.walk(top):
        for name in folders + files:
            at = pathlib.Path(where, name)
            if at.is_symlink():
                assert (at / "name").exists(), f"{at} leads nowhere"
                assert at.resolve().parent.name == "tensors", at.resolve()
                found.append((at / "name").read_text()[:-1])
    return sorted(found)


def test_tree_reaches_every_tensor_once_by_its_module_path():
    made = checkpoints.llama(folder("src") / "llama")
    with Mount(f"llama={made.path}") as m:
        top = m.models / "llama/tree"
        assert linked_tensors(top) == sorted(made.tensors)
        for name in made.tensors:
            at = top / name.replace(".", "/")
            assert at.is_symlink() and not os.readlink(at).startswith("/"), name
            assert (at / "name").read_text() == name + "\n"


def test_tree_keeps_a_leaf_that_is_also_a_prefix():
    made = checkpoints.odd_names(folder("src") / "odd")
    with Mount(f"odd={made.path}") as m:
        top = m.models / "odd/tree"
        assert linked_tensors(top) == sorted(made.tensors)
        for leaf in ("weight", "weight.absmax", "weight.quant_map"):
            assert (top / "q" / leaf / "name").read_text() == f"q.{leaf}\n"


def test_layers_hold_the_tensors_of_each_layer():
    made = checkpoints.llama(folder("src") / "llama", layers=12, hidden=16)
    with Mount(f"llama={made.path}") as m:
        top = m.models / "llama/layers"
        listed = sorted(os.listdir(top))
        assert [int(n) for n in listed] == list(range(12))
        assert len({len(n) for n in listed}) == 1, "not padded to one width"
        for i, name in enumerate(listed):
            want = sorted(n for n in made.tensors if n.startswith(f"model.layers.{i}."))
            assert linked_tensors(top / name) == want
            assert linked_tensors(top / str(i)) == want, "the unpadded name"
        assert error_name(os.stat, top / "12") == "ENOENT"


def test_models_without_layers_have_none():
    made = checkpoints.every_dtype(folder("src") / "all")
    with Mount(f"all={made.path}") as m:
        for name in ("layers", "experts"):
            assert os.listdir(m.models / "all" / name) == []


def test_experts_of_separate_tensors_are_links():
    made = checkpoints.mixture(folder("src") / "moe", layers=2, experts=3)
    with Mount(f"moe={made.path}") as m:
        top = m.models / "moe/experts"
        assert [int(n) for n in sorted(os.listdir(top))] == [0, 1]
        for i in range(2):
            layer = top / sorted(os.listdir(top))[i]
            assert [int(n) for n in sorted(os.listdir(layer))] == [0, 1, 2]
            for e, name in enumerate(sorted(os.listdir(layer))):
                part = f"model.layers.{i}.block_sparse_moe.experts.{e}."
                want = sorted(n for n in made.tensors if n.startswith(part))
                assert linked_tensors(layer / name) == want
                assert linked_tensors(top / str(i) / str(e)) == want, "the unpadded name"


def test_experts_of_a_fused_tensor_are_its_slices():
    made = checkpoints.fused_experts(folder("src") / "moe", layers=2, experts=4)
    with Mount(f"moe={made.path}") as m:
        for i in range(2):
            whole = {r: made.values(f"model.layers.{i}.mlp.experts.{r}")
                     for r in ("gate_up_proj", "down_proj")}
            for e in range(4):
                at = m.models / f"moe/experts/{i}/{e}"
                assert len(os.listdir(at)) == 2
                for role, values in whole.items():
                    one = at / role
                    assert one.is_dir()
                    assert json.loads((one / "shape").read_text()) == list(values.shape[1:])
                    same_values(load(one / "data.npy"), values[e], f"{i}/{e}/{role}")
                    got = float(scalar(one / "at/1,2"))
                    assert got == float(values[e][1, 2])
                    same_values(load(one / "rows/3.npy"), values[e][3], f"{role} row 3")


# ---------------------------------------------------------------- sizes


def test_every_size_is_exact():
    src = folder("src")
    made = [checkpoints.llama(src / "llama", layers=1), checkpoints.mixture(src / "mix", layers=1),
            checkpoints.fused_experts(src / "fused", layers=1), checkpoints.odd_names(src / "odd"),
            checkpoints.fp8_block(src / "fp8")]
    with Mount(*(f"{c.path.name}={c.path}" for c in made)) as m:
        count = 0
        for where, _, files in os.walk(m.path):
            for name in files:
                at = pathlib.Path(where, name)
                if ".tmorph" in where or at.is_symlink():
                    continue
                before = at.stat()
                content = at.read_bytes()
                assert len(content) == before.st_size, f"{at}: {len(content)} of {before.st_size}"
                assert before.st_blocks == -(-before.st_size // 512), f"{at}: {before.st_blocks}"
                count += 1
        assert count > 200, count


def test_sizes_of_unlisted_files_are_exact():
    made = selection_model()
    with Mount(f"sel={made.path}") as m:
        for name in ("raw", "at/1,2", "rows/1.npy", "cols/1.npy", "slice/1:3,2:4.npy"):
            at = m.tensor("sel", "bf16.2") / name
            got = at.stat()
            assert got.st_size == len(at.read_bytes()) > 0, name
            assert got.st_blocks == -(-got.st_size // 512), name


# ---------------------------------------------------------------- refusals


def test_writes_answer_read_only():
    made = checkpoints.llama(folder("src") / "llama", shards=1)
    with Mount(f"llama={made.path}") as m:
        file = m.load / "llama/model.safetensors"
        data = m.tensor("llama", "model.norm.weight") / "data.npy"
        new = os.O_CREAT | os.O_WRONLY
        attempts = {
            "open": (os.open, file, os.O_WRONLY), "open rw": (os.open, data, os.O_RDWR),
            "truncate": (os.truncate, file, 0), "create": (os.open, m.load / "llama/new", new),
            "create in tensors": (os.open, m.models / "llama/tensors/new", new),
            "create at the root": (os.open, m.path / "new", new),
            "mkdir": (os.mkdir, m.load / "new"), "unlink": (os.unlink, file),
            "rmdir": (os.rmdir, m.models / "llama"), "rename": (os.rename, file, m.load / "x"),
            "symlink": (os.symlink, "x", m.load / "llama/link"),
            "link": (os.link, file, m.load / "llama/hard"), "chmod": (os.chmod, file, 0o644),
            "utime": (os.utime, file), "chown": (os.chown, file, 1, 1)}
        for what, (action, *args) in attempts.items():
            assert error_name(action, *args) == "EROFS", (what, error_name(action, *args))
        tmtest.same_tree(made.path, m.load / "llama")


def test_quantised_values_are_refused_with_words():
    src = folder("src")
    schemes = checkpoints.quantised_schemes()
    for name, q in schemes.items():
        checkpoints.write_checkpoint(src / name, q["tensors"], config=q["config"])
    with Mount(*(f"{n}={src / n}" for n in schemes)) as m:
        for scheme, q in schemes.items():
            assert m.state(scheme) == "ready", scheme
            for name in q["refused"]:
                at, t = m.tensor(scheme, name), q["tensors"][name]
                assert (at / "raw").read_bytes() == t.raw
                assert (at / "dtype").read_text() == t.dtype + "\n"
                assert read_error(at / "data.npy") == "EOPNOTSUPP", (scheme, name)
                index = ",".join(["0"] * len(t.shape))
                assert read_error(at / "at" / index) == "EOPNOTSUPP", (scheme, name)
                assert name in m.words(scheme), f"{scheme}: no words about {name}"
            tmtest.same_tree(src / scheme, m.load / scheme)


# ---------------------------------------------------------------- scaled


def check_scaled(made):
    with Mount(f"fp8={made.path}") as m:
        assert m.state("fp8") == "ready", m.words("fp8")
        for name, want in made.expected.items():
            at, t = m.tensor("fp8", name), made.tensors[name]
            assert (at / "dtype").read_text() == "F8_E4M3\n"
            assert json.loads((at / "shape").read_text()) == list(t.shape)
            assert (at / "raw").read_bytes() == t.raw
            same_values(load(at / "data.npy"), want, name)
            last = tuple(d - 1 for d in t.shape)
            text = scalar(at / "at" / ",".join(map(str, last)))
            assert is_shortest(text, want[last]), (name, text, want[last])
            same_values(load(at / f"rows/{last[0]}.npy"), want[-1], f"{name} last row")
            same_values(load(at / f"cols/{last[-1]}.npy"), want[..., -1], f"{name} last column")
            cut = ",".join("-3:" for _ in t.shape)
            same_values(load(at / f"slice/{cut}.npy"), want[tuple(slice(-3, None) for _ in t.shape)],
                        f"{name} corner")


def test_fp8_by_blocks_is_the_float32_product():
    check_scaled(checkpoints.fp8_block(folder("src") / "one"))
    check_scaled(checkpoints.fp8_block(folder("src") / "two", block=(64, 32), shards=3))


def test_fp8_with_power_of_two_scales():
    check_scaled(checkpoints.fp8_block(folder("src") / "one", scale_dtype="F8_E8M0"))


def test_fp8_by_tensor_and_by_channel():
    check_scaled(checkpoints.fp8_scaled(folder("src") / "one"))
    check_scaled(checkpoints.fp8_scaled(folder("src") / "two", scheme="float-quantized",
                                        scale_dtype="BF16"))


def test_fp8_without_scales_shows_its_own_values():
    made = checkpoints.fp8_without_scale(folder("src") / "bare")
    with Mount(f"bare={made.path}") as m:
        for name in made.tensors:
            same_values(load(m.tensor("bare", name) / "data.npy"), made.values(name), name)


def test_scales_are_not_counted_as_parameters():
    made = checkpoints.fp8_block(folder("src") / "fp8")
    with Mount(f"fp8={made.path}") as m:
        got = json.loads((m.models / "fp8/model.json").read_text())
        stored = sum(t.elems for t in made.tensors.values())
        scales = sum(t.elems for n, t in made.tensors.items() if n.endswith("_scale_inv"))
        assert got["parameters_stored"] == stored
        assert got["parameters"] == stored - scales


# ---------------------------------------------------------------- damaged


def test_damaged_files_mount_and_say_why():
    src = folder("src")
    bad = checkpoints.damaged_files()
    for name, content in bad.items():
        (src / f"{name}.safetensors").write_bytes(content)
    good = checkpoints.llama(src / "good")
    sources = [f"{n}={src / n}.safetensors" for n in bad]
    with Mount(f"good={good.path}", *sources) as m:
        for name, content in bad.items():
            assert m.state(name) == "damaged", name
            said = (m.models / name / "error").read_text()
            assert f"{name}.safetensors" in said and len(said.strip()) > len(name) + 20, said
            got = json.loads((m.models / name / "model.json").read_text())
            assert got["state"] == "damaged" and got["error"], name
            assert [f["state"] for f in got["files"]] == ["damaged"], name
            copies = list((m.load / name).iterdir())
            assert [c.read_bytes() for c in copies] == [content], name
            for tensor in os.listdir(m.models / name / "tensors"):
                if (name, tensor) != ("cut-short", "a"):
                    at = m.models / name / "tensors" / tensor
                    assert read_error(at / "data.npy") == "EBADMSG", (name, tensor)
                    assert read_error(at / "raw") == "EBADMSG", (name, tensor)
        assert m.state("good") == "ready"
        tmtest.same_tree(good.path, m.load / "good")


def test_a_file_cut_short_shows_the_tensors_that_are_whole():
    src = folder("src")
    (src / "x.safetensors").write_bytes(checkpoints.damaged_files()["cut-short"])
    with Mount(f"x={src / 'x.safetensors'}") as m:
        assert sorted(os.listdir(m.models / "x/tensors")) == ["a", "b"]
        assert load(m.tensor("x", "a") / "data.npy").tobytes() == b"1234"
        assert read_error(m.tensor("x", "b") / "data.npy") == "EBADMSG"


def test_oddities_that_upstream_accepts_are_ready():
    src = folder("src")
    odd = checkpoints.accepted_files()
    for name, (content, _) in odd.items():
        (src / f"{name}.safetensors").write_bytes(content)
    with Mount(*(f"{n}={src / n}.safetensors" for n in odd)) as m:
        for name, (_, shapes) in odd.items():
            assert m.state(name) == "ready", (name, m.words(name)[-300:])
            assert sorted(os.listdir(m.models / name / "tensors")) == sorted(shapes), name
            for tensor, shape in shapes.items():
                at = m.models / name / "tensors" / tensor
                assert json.loads((at / "shape").read_text()) == shape, name
        assert scalar(m.tensor("misaligned-tensor", "b") / "at/0")


def test_a_missing_shard_damages_its_own_tensors_only():
    made = checkpoints.llama(folder("src") / "llama", shards=3)
    gone = "model-00002-of-00003.safetensors"
    os.unlink(made.path / gone)
    with Mount(f"llama={made.path}") as m:
        assert m.state("llama") == "damaged"
        assert gone in (m.models / "llama/error").read_text()
        got = json.loads((m.models / "llama/model.json").read_text())
        assert {f["name"]: f["state"] for f in got["files"]}[gone] != "ready"
        for name, file in made.files.items():
            if file != gone:
                same_values(load(m.tensor("llama", name) / "data.npy"), made.values(name), name)
        tmtest.same_tree(made.path, m.load / "llama")


def test_an_index_that_reaches_outside_is_refused():
    for wrong in ("../secret.safetensors", "/etc/passwd", "a\\b.safetensors"):
        made = checkpoints.llama(folder("src") / "llama", shards=2)
        index = made.path / "model.safetensors.index.json"
        content = json.loads(index.read_text())
        content["weight_map"]["lm_head.weight"] = wrong
        index.write_text(json.dumps(content))
        with Mount(f"llama={made.path}") as m:
            assert m.state("llama") == "damaged", wrong
            assert "index.json" in (m.models / "llama/error").read_text()


def test_an_index_that_is_not_json_is_damage():
    made = checkpoints.llama(folder("src") / "llama", shards=2)
    (made.path / "model.safetensors.index.json").write_text("{")
    with Mount(f"llama={made.path}") as m:
        assert m.state("llama") == "damaged"
        assert "model.safetensors.index.json" in (m.models / "llama/error").read_text()
        tmtest.same_tree(made.path, m.load / "llama")


def test_a_copy_in_another_shard_is_a_warning():
    made = checkpoints.llama(folder("src") / "llama", shards=2)
    name = "lm_head.weight"
    other = ({*made.files.values()} - {made.files[name]}).pop()
    part = {n: t for n, t in made.tensors.items() if made.files[n] == other}
    part[name] = checkpoints.normal("BF16", made.tensors[name].shape, np.random.default_rng(99))
    (made.path / other).write_bytes(checkpoints.safetensors_bytes(part, {"format": "pt"}))
    with Mount(f"llama={made.path}") as m:
        assert m.state("llama") == "ready", m.words("llama")
        same_values(load(m.tensor("llama", name) / "data.npy"), made.values(name), name)
        assert name in m.words("llama")


def test_a_folder_without_readable_weights_has_load_only():
    src = folder("src")
    (src / "pytorch_model.bin").write_bytes(b"PK\x03\x04 not a safetensors")
    (src / "config.json").write_text("{}")
    with Mount(f"bin={src}") as m:
        tmtest.same_tree(src, m.load / "bin")
        assert m.words("bin").strip(), "no words"


# ---------------------------------------------------------------- collections, layouts


def test_children_of_a_collection_are_models():
    src = folder("src")
    run = checkpoints.training_run(src / "run")
    parts = checkpoints.diffusion(src / "pipe")
    with Mount(f"run={src / 'run'}", f"pipe={src / 'pipe'}") as m:
        for name, children in (("run", run), ("pipe", parts)):
            assert set(children) <= set(os.listdir(m.models / name))
            tmtest.same_tree(src / name, m.load / name)
            for child, made in children.items():
                at = m.models / name / child
                assert (at / "state").read_text().split()[0] == "ready", child
                assert sorted(os.listdir(at / "tensors")) == sorted(made.tensors)
                tensor = next(iter(made.tensors))
                same_values(load(at / "tensors" / tensor / "data.npy"), made.values(tensor), tensor)
                tmtest.same_tree(made.path, at / "files")
        assert error_name(os.stat, m.models / "run/runs/model.json") == "ENOENT"


def test_a_snapshot_of_a_hub_cache_is_read_through_its_links():
    src = folder("src")
    made = checkpoints.llama(src / "llama")
    snapshot = checkpoints.hf_cache(src / "models--org--llama", made)
    with Mount(f"snap={snapshot}", f"repo={src / 'models--org--llama'}") as m:
        name = "model.norm.weight"
        for model in ("snap", "repo"):
            assert m.state(model) == "ready", m.words(model)
            tmtest.same_tree(made.path, m.load / model)
            same_values(load(m.tensor(model, name) / "data.npy"), made.values(name), model)


def test_a_repository_folder_means_what_its_main_ref_names():
    src = folder("src")
    main, other = (checkpoints.llama(src / str(i), seed=i) for i in (1, 2))
    repo = src / "models--org--llama"
    checkpoints.hf_cache(repo, main)
    checkpoints.hf_cache(src / "spare", other)
    os.rename(src / "spare/snapshots" / checkpoints.REVISION, repo / "snapshots" / ("f" * 40))
    for blob in (src / "spare/blobs").iterdir():
        os.replace(blob, repo / "blobs" / blob.name)
    with Mount(f"repo={repo}") as m:
        tmtest.same_tree(main.path, m.load / "repo")


def test_a_whole_hub_cache_is_a_collection():
    src = folder("src")
    made = {f"models--org--{n}": checkpoints.llama(src / n, seed=i)
            for i, n in enumerate(("one", "two"))}
    for repo, one in made.items():
        checkpoints.hf_cache(src / "hub" / repo, one)
    with Mount(f"hub={src / 'hub'}") as m:
        assert set(made) <= set(os.listdir(m.models / "hub"))
        for repo, one in made.items():
            at = m.models / "hub" / repo
            assert (at / "state").read_text().split()[0] == "ready"
            assert sorted(os.listdir(at / "tensors")) == sorted(one.tensors)
            tmtest.same_tree(one.path, m.load / "hub" / repo)


def test_a_symlink_out_of_the_source_is_followed_to_its_bytes():
    src = folder("src")
    made = checkpoints.llama(src / "real", shards=1)
    (src / "linked").mkdir()
    for name in ("model.safetensors", "config.json"):
        (src / "linked" / name).symlink_to(made.path / name)
    with Mount(f"linked={src / 'linked'}") as m:
        tmtest.same_tree(src / "linked", m.load / "linked")
        assert m.state("linked") == "ready"


def test_strange_things_in_a_source_do_no_harm():
    made = checkpoints.llama(folder("src") / "m", shards=1)
    os.mkfifo(made.path / "fifo")
    (made.path / "dangling").symlink_to("nowhere")
    (made.path / "loop").symlink_to(".")
    (made.path / "itself").symlink_to("itself")
    (made.path / "bytes\udcff.txt").write_text("a name that is not UTF-8")
    (made.path / "fifo.safetensors").symlink_to("fifo")
    with Mount(f"m={made.path}") as m:
        assert m.state("m") == "ready", m.words("m")
        names = os.listdir(m.load / "m")
        assert "bytes\udcff.txt" in names
        assert (m.load / "m/bytes\udcff.txt").read_text() == "a name that is not UTF-8"
        for name in names:
            if not (m.load / "m" / name).is_dir():
                read_error(m.load / "m" / name)  # an error or bytes, but no hang
        name = "model.norm.weight"
        same_values(load(m.tensor("m", name) / "data.npy"), made.values(name), name)


def test_an_empty_folder_and_empty_files_mount():
    src = folder("src")
    (src / "empty").mkdir()
    (src / "files").mkdir()
    (src / "files/README.md").touch()
    with Mount(f"empty={src / 'empty'}", f"files={src / 'files'}") as m:
        assert os.listdir(m.load / "empty") == []
        assert (m.load / "files/README.md").read_bytes() == b""


# ---------------------------------------------------------------- .tmorph, command line


def test_ctl_adds_removes_and_reloads():
    src = folder("src")
    one, two = (checkpoints.llama(src / n, seed=i) for i, n in enumerate(("one", "two")))
    with Mount(f"one={one.path}") as m:
        m.command(f"add two={two.path}\n")
        assert sorted(os.listdir(m.models)) == ["one", "two"]
        tmtest.same_tree(two.path, m.load / "two")
        assert m.state("two") == "ready"
        m.command("reload two\n")
        assert m.state("two") == "ready"
        m.command("remove one")
        assert os.listdir(m.models) == ["two"] and os.listdir(m.load) == ["two"]
        assert error_name(os.stat, m.models / "one/model.json") == "ENOENT"
        for wrong in ("dance\n", "add\n", "remove none\n", f"add two={one.path}\n", "\n",
                      "add x=/does/not/exist\n", "reload\n"):
            assert error_name(m.command, wrong), f"{wrong!r} was accepted"
        assert error_name(m.command, "dance\n") == "EINVAL"
        assert os.listdir(m.models) == ["two"]


def test_an_open_file_survives_remove():
    src = folder("src")
    made = checkpoints.llama(src / "one", shards=1)
    with Mount(f"one={made.path}") as m:
        with open(m.load / "one/model.safetensors", "rb") as f:
            m.command("remove one\n")
            assert f.read() == (made.path / "model.safetensors").read_bytes()


def test_an_empty_mount_can_be_filled():
    made = checkpoints.llama(folder("src") / "one")
    with Mount() as m:
        assert os.listdir(m.models) == [] and os.listdir(m.load) == []
        m.command(f"add one={made.path}\n")
        assert m.state("one") == "ready"


def test_live_files_tell_about_the_mount():
    made = checkpoints.llama(folder("src") / "one", shards=1)
    with Mount(f"one={made.path}") as m:
        version = (m.path / ".tmorph/version").read_text()
        assert version.strip() and version.strip() in tmorph("--version", check=0).stdout
        assert isinstance((m.path / ".tmorph/log").read_text(), str)
        (m.load / "one/model.safetensors").read_bytes()
        head, rows = table(m.path / ".tmorph/transport.tsv")
        assert head[:2] == ["path", "way"]
        ways = {r["path"]: r["way"] for r in rows}
        assert any(p.endswith("one/model.safetensors") for p in ways), ways
        assert set(ways.values()) <= {"passthrough", "mapped", "pread", "symlink"}, ways


def test_the_command_line_shows_the_same_tree():
    src = folder("src")
    made = checkpoints.llama(src / "llama")
    name = "model.layers.1.mlp.up_proj.weight"
    with Mount(made.path) as m:
        assert os.listdir(m.models) == ["llama"], "the name is the source's last component"
        at = m.models / "llama"
        for path in ("tensors.tsv", "model.json", f"tensors/{name}/shape",
                     f"tensors/{name}/at/3,4"):
            said = tmorph("cat", f"{made.path}::{path}", check=0).stdout
            assert said == (at / path).read_text(), path
        listed = tmorph("ls", f"{made.path}::tensors", check=0).stdout.split()
        assert sorted(listed) == sorted(os.listdir(at / "tensors"))
        info = json.loads(tmorph("info", "--json", made.path, check=0).stdout)
        assert info == json.loads((at / "model.json").read_text())
    assert tmorph("cat", f"{made.path}::nothing").returncode == 2
    assert tmorph("cat", f"{src}/none::model.json").returncode == 2


if __name__ == "__main__":
    tmtest.main(globals())
