"""What a source may be: damaged in every way, unusual, a collection, a cache of the Hub."""
import json
import os
import pathlib
import shutil
import tempfile

import tmtest

tmtest.need_modules("numpy", "ml_dtypes")

import numpy as np

import checkpoints
from expect import load, same_values, scalar
from tmtest import Mount, error_name, folder, read_error


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


def test_shards_beyond_the_descriptor_limit_are_read():
    limit, shards = 160, 250
    tensors = {f"t{i:03}": checkpoints.normal("BF16", (8, 8), np.random.default_rng(i))
               for i in range(shards)}
    made = checkpoints.write_checkpoint(folder("src") / "m", tensors, shards=shards)
    with Mount(f"m={made.path}", nofile=limit) as m:
        for _ in range(2):
            for name, tensor in tensors.items():
                assert (m.tensor("m", name) / "raw").read_bytes() == tensor.raw
            tmtest.same_tree(made.path, m.load / "m")
            assert len(os.listdir(f"/proc/{m.pid}/fd")) <= limit
        assert m.state("m") == "ready"


def test_a_source_may_lie_on_several_filesystems():
    made = checkpoints.llama(folder("src") / "m", shards=3)
    shards = sorted(made.path.glob("*.safetensors"))
    on_memory = pathlib.Path(tempfile.mkdtemp(prefix="tmtest-", dir="/dev/shm"))
    try:
        shutil.move(shards[0], on_memory)
        shards[0].symlink_to(on_memory / shards[0].name)
        other = folder("other")
        shutil.move(shards[1], other)
        with Mount(f"other={other}") as m:  # a filesystem that the kernel passes nothing through to
            shards[1].symlink_to(m.load / "other" / shards[1].name)
            for way in ("auto", "mapped", "pread", "symlink"):
                with Mount(f"m={made.path}", opts=f"raw={way}") as over:
                    tmtest.same_tree(made.path, over.load / "m")
                    for name, tensor in made.tensors.items():
                        assert (over.tensor("m", name) / "raw").read_bytes() == tensor.raw, way
    finally:
        shutil.rmtree(on_memory)


if __name__ == "__main__":
    tmtest.main(globals())
