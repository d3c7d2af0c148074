"""Levels of detail that were made ahead (tmorph index --pyramids): the same bytes, and no weights
read for them."""
import os
import shutil
import struct
import subprocess

import tmtest

tmtest.need_fuse()
tmtest.need_modules("numpy", "ml_dtypes")

import numpy as np

import checkpoints
import lod_reference as ref
from test_lod import lanes_are_idle
from test_stats_work import Source
from tmtest import Mount, error_name, folder, tmorph, wait_until

os.environ["XDG_CACHE_HOME"] = str(folder("cache"))
FINEST = 4  # the finest level that may be kept


def index(*args, check=0):
    return tmorph("index", *args, check=check)


def shapes():
    """Tensors that have a pyramid, with cut edges, several planes, blocks that split rows."""
    rng = np.random.default_rng(3)
    made = {}
    for dtype in ("BF16", "F16", "F32", "F8_E4M3", "I8", "BOOL"):
        made[f"{dtype}.square"] = checkpoints.normal(dtype, (1024, 512), rng) \
            if dtype not in ("I8", "BOOL") else checkpoints.random_bits(dtype, (1024, 512), rng)
    made["bf16.cut"] = checkpoints.normal("BF16", (1031, 1999), rng)
    made["bf16.planes"] = checkpoints.normal("BF16", (3, 700, 530), rng)
    made["f32.wide"] = checkpoints.normal("F32", (300, 5001), rng)
    made["bf16.split"] = checkpoints.normal("BF16", (520, 9000), rng)
    made["bf16.bits"] = checkpoints.random_bits("BF16", (600, 600), rng)  # NaN and infinities
    made["bf16.small"] = checkpoints.normal("BF16", (40, 40), rng)
    made["bf16.line"] = checkpoints.normal("BF16", (100000,), rng)
    made["empty"] = checkpoints.normal("BF16", (0, 7), rng)
    return made


def files_of(shape):
    """The names in lod/ of a tensor, those of a tile too."""
    names = []
    for level in range(FINEST, ref.level_count(shape) + 1):
        names += [f"{level}.{reducer}.npy" for reducer in ref.REDUCERS]
        names.append(f"{level}/{'0,' if len(shape) > 2 else ''}0,0.npy")
        names.append(f"{level}.p1.png" if len(shape) > 2 else f"{level}.png")
    return names


def read_levels(m, made):
    """What each file of lod/ says, by its name: its bytes, or how it fails."""
    got = {}
    for name, tensor in made.tensors.items():
        for file in files_of(tensor.shape):
            path = m.tensor("m", name) / "lod" / file
            try:
                got[f"{name}/{file}"] = path.read_bytes()
            except OSError as error:
                got[f"{name}/{file}"] = error.strerror
    return got


def test_kept_levels_are_those_that_are_computed():
    made = checkpoints.write_checkpoint(folder("src") / "m", shapes())
    with Mount(f"m={made.path}") as m:
        computed = read_levels(m, made)
    index("--pyramids", made.path)
    with Mount(f"m={made.path}") as m:
        kept = read_levels(m, made)
    assert len(kept) > 300
    for name, data in computed.items():
        assert kept[name] == data, name


def test_any_part_of_a_kept_level_can_be_read():
    made = checkpoints.write_checkpoint(
        folder("src") / "m",
        {"w": checkpoints.normal("BF16", (3000, 3000), np.random.default_rng(1))})
    index("--pyramids", made.path)
    rng = np.random.default_rng(2)
    with Mount(f"m={made.path}") as m:
        for file in ("4.mean.npy", "5.max.npy", "4.min.npy", "6.min.npy"):
            path = m.tensor("m", "w") / "lod" / file
            whole = path.read_bytes()
            for _ in range(20):
                off, n = int(rng.integers(len(whole))), int(rng.integers(1, 5000))
                fd = os.open(path, os.O_RDONLY)
                try:
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                    assert os.pread(fd, n, off) == whole[off:off + n], (file, off, n)
                finally:
                    os.close(fd)


def test_no_weights_are_read_for_kept_levels():
    source = Source()
    index("--pyramids", source.made.path)
    with Mount(f"m={source.made.path}") as m:
        (m.model("m") / "index/state").read_text()  # looks at the fingerprint
        at = m.tensor("m", "model.layers.0.mlp.up_proj.weight")
        source.drop()
        for name in ("4.mean.npy", "4.min.npy", "6.max.npy", "5.nonfinite.npy", "4/0,0.npy"):
            (at / "lod" / name).read_bytes()
        wait_until(lambda: lanes_are_idle(m), 20, "idle lanes")  # nor for what may be next
        assert source.resident() == 0, "weights were read"
        (at / "lod/2.mean.npy").read_bytes()  # finer than what is kept
        assert source.resident() > 0, "this test would see what is read"


def test_the_files_are_the_same_however_they_are_made():
    made = checkpoints.write_checkpoint(folder("src") / "m", shapes(), shards=2)
    index("--pyramids", made.path)
    first = {p.name: p.read_bytes() for p in made.path.glob("*.tm*")}
    assert sorted(name.split(".")[-1] for name in first) == ["tmidx", "tmidx", "tmtiles", "tmtiles"]
    for jobs in (1, 7):
        out = folder(f"out{jobs}")
        index("--pyramids", "--jobs", str(jobs), "--out", out, made.path)
        for name, data in first.items():
            assert (out / name).read_bytes() == data, (name, jobs)
    # Pyramids may come later than statistics.
    out = folder("later")
    index("--out", out, made.path)
    assert not list(out.glob("*.tmtiles"))
    index("--pyramids", "--out", out, made.path)
    for name, data in first.items():
        assert (out / name).read_bytes() == data, name
    assert index("--pyramids", "--out", out, made.path).stdout.endswith("indexed already\n")


def test_pyramids_take_at_most_a_fiftieth():
    made = checkpoints.write_checkpoint(folder("src") / "m", shapes())
    index("--pyramids", made.path)
    weights = sum(p.stat().st_size for p in made.path.glob("*.safetensors"))
    tiles = sum(p.stat().st_size for p in made.path.glob("*.tmtiles"))
    records = 128 + 3 * 48 + 40 * len(made.tensors)
    assert 0 < tiles - records <= weights * (1 / 50 + 1 / 8000), (tiles, weights)


def test_a_run_that_was_killed_is_taken_up():
    made = checkpoints.write_checkpoint(folder("src") / "m", shapes())
    out, whole = folder("out"), folder("whole")
    index("--pyramids", "--out", whole, made.path)
    for after in (0.005, 0.02, 0.05, 0.1):
        command = [tmtest.TMORPH, "index", "--pyramids", "--jobs", "1", "--out", out, made.path]
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            run.wait(after)
        except subprocess.TimeoutExpired:
            run.kill()
            run.wait()
    index("--pyramids", "--out", out, made.path)
    for path in whole.iterdir():
        assert (out / path.name).read_bytes() == path.read_bytes(), path.name
    assert {p.name for p in out.iterdir()} == {p.name for p in whole.iterdir()}


def test_statistics_that_are_done_do_not_stand_for_pyramids():
    made = checkpoints.write_checkpoint(folder("src") / "m", shapes())
    out, whole = folder("out"), folder("whole")
    index("--pyramids", "--out", whole, made.path)
    final = out / "model.safetensors.tmidx"
    final.mkdir()  # so that a run does all but its last step
    assert final.name in index("--out", out, made.path, check=2).stderr
    final.rmdir()
    assert [p.name for p in out.iterdir()] == [final.name + ".part"]
    index("--pyramids", "--out", out, made.path)
    for path in whole.iterdir():
        assert (out / path.name).read_bytes() == path.read_bytes(), path.name


def test_what_is_damaged_is_refused_or_computed_and_made_anew():
    rng = np.random.default_rng(5)
    made = checkpoints.write_checkpoint(
        folder("src") / "m", {"w": checkpoints.normal("BF16", (1024, 1024), rng)})
    with Mount(f"m={made.path}") as m:
        want = (m.tensor("m", "w") / "lod/4.mean.npy").read_bytes()
    index("--pyramids", made.path)
    tiles = next(made.path.glob("*.tmtiles"))
    good = tiles.read_bytes()
    for at in [0, 9, 20, 60, 127, 130, 200, 272, 300, *range(400, len(good), len(good) // 30)]:
        tiles.write_bytes(good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1:])
        with Mount(f"m={made.path}") as m:
            path = m.tensor("m", "w") / "lod/4.mean.npy"
            how = error_name(path.read_bytes)
            assert how in ("", "EBADMSG"), (at, how)
            if not how:
                assert path.read_bytes() == want, at
            else:
                assert tiles.name in (m.path / ".tmorph/log").read_text()
                assert path.read_bytes() == want, f"{at}: whoever comes next has it computed"
        index("--pyramids", made.path)
        assert tiles.read_bytes() == good, at
    for size in (0, 100, 300, len(good) // 2, len(good) - 1):
        tiles.write_bytes(good[:size])
        with Mount(f"m={made.path}") as m:
            assert (m.tensor("m", "w") / "lod/4.mean.npy").read_bytes() == want, size
    index("--pyramids", made.path)
    assert tiles.read_bytes() == good


def sections_of(path):
    """The sections of an index file by their kind, as docs/index-format.md has them."""
    data = path.read_bytes()
    assert data[:8] == b"\x89TMTIL\r\n" and len(data) == struct.unpack_from("<Q", data, 24)[0]
    found = {}
    for i in range(struct.unpack_from("<I", data, 32)[0]):
        kind, _, _, off, _, used = struct.unpack_from("<IHHQQQ", data, 128 + 48 * i)
        found[kind] = data[off:off + used]
    return found


def arrays_of(cells, shape, finest, narrow):
    """What a pyramid has: {(level, "mean" or "min" or "max"): float32}."""
    at, found = 0, {}
    for level in range(ref.level_count(shape), finest - 1, -1):
        dims = ref.level_shape(shape, level)
        count = int(np.prod(dims))
        kinds = ["mean"] + (["min", "max"] if level == finest or level >= 8 else [])
        for kind in kinds:
            half = narrow and kind != "mean"
            raw = np.frombuffer(cells, np.uint16 if half else np.uint32, count, at)
            bits = raw.astype(np.uint32) << (16 if half else 0)
            found[level, kind] = bits.view(np.float32).reshape(dims)
            at += -(-raw.nbytes // 8) * 8
    return found, at


def test_the_file_is_what_its_specification_says():
    made = checkpoints.write_checkpoint(folder("src") / "m", shapes())
    index("--pyramids", made.path)
    sections = sections_of(next(made.path.glob("*.tmtiles")))
    names = sorted(made.tensors, key=lambda n: n.encode())
    records = list(struct.iter_unpack("<QIIQQQ", sections[1]))
    assert len(records) == len(names)
    end = kept = 0
    with Mount(f"m={made.path}") as m:
        for name, (off, finest, _, _, _, _) in zip(names, records):
            tensor = made.tensors[name]
            assert off == end, name
            if finest == 0:
                continue
            narrow = tensor.dtype in ("BF16", "F8_E4M3", "I8", "BOOL")
            found, size = arrays_of(sections[2][off:], tensor.shape, finest, narrow)
            assert size <= len(tensor.raw) // 50, name
            for (level, kind), values in found.items():
                shown = np.load(m.tensor("m", name) / f"lod/{level}.{kind}.npy")
                assert np.array_equal(shown.reshape(values.shape), values, equal_nan=True), \
                    (name, level, kind)
            end += size
            kept += 1
    assert end == len(sections[2]) and kept > 6
    assert len(sections[3]) == 8 * -(-end // 65536)


def test_pyramids_of_values_whose_scales_changed_are_made_anew():
    src = folder("src")
    old = checkpoints.fp8_block(src / "m", shards=2, seed=1)
    new = checkpoints.fp8_block(src / "n", shards=2, seed=2)
    scales = old.files[next(iter(old.expected)) + "_scale_inv"]
    index("--pyramids", old.path)
    weights = old.path / (old.files[next(iter(old.expected))] + ".tmtiles")
    assert sections_of(weights)[2], "this test is about tensors that have a pyramid"
    before = weights.read_bytes()
    shutil.copy(new.path / scales, old.path / scales)
    index(old.path)  # statistics alone
    index("--pyramids", old.path)
    assert weights.read_bytes() != before
    out = folder("out")
    index("--pyramids", "--out", out, old.path)
    for path in out.iterdir():
        assert (old.path / path.name).read_bytes() == path.read_bytes(), path.name


def test_pyramids_of_other_weights_are_not_used():
    rng = np.random.default_rng(6)
    made = checkpoints.write_checkpoint(
        folder("src") / "a", {"w": checkpoints.normal("BF16", (1024, 1024), rng)})
    other = checkpoints.write_checkpoint(
        folder("src") / "b", {"w": checkpoints.normal("BF16", (1024, 1024), rng)})
    index("--pyramids", made.path)
    for path in made.path.glob("*.tm*"):
        shutil.copy(path, other.path / path.name)
    with Mount(f"m={other.path}") as m:
        got = np.load(m.tensor("m", "w") / "lod/4.mean.npy")
        want = other.values("w").astype(np.float64).reshape(64, 16, 64, 16).mean((1, 3))
        assert np.allclose(got, want, rtol=1e-5, atol=1e-7)


if __name__ == "__main__":
    tmtest.main(globals())
