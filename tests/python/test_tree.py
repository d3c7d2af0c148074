"""The mount tree's contract, file by file, for models whose every value is known."""
import json
import os
import pathlib
import stat

import tmtest

tmtest.need_modules("numpy", "ml_dtypes")

import numpy as np

import checkpoints
from expect import is_shortest, load, same_values, scalar, table
from tmtest import Mount, error_name, folder, read_error, tmorph

MODEL_KEYS = ["name", "source", "format", "state", "error", "architecture", "layers", "experts",
              "tensors", "parameters", "parameters_stored", "bytes", "dtypes", "tied",
              "fingerprint", "files", "unused"]
TABLE_HEAD = ["name", "dtype", "shape", "params", "bytes", "layer", "role", "file"]


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
    1: ["2:5", ":", ":3", "7:", "-4:-1", "3:3", "-2:", "5:99", "-99:2", "20:30",
        "1:99999999999999999999"],
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
                 "slice/0:1,0:1", "slice/1,2.npy",
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
            corner = want[tuple(slice(-3, None) for _ in t.shape)]
            same_values(load(at / f"slice/{cut}.npy"), corner, f"{name} corner")


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
