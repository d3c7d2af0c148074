"""tmorph index: the same bytes however it runs, where they lie, what the tree says with them, and
what it does with those that do not fit.
"""
import contextlib
import json
import os
import shutil
import signal
import time

import tmtest

tmtest.need_fuse()
tmtest.need_modules("numpy", "ml_dtypes")

import numpy as np

import checkpoints
import stats_reference as ref
from expect import scalar, table
from indexes import (GROUP, KINDS, Groups, anywhere, cache, caught, ended, every_dtype,
                     fingerprint, fresh, in_heads, in_sections, index, index_of_many, indexing,
                     log_of_many, made_in, many, module_names, mounted, names_in, read_by,
                     read_group, read_only, rows_of, small, small_disk, special, told, with_header)
from test_change import replaced_file
from test_stats_work import used
from test_trouble import SlowFolder, prompt
from tmtest import Mount, folder, listing, process_io, tmorph, wait_until

SLACK = 300 << 10  # bytes that are read besides weights: headers, samples, configs, the indexes
FILES = ["stats.json"] + [f"stats/{key}" for key in ref.KEYS]
NOTICE = 3.0  # seconds: indexes are looked after once in one


# ---------------------------------------------------------------- the same bytes


def test_the_bytes_do_not_depend_on_the_number_of_threads():
    src = folder("src")
    sources = [small(src / "two", shards=2).path, special(src / "special").path,
               checkpoints.fp8_block(src / "fp8", shards=2).path,
               checkpoints.write_checkpoint(src / "big", {
                   "one": checkpoints.normal("BF16", (2049, 1024), np.random.default_rng(1)),
                   "two": checkpoints.normal("F32", (700_001,), np.random.default_rng(2))}).path]
    for source in sources:
        made = []
        for jobs in (1, 2, 7):
            out = folder("out")
            index("--jobs", jobs, "--out", out, source)
            made.append(made_in(out))
        assert made[0] and made[0] == made[1] == made[2], source.name


def check_goes_on(source, out, part, kept):
    """The same command makes the whole index from the log, which has KEPT of it at least."""
    weights = (source / "model.safetensors").stat().st_size
    share = kept / len(index_of_many()["model.safetensors.tmidx"])
    assert 0.2 < share < 1, f"{kept} bytes kept"
    cost = read_by(index, "--jobs", 2, "--out", out, source)
    assert cost < weights * (1.1 - share) + SLACK, f"{cost} bytes read, {share:.2f} were done"
    assert made_in(out) == index_of_many() and not part.exists()


def test_a_killed_run_goes_on_where_it_was():
    made, out = many(folder("src") / "m"), folder("out")
    log, part = log_of_many(), out / "model.safetensors.tmidx.part"
    part.write_bytes(log[:-5])  # its last entry is cut
    check_goes_on(made.path, out, part, len(log) - 1000)


def test_an_interrupted_run_goes_on_where_it_was():
    with SlowFolder() as slow:
        many(slow.real / "m")
        out = folder("out")
        with caught(slow, out) as (process, part):
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)  # so that it has the signal while it waits for a read
            slow.let_go()
            ended(process, 2, "the same command goes on")
            assert os.listdir(out) == [part.name]
            check_goes_on(slow.path / "m", out, part, part.stat().st_size)


def test_a_log_of_other_weights_or_of_nothing_is_begun_anew():
    src, out = folder("src"), folder("out")
    made, want = small(src / "m", seed=1), fresh(small(src / "m", seed=1).path)
    part = out / "model.safetensors.tmidx.part"
    for content in (log_of_many(), b"", b"\0" * 500, os.urandom(5000), *want.values()):
        part.write_bytes(content)
        index("--out", out, made.path)
        assert made_in(out) == want, content[:16]
        (out / "model.safetensors.tmidx").unlink()


def test_parts_in_any_order_make_what_one_run_makes():
    rng = np.random.default_rng(3)
    tensors = {f"t{i:02}": checkpoints.normal("BF16", (16 + 5 * (i % 7), 200), rng)
               for i in range(28)}
    made = checkpoints.write_checkpoint(folder("src") / "m", tensors, shards=7)
    sizes = {f.name + ".tmidx": f.stat().st_size for f in made.path.glob("*.safetensors")}
    want = fresh(made.path)
    assert set(want) == set(sizes)
    for order in ((1, 2, 3), (3, 1, 2)):
        together, whole = {}, folder("whole")
        loads = []
        for part in order:
            out = folder("part")
            for where in (out, whole):
                index("--part", f"{part}/3", "--out", where, made.path)
            mine = made_in(out)
            assert mine and not set(mine) & set(together), "two parts have one shard"
            together |= mine
            loads.append(sum(sizes[name] for name in mine))
        assert together == want == made_in(whole)
        assert max(loads) - min(loads) <= max(sizes.values()), loads
    assert not made_in(made.path)


def test_parts_of_a_collection_are_alike():
    run = folder("run")
    for i in range(6):
        small(run / f"step-{i}", seed=i)
    shares = []
    for part in (1, 2, 3):
        out = folder("part")
        index("--part", f"{part}/3", "--out", out, run)
        shares.append(set(made_in(out)))
    assert sum(map(len, shares)) == len(set().union(*shares)) == 6, shares
    assert [len(s) for s in shares] == [2, 2, 2], f"indexes in each part: {list(map(len, shares))}"


def test_more_parts_than_shards_leave_some_without_work():
    made = small(folder("src") / "m", shards=2)
    out = folder("out")
    for part in range(1, 6):
        index("--part", f"{part}/5", "--out", out, made.path)
    assert made_in(out) == fresh(made.path)


# ---------------------------------------------------------------- where they lie


def test_indexes_lie_beside_their_shards_and_are_made_once():
    made = small(folder("src") / "m", shards=2)
    names = {n + ".tmidx" for n in made.files.values()}
    with cache() as where:
        index(made.path)
        assert set(made_in(made.path)) == names and not where.exists()
        before = {n: (made.path / n).stat() for n in names}
        assert "indexed already" in index(made.path).stdout
        index(f"{made.path}/model-00001-of-00002.safetensors")  # a file alone is the same shard
        for name, st in before.items():
            now = (made.path / name).stat()
            assert (now.st_ino, now.st_mtime_ns) == (st.st_ino, st.st_mtime_ns), name


def test_the_cache_has_those_of_a_folder_that_may_not_be_written_to():
    made = checkpoints.llama(folder("src") / "m", layers=1, hidden=128, shards=2)
    shards = [made.path / n for n in set(made.files.values())]
    assert any(s.stat().st_size > 100_000 for s in shards), "of one the fingerprint is a sample"
    want = {fingerprint(s) + ".tmidx": fresh(s)[s.name + ".tmidx"] for s in shards}
    with cache() as where:
        with read_only(made.path):
            index(made.path)
            assert made_in(where) == want
            assert where.stat().st_mode & 0o777 == 0o700, "the user's own"
            assert "indexed already" in index(made.path).stdout
            with Mount(f"m={made.path}") as m:
                assert scalar(m.model("m") / "index/state") == "fresh"
        assert not made_in(made.path)
        # wherever the same bytes lie
        copy = shutil.copytree(made.path, folder("copy") / "c")
        assert tmorph("cat", f"{copy}::index/state", check=0).stdout.split() == ["fresh"]
        shutil.rmtree(where)
        assert tmorph("cat", f"{copy}::index/state", check=0).stdout.split() == ["none"]


def test_the_cache_has_those_of_a_mount_of_ours_too():
    made = small(folder("src") / "m", shards=2)
    with cache() as where, Mount(f"m={made.path}") as m:
        index(m.load / "m")
        assert len(made_in(where)) == 2 and not made_in(made.path)
        assert scalar(m.model("m") / "index/state") == "fresh"


def check_hub_is_left_alone(hub, source):
    before = listing(hub)
    with cache() as where:
        index(source)
        assert listing(hub) == before, f"written to: {sorted(listing(hub) - before)}"
        assert len(made_in(where)) == 2
        assert "indexed already" in index(source).stdout


def test_nothing_is_written_to_the_cache_of_hugging_face():
    hub = folder("hub")
    checkpoints.hf_cache(hub / "models--org--m", small(folder("src") / "m", shards=2))
    check_hub_is_left_alone(hub, hub / "models--org--m")
    check_hub_is_left_alone(hub, hub)


def test_nothing_is_written_to_a_snapshot_of_that_cache_either():
    hub = folder("hub")
    snapshot = checkpoints.hf_cache(hub / "models--org--m", small(folder("src") / "m", shards=2))
    check_hub_is_left_alone(hub, snapshot)


def test_a_folder_that_is_named_has_them_under_the_names_of_the_source():
    src, out = folder("src"), folder("out") / "not/yet"
    checkpoints.training_run(src / "run")
    checkpoints.diffusion(src / "pipe")
    with cache() as where:
        index("--out", out, src / "run", src / "pipe")
        assert set(made_in(out)) == {
            "checkpoint-500/model.safetensors.tmidx", "checkpoint-1000/model.safetensors.tmidx",
            "unet/diffusion_pytorch_model.safetensors.tmidx",
            "vae/diffusion_pytorch_model.safetensors.tmidx"}
        assert not made_in(src) and not where.exists()
        assert index("--out", out, src / "run", src / "pipe").stdout.count("indexed already") == 4
        # what lies beside the shard is of no use to whoever wants it there
        index(src / "run")
        other = folder("out")
        index("--out", other, src / "run")
        assert len(made_in(other)) == 2
    (out / "file").touch()
    words = index("--out", out / "file", src / "run", check=2).stderr
    assert f"{out}/file" in words, words


def test_a_mount_finds_them_in_the_folder_that_its_option_names():
    made, out = small(folder("src") / "m"), folder("out")
    index("--out", out, made.path)
    with Mount(f"m={made.path}", opts=f"index-dir={out}") as m:
        assert scalar(m.model("m") / "index/state") == "fresh"


# ---------------------------------------------------------------- what the tree says with them


def test_the_tree_says_with_an_index_what_it_says_without():
    src = folder("src")
    made = {"all": every_dtype(src / "all"), "llama": checkpoints.llama(src / "llama", layers=2),
            "block": checkpoints.fp8_block(src / "block", shards=2),
            "e8m0": checkpoints.fp8_block(src / "e8m0", scale_dtype="F8_E8M0"),
            "scaled": checkpoints.fp8_scaled(src / "scaled"),
            "fused": checkpoints.fused_experts(src / "fused"), "odd": special(src / "odd"),
            "names": checkpoints.odd_names(src / "names")}
    copies = {n: shutil.copytree(c.path, src / f"{n}-indexed") for n, c in made.items()}
    index(*copies.values())
    with Mount(*src.iterdir()) as m:
        def read(model, name):
            all_keys = name.endswith(".special") or name in made["block"].expected
            files = FILES if all_keys else FILES[:1]
            return [(m.tensor(model, name) / f).read_bytes() for f in files]

        def tables(model):
            return [(m.model(model) / f).read_bytes() for f in ("stats.tsv", "layers.tsv")]

        models = [(name, f"{name}-indexed", made[name].tensors) for name in made]
        told = {other: tables(other) for _, other, _ in models}
        numbers = {(other, t): read(other, t) for _, other, tensors in models for t in tensors}
        assert used(m) == 0, "something was computed"
        for model, other, tensors in models:
            assert scalar(m.model(other) / "index/state") == "fresh"
            for name in tensors:
                assert numbers[other, name] == read(model, name), (model, name)
            assert told[other] == tables(model), model  # all of it was computed by now
        assert not any(b" -\t" in content for content in told["llama-indexed"])
        hists = [("all", f"{d}.special") for d in ("BOOL", "I8", "F8_E4M3", "BF16", "F32", "F64")]
        for model, name in hists + [("block", next(iter(made["block"].expected)))]:
            one, other = (m.tensor(x, name) / "hist.tsv" for x in (model, f"{model}-indexed"))
            assert one.read_bytes() == other.read_bytes(), (model, name)
        one, other = (m.model(x) / "experts/0/1/gate_up_proj/stats.json"
                      for x in ("fused", "fused-indexed"))  # no index knows a slice
        assert one.read_bytes() == other.read_bytes()


def test_no_weight_is_read_for_what_an_index_knows():
    real = checkpoints.llama(folder("src") / "m", layers=4, hidden=256, shards=2)
    weights = sum(f.stat().st_size for f in real.path.glob("*.safetensors"))
    with cache() as where, SlowFolder() as slow:
        checkpoints.llama(slow.real / "m", layers=4, hidden=256, shards=2)
        with read_only(slow.real / "m"):
            index(slow.real / "m")
        assert len(made_in(where)) == 2
        with Mount(f"slow={slow.path}/m", f"real={real.path}", opts="timeout=5") as m:
            at = m.model("slow")
            for model in ("slow", "real"):
                before = process_io(m.pid, "rchar")
                assert scalar(m.model(model) / "index/state") == "fresh"
                for name in ("stats.tsv", "layers.tsv", "tree/stats.json", "layers/0/stats.json"):
                    (m.model(model) / name).read_bytes()
                cost = process_io(m.pid, "rchar") - before
                assert cost < 2 * 70_000 + SLACK < weights / 2, f"{model}: {cost} bytes read"
            slow.hold("read")  # from now on whoever reads the source hangs

            def read_all():
                got = [(at / "tree/model/stats.json").read_bytes(), rows_of(at / "layers.tsv")]
                got += [(at / f"layers/{i}/stats.json").read_bytes() for i in range(4)]
                for name in real.tensors:
                    got += [(m.tensor("slow", name) / f).read_bytes() for f in FILES[:4]]
                return got

            try:
                assert all(prompt(read_all))
                rows = rows_of(at / "stats.tsv")
            finally:
                slow.let_go()
            for name in real.tensors:
                values = real.values(name).astype(np.float64)
                cells = rows[name].split("\t")
                assert int(cells[1]) == values.size
                assert float(cells[8]) == float(f"{np.abs(values).max():.9g}"), name


# ---------------------------------------------------------------- layers and modules


def test_layers_and_modules_say_what_all_their_values_say():
    src = folder("src")
    rng = np.random.default_rng(5)
    odd = {n: checkpoints.normal("F32", (3, 5), rng) for n in ("a/b.w", 'q"u\n.w', "100%.x.y", "z")}
    made = {"llama": checkpoints.llama(src / "llama", layers=2),
            "special": special(src / "special"),
            "fp8": checkpoints.fp8_block(src / "fp8", shards=2),
            "moe": checkpoints.mixture(src / "moe", experts=2),
            "odd": checkpoints.write_checkpoint(src / "odd", odd)}
    index(*src.iterdir())
    layers = {"llama": "model.layers", "special": "h", "fp8": "model.layers",
              "moe": "model.layers"}
    groups = {model: Groups(one) for model, one in made.items()}
    with Mount(*src.iterdir()) as m:
        for model, stem in layers.items():
            at = m.model(model) / "layers"
            for number in os.listdir(at):
                names = [n for n in made[model].tensors if n.startswith(f"{stem}.{int(number)}.")]
                assert set(os.listdir(at / number)) == set(names) | {"stats.json"}
                groups[model].check(at / number / "stats.json", ("layer", int(number)), names)
                assert (at / str(int(number)) / "stats.json").stat().st_size > 0
        for model, one in made.items():
            modules = module_names(m.model(model) / "tree")
            assert len(modules) > (6 if model != "odd" else 3), modules
            for path, prefix in modules.items():
                assert os.listdir(path).count("stats.json") == 1, path
                names = [n for n in one.tensors if n.startswith(prefix)]
                groups[model].check(path / "stats.json", ("module", prefix[:-1]), names)
        assert used(m) == 0, "something was computed"
    text = tmorph("cat", f"{made['llama'].path}::layers/1/stats.json", check=0).stdout
    assert json.loads(text)["known"] == 9


def test_what_is_not_known_of_a_group_is_null():
    made = checkpoints.llama(folder("src") / "m", layers=2)
    first, second = sorted(set(made.files.values()))
    index(made.path)
    (made.path / f"{second}.tmidx").unlink()
    with Mount(f"m={made.path}") as m:
        groups = {m.model("m") / f"layers/{i}": f"model.layers.{i}." for i in range(2)}
        groups |= module_names(m.model("m") / "tree")
        some = 0
        for path, prefix in groups.items():
            names = [n for n in made.tensors if n.startswith(prefix)]
            known = [n for n in names if made.files[n] == first]
            told = read_group(path / "stats.json")
            assert (told["tensors"], told["counted"], told["known"]) == (
                len(names), len(names), len(known)), (path, told)
            assert told["n"] == sum(made.tensors[n].elems for n in names), "headers tell it"
            nulls = {key for key in GROUP if told[key] is None}
            assert nulls == (set() if len(known) == len(names) else set(GROUP) - {"n"}), path
            some += 0 < len(known) < len(names)
        assert some, "no group of which something is known"


def test_a_tensor_of_that_name_wins_over_the_statistics_of_its_module():
    rng = np.random.default_rng(6)
    names = ["x.stats", "x.stats.json", "x.y.w", "stats", "stats.json"]
    made = checkpoints.write_checkpoint(folder("src") / "m", {
        n: checkpoints.normal("F32", (2, 3), rng) for n in names})
    index(made.path)
    with Mount(f"m={made.path}") as m:
        tree = m.model("m") / "tree"
        for path, name in ((tree / "x", "x.stats.json"), (tree, "stats.json")):
            assert os.listdir(path).count("stats.json") == 1, path
            assert (path / "stats.json/name").read_text() == name + "\n"
            assert os.path.samefile(path / "stats.json", m.tensor("m", name))
        Groups(made).check(tree / "x/y/stats.json", ("module", "x.y"), ["x.y.w"])


# ---------------------------------------------------------------- state, done, total


def check_state(at, state, done, total):
    """What index/ at AT shows; AT is a model in a mount."""
    assert sorted(os.listdir(at / "index")) == ["done", "state", "total"]
    for key, want in (("state", state), ("done", done), ("total", total)):
        path = at / "index" / key
        assert path.read_bytes() == str(want).encode().rjust(24) + b"\n", (key, path.read_text())
        assert path.stat().st_size == 25


def test_state_done_and_total():
    made = small(folder("src") / "m", shards=2)
    share = {f: sum(len(made.tensors[n].raw) for n in made.tensors if made.files[n] == f)
             for f in made.files.values()}
    first, second = sorted(share)
    total = sum(share.values())
    kept = fresh(made.path)

    def check(state, done):
        with Mount(f"m={made.path}") as m:
            check_state(m.model("m"), state, done, total)
        for key, want in (("state", state), ("done", done), ("total", total)):
            got = tmorph("cat", f"{made.path}::index/{key}", check=0).stdout
            assert got == f"{want:>24}\n"

    def put(shard, content):
        (made.path / f"{shard}.tmidx").write_bytes(content)

    check("none", 0)
    put(first, kept[f"{first}.tmidx"])
    check("partial", share[first])
    put(second, kept[f"{second}.tmidx"])
    check("fresh", total)
    put(second, kept[f"{first}.tmidx"])
    check("stale", share[first])
    put(first, b"")
    check("stale", 0)


def test_a_checkpoint_without_elements_is_not_indexed_before_it_is():
    made = checkpoints.write_checkpoint(folder("src") / "m", {
        "none": checkpoints.Tensor("F32", (0, 3), b"")})
    states = []
    for _ in range(2):
        states.append(tmorph("cat", f"{made.path}::index/state", check=0).stdout.split()[0])
        index(made.path)
    assert states == ["none", "fresh"]


# ---------------------------------------------------------------- indexes that do not fit


class Spoilt:
    """A mount of copies of one checkpoint, each with another file where its index should be."""

    def __init__(self, choose):
        src = folder("src")
        self.made = special(src / "good", KINDS[1:2], shards=1)
        self.good = fresh(self.made.path)["model.safetensors.tmidx"]
        other = fresh(small(folder("other") / "o").path)["model.safetensors.tmidx"]
        self.index = {}  # what is wrong -> the file
        for i, (what, content) in enumerate(choose(self.good, other).items()):
            copy = shutil.copytree(self.made.path, src / f"m{i}")
            self.index[what] = copy / "model.safetensors.tmidx"
            self.index[what].write_bytes(content)
        self.model = {what: path.parent.name for what, path in self.index.items()}
        self.mount = Mount(*src.iterdir())

    def read(self, m, what):
        """Everything that could come from an index."""
        at = m.model(self.model[what])
        for path in (at / "stats.tsv", at / "layers.tsv", at / "layers/0/stats.json",
                     at / "tree/stats.json", at / "index/state"):
            path.read_bytes()
        for name in self.made.tensors:
            tensor = m.tensor(at.name, name)
            for file in {"stats.json", "hist.tsv"} & set(os.listdir(tensor)):
                (tensor / file).read_bytes()


def check_never_wrong(m, model, truth, groups):
    """Whatever MODEL says is what TRUTH says, a model that was computed, or that nobody knows."""
    at, other = m.model(model), m.model(truth)
    for name in ("stats.tsv", "layers.tsv"):
        got, want = rows_of(at / name), rows_of(other / name)
        assert set(got) == set(want)
        for key, line in got.items():
            cells = [c.strip() for c in line.split("\t")]
            assert line == want[key] or set(cells[1:] if name[0] == "s" else cells[4:]) == {"-"}, (
                model, name, line, want[key])
    for path, prefix in module_names(at / "tree").items():
        group = read_group(path / "stats.json")
        if group["known"] == group["counted"]:
            names = [n for n in groups.made.tensors if n.startswith(prefix)]
            groups.check(path / "stats.json", ("module", prefix[:-1]), names)
        else:
            assert all(group[key] is None for key in GROUP[1:]), (model, prefix, group)
    for name in groups.made.tensors:
        got, want = ((m.tensor(x, name) / "stats.json").read_bytes() for x in (model, truth))
        assert got == want, (model, name)


def test_an_index_that_does_not_fit_is_never_believed_and_made_anew():
    spoilt = Spoilt(anywhere)
    groups = Groups(spoilt.made)
    with spoilt.mount as m:
        for name in spoilt.made.tensors:  # so that the tables of this one are complete
            (m.tensor("good", name) / "stats.json").read_bytes()
        for model in spoilt.model.values():
            check_never_wrong(m, model, "good", groups)
        paths = [path.parent for path in spoilt.index.values()]
        assert "indexed already" not in index(*paths).stdout
        for what, path in spoilt.index.items():
            assert path.read_bytes() == spoilt.good, what
        for what, model in spoilt.model.items():
            wait_until(lambda p=m.model(model): scalar(p / "index/state") == "fresh", NOTICE, what)
            assert told(m, model) == told(m, "good"), what
            groups.check(m.model(model) / "tree/h/8/stats.json", ("module", "h.8"),
                         ["h.8.codes", "h.8.mlp.weight"])


def test_the_log_names_an_index_that_does_not_fit_and_the_state_is_stale():
    spoilt = Spoilt(in_heads)
    with spoilt.mount as m:
        for what in spoilt.index:
            spoilt.read(m, what)
        log = (m.path / ".tmorph/log").read_text()
        assert not [what for what, path in spoilt.index.items() if str(path) not in log], log
        states = {what: scalar(m.model(spoilt.model[what]) / "index/state")
                  for what in spoilt.index}
        assert set(states.values()) == {"stale"}, states


def test_the_log_names_an_index_of_which_a_section_is_damaged():
    spoilt = Spoilt(in_sections)
    with spoilt.mount as m:
        for what in spoilt.index:
            spoilt.read(m, what)
        log = (m.path / ".tmorph/log").read_text()
        missing = [what for what, path in spoilt.index.items() if str(path) not in log]
        assert not missing, f"not in the log: {missing}"


def test_the_state_is_stale_where_a_section_is_damaged():
    spoilt = Spoilt(in_sections)
    with spoilt.mount as m:
        for what in spoilt.index:
            spoilt.read(m, what)
        time.sleep(1.1)  # it is looked after again
        states = {what: scalar(m.model(spoilt.model[what]) / "index/state")
                  for what in spoilt.index}
        assert set(states.values()) == {"stale"}, states


def test_an_index_of_a_later_minor_version_is_read():
    made = small(folder("src") / "m")
    index(made.path)
    path = made.path / "model.safetensors.tmidx"
    want = tmorph("cat", f"{made.path}::stats.tsv", check=0).stdout
    path.write_bytes(with_header(path.read_bytes(), 10, "<H", 7))
    assert tmorph("cat", f"{made.path}::index/state", check=0).stdout.split() == ["fresh"]
    assert tmorph("cat", f"{made.path}::stats.tsv", check=0).stdout == want


def test_numbers_of_scales_that_changed_are_not_shown():
    src = folder("src")
    old = checkpoints.fp8_block(src / "m", shards=2, seed=1)
    new = checkpoints.fp8_block(src / "n", shards=2, seed=2)
    index(old.path)
    weight = next(iter(old.expected))
    scales = old.files[weight + "_scale_inv"]
    assert old.files[weight] != scales
    shutil.copy(new.path / scales, old.path / scales)
    (old.path / f"{scales}.tmidx").unlink()
    with Mount(f"m={old.path}") as m:
        assert told(m)[weight] is None
        assert read_group(m.model("m") / "layers/0/stats.json")["mean"] is None
        state = scalar(m.model("m") / "index/state")
    index(old.path)
    assert made_in(old.path) == fresh(old.path)
    assert state == "stale", f"{state}, though nothing that is known of the weights fits"


def test_an_index_of_codes_is_none_of_their_values():
    made = checkpoints.fp8_block(folder("src") / "m")
    index(made.path / "model.safetensors")  # alone it has no config that tells of scales
    with Mount(f"m={made.path}") as m:
        known = {n for n, line in told(m).items() if line}
        assert known == set(made.tensors) - set(made.expected)
        state = scalar(m.model("m") / "index/state")
    index(made.path)
    assert made_in(made.path) == fresh(made.path)
    with Mount(f"m={made.path}") as m:
        assert None not in told(m).values()
    assert state in ("partial", "stale"), f"{state}, though some tensors are known"


# ---------------------------------------------------------------- changes while it is mounted


def becomes(m, state):
    wait_until(lambda: scalar(m.model("m") / "index/state") == state, NOTICE, f"state {state}")


def test_an_index_that_is_made_meanwhile_is_used():
    made = small(folder("src") / "m", shards=2)
    with Mount(f"m={made.path}") as m:
        assert set(told(m).values()) == {None}
        assert read_group(m.model("m") / "layers/0/stats.json")["mean"] is None
        index(made.path)
        becomes(m, "fresh")
        assert None not in told(m).values()
        names = [n for n in made.tensors if ".layers.0." in n]
        Groups(made).check(m.model("m") / "layers/0/stats.json", ("layer", 0), names)
        assert "-" not in table(m.model("m") / "layers.tsv")[1][0]["absmax"]
        assert used(m) == 0


def test_weights_that_are_replaced_make_their_index_stale():
    src = folder("src")
    made, new = small(src / "m", seed=1), small(src / "n", seed=2)
    index(made.path)
    with Mount(f"m={made.path}", f"n={new.path}") as m:
        old = told(m)
        assert None not in old.values()
        replaced_file(made, new)
        wait_until(lambda: tmtest.error_name(told, m) == "" and told(m) != old, what="the change")
        assert set(told(m).values()) == {None}
        becomes(m, "stale")
        assert read_group(m.model("m") / "tree/stats.json")["mean"] is None
        assert f"{made.path}/model.safetensors.tmidx" in m.words("m")
        for name in made.tensors:
            got, want = (m.tensor(x, name) / "stats.json" for x in "mn")
            assert got.read_bytes() == want.read_bytes()
        index(made.path)
        becomes(m, "fresh")
        assert told(m) == told(m, "n") and None not in told(m).values()


def test_weights_that_were_rewritten_in_place_make_their_index_stale():
    src = folder("src")
    made, new = small(src / "m", seed=1), small(src / "n", seed=2)
    index(made.path)
    old = (made.path / "model.safetensors.tmidx").read_bytes()
    with open(made.path / "model.safetensors", "r+b") as f:
        f.write((new.path / "model.safetensors").read_bytes())
    with Mount(f"m={made.path}") as m:
        assert set(told(m).values()) == {None}
        assert scalar(m.model("m") / "index/state") == "stale"
        assert f"{made.path}/model.safetensors.tmidx" in m.words("m")
    index(made.path)
    assert made_in(made.path) == fresh(new.path) != {"model.safetensors.tmidx": old}


# ---------------------------------------------------------------- full disks, two at once


def test_a_full_disk_is_told_of_and_the_same_command_goes_on():
    made = many(folder("src") / "m")
    whole = len(index_of_many()["model.safetensors.tmidx"])
    # the log does not fit; it fits, but the index beside it does not
    for size, word in ((whole // 2, ".tmidx.part"), (whole * 3 // 2, ".tmidx.tmp")):
        with small_disk(size) as disk:
            done = index("--out", disk, made.path, check=2)
            assert f"{disk}/model.safetensors{word}" in done.stderr, done.stderr
            assert "No space left on device" in done.stderr and done.stdout == ""
            assert os.listdir(disk) == ["model.safetensors.tmidx.part"]
            index("--out", disk, made.path, check=2)  # nor does it help to try again
            mounted(["-o", "remount,size=4m"], disk)
            weights = (made.path / "model.safetensors").stat().st_size
            cost = read_by(index, "--out", disk, made.path)
            assert cost < weights * 0.7 + SLACK, f"{cost} bytes read once more"
            assert made_in(disk) == index_of_many()


def test_of_two_runs_on_one_shard_one_gives_way():
    with SlowFolder() as slow:
        many(slow.real / "m")
        out = folder("out")
        with caught(slow, out) as (first, part):
            kept = part.read_bytes()
            # by another way, as this one hangs
            done = index("--out", out, slow.real / "m", check=2)
            assert f"{part}: another process" in done.stderr, done.stderr
            assert part.read_bytes() == kept
            slow.let_go()
            ended(first, 0, "")
        assert made_in(out) == index_of_many()


def test_runs_that_race_never_leave_a_broken_index():
    made = small(folder("src") / "m", shards=4)
    want = fresh(made.path)
    for _ in range(4):
        out = folder("out")
        with contextlib.ExitStack() as stack:
            runs = [stack.enter_context(indexing("--out", out, made.path)) for _ in range(3)]
            for run in runs:
                _, errors = run.communicate(timeout=30)
                assert (run.returncode, bool(errors)) in ((0, False), (2, True)), errors
                assert "another process" in errors or not errors, errors
        index("--out", out, made.path)
        assert made_in(out) == want


# ---------------------------------------------------------------- errors


def test_what_is_asked_wrongly_is_refused_with_words():
    made = small(folder("src") / "m")
    for args, words in ([], "a SOURCE is needed"), (["--jobs", "2"], "a SOURCE is needed"):
        assert words in index(*args, check=2).stderr
    for part in ("0/3", "4/3", "3", "x/y", "1/0", "1/", "/3", "1/3/3", "-1/3", "1/3x", " 1/3", ""):
        words = index("--part", part, made.path, check=2).stderr
        assert f"--part {part}: I/N is needed" in words, words
    for jobs in ("0", "-1", "x", "2x", "", "1.5", "1000000"):
        words = index("--jobs", jobs, made.path, check=2).stderr
        assert f"--jobs {jobs}: a number" in words, words
    assert "unrecognized option" in index("--force", made.path, check=2).stderr
    assert not made_in(made.path), "nothing was indexed"


def test_a_checkpoint_of_a_collection_after_one_that_fails_is_indexed():
    run = folder("run")
    made = [small(run / name, seed=i) for i, name in enumerate("abc")]
    (made[0].path / "model.safetensors.tmidx").mkdir()
    assert "a/model.safetensors.tmidx" in index(run, check=2).stderr
    for other in made[1:]:
        assert made_in(other.path) == fresh(other.path)


def test_a_source_after_one_that_fails_is_indexed():
    src = folder("src")
    (src / "empty").mkdir()
    (src / "text").write_text("no weights\n")
    bad, part = src / "bad", small(src / "part", shards=2)
    bad.mkdir()
    (bad / "model.safetensors").write_bytes(b"garbage")
    lost = part.path / "model-00002-of-00002.safetensors"
    os.truncate(lost, lost.stat().st_size - 100)
    good = small(src / "good")
    done = index(src / "absent", src / "empty", src / "text", bad, part.path, good.path, check=2)
    for what in ("absent", "empty", "text", "bad", "part"):
        lines = [line for line in done.stderr.splitlines() if what in line]
        assert lines and all(line.startswith("tmorph: ") for line in lines), (what, done.stderr)
    assert "good: 12 tensors in 1 file" in done.stdout, done.stdout
    want = fresh(good.path)
    assert made_in(good.path) == want
    assert "model-00001-of-00002.safetensors.tmidx" in made_in(part.path)
    with Mount(f"p={part.path}") as m:
        assert scalar(m.model("p") / "index/state") in ("partial", "fresh")


# ---------------------------------------------------------------- odd checkpoints


def test_tensors_that_are_not_counted_are_no_trouble():
    src = folder("src")
    packed = checkpoints.quantised_schemes()["gptq"]
    some = dict(checkpoints.every_dtype(src / "all").tensors) | packed["tensors"]
    some["empty"] = checkpoints.Tensor("BF16", (0,), b"")
    made = checkpoints.write_checkpoint(src / "all", some, shards=3, config=packed["config"])
    done = index("--jobs", 2, made.path)
    assert done.stderr == "" and "indexed in" in done.stdout
    found = [name for content in made_in(made.path).values() for name in names_in(content)]
    with Mount(f"m={made.path}") as m:
        counted = [n for n in some if "hist.tsv" in os.listdir(m.tensor("m", n))]
        assert sorted(found) == sorted(counted)
        assert not [n for n in found if some[n].dtype in ref.NO_VALUES or n in packed["refused"]]
        assert {"empty", "f32.scalar", "i64.0x3"} <= set(found)
        total = sum(len(some[n].raw) for n in counted)
        check_state(m.model("m"), "fresh", total, total)
        lines = told(m)
        assert {n for n, line in lines.items() if line} == set(counted)
    assert "indexed already" in index(made.path).stdout


def test_checkpoints_with_next_to_nothing_in_them():
    src = folder("src")
    for name, tensors in {
            "none": {}, "empty": {"t": checkpoints.Tensor("F32", (0,), b"")},
            "one": {"t": checkpoints.Tensor("U8", (), b"7")},
            "codes": {"t": checkpoints.random_bits("F6_E3M2", (4,), np.random.default_rng(1))},
            "nameless": {"": checkpoints.Tensor("U8", (2,), b"ab")}}.items():
        checkpoints.write_checkpoint(src / name, tensors)
        done = index(src / name)
        assert done.stderr == "" and len(made_in(src / name)) == (name not in ("none", "codes"))
        assert tmorph("cat", f"{src / name}::index/state", check=0).stdout.split() == ["fresh"]
        assert index(src / name).returncode == 0


def test_names_of_any_kind_are_known_by_them():
    src = folder("src")
    for made in (checkpoints.odd_names(src / "odd"), checkpoints.long_names(src / "long")):
        index(made.path)
        (content,) = made_in(made.path).values()
        assert names_in(content) == sorted(made.tensors, key=str.encode)
        with Mount(made.path) as m:
            assert len(told(m, made.path.name)) == len(made.tensors)
            assert None not in told(m, made.path.name).values()


if __name__ == "__main__":
    tmtest.main(globals())
