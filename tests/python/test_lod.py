"""Levels of detail on a real mount: every cell, tile and pixel, and what reading them costs."""
import contextlib
import functools
import itertools
import json
import os
import random
import struct
import threading
import time

import tmtest

tmtest.need_fuse()
tmtest.need_modules("numpy", "ml_dtypes")

import numpy as np

import checkpoints
import lod_reference as ref
from expect import load, table
from test_trouble import CAT, NAME, SlowFolder, reader, small
from tmtest import Mount, error_name, folder, process_io, read_error, wait_until

NO_LEVELS = ("F6_E2M3", "F6_E3M2", "C64")
LISTED = 4  # levels below are found by name
MIB = 1 << 20


# ---------------------------------------------------------------- reading what is there


def read_exact(path):
    """The content of a file whose size is the same before, in and after it."""
    before = path.stat().st_size
    data = path.read_bytes()
    assert len(data) == before == path.stat().st_size, f"{path}: {len(data)} bytes of {before}"
    return data


def npy(path):
    read_exact(path)
    got = load(path)
    assert got.flags.c_contiguous and got.dtype == np.float32, path
    return got


def read_level(at, shape, level):
    """The files of a level, each [planes, rows, cols]."""
    got = {}
    for reducer in ref.REDUCERS:
        path = at / f"lod/{level}.{reducer}.npy"
        array = npy(path)
        assert array.shape == ref.npy_shape(shape, level), f"{path}: {array.shape}"
        got[reducer] = array.reshape(ref.level_shape(shape, level))
    return got


def levels_of(shape):
    return range(1, ref.level_count(shape) + 1)


def check_levels(at, values, what):
    """Every level of a tensor, from the coarsest to the finest."""
    cells = ref.Cells(values)
    for level in reversed(levels_of(values.shape)):
        got = read_level(at, values.shape, level)
        ref.require_cells(got, cells.level(level), f"{what} level {level}")


def normal(dtype, shape, seed=1):
    return checkpoints.normal(dtype, shape, np.random.default_rng(seed))


@functools.cache
def of_shapes():
    """Tensors of every kind of shape, by NAME of it."""
    shapes = {"BF16": [(2,), (3,), (3_000_001,), (1, 1), (1, 5), (300, 1), (257, 255), (1000, 37),
                       (70000, 3),        # several blocks of many bands
                       (300, 20011),      # rows longer than a block
                       (64, 3, 5, 5), (40, 33, 3, 3),
                       (5, 40, 33), (2, 3, 64, 32), (3, 300, 9001),  # planes
                       (4, 16, 48), (1, 40, 40)],
              "F32": [(), (1,), (7,), (513, 769), (300, 9001), (2, 32, 32)],
              "F8_E5M2": [(257, 16411)],
              "F4": [(40000, 257), (2, 33, 35), (300, 8192)],
              "F64": [(33, 4097)]}
    tensors = {}
    for dtype, some in shapes.items():
        for shape in some:
            tensor = normal(dtype, shape, len(tensors)) if dtype != "F4" else \
                checkpoints.random_bits(dtype, shape, np.random.default_rng(len(tensors)))
            tensors[f"{dtype}-{'x'.join(map(str, shape)) or 'scalar'}"] = tensor
    return checkpoints.write_checkpoint(folder("src") / "shapes", tensors)


# ---------------------------------------------------------------- cells


def check_shapes(dtypes):
    made = of_shapes()
    with Mount(f"m={made.path}") as m:
        for name, tensor in made.tensors.items():
            if tensor.dtype in dtypes:
                check_levels(m.tensor("m", name), made.values(name), name)


def test_every_level_of_every_shape():
    check_shapes(["BF16"])


def test_every_level_of_narrow_and_wide_types():
    check_shapes(["F4", "F8_E5M2", "F32", "F64"])


def test_the_last_level_is_one_cell_a_plane():
    made = of_shapes()
    with Mount(f"m={made.path}") as m:
        for name, tensor in made.tensors.items():
            last = ref.level_count(tensor.shape)
            at = m.tensor("m", name) / "lod"
            if last > 0:
                got = npy(at / f"{last}.min.npy").reshape(-1)
                want = made.values(name).reshape(ref.planes_of(tensor.shape)[0], -1)
                assert np.array_equal(got, want.min(axis=1)), name
            for beyond in (0, last + 1, 64, 99):
                assert error_name(os.stat, at / f"{beyond}.min.npy") == "ENOENT", (name, beyond)


def test_every_level_of_every_dtype():
    small_ones = checkpoints.every_dtype(folder("src") / "small")
    rng = np.random.default_rng(20)
    tensors = {f"{dtype}-{len(shape)}": checkpoints.random_bits(dtype, shape, rng)
               for dtype in checkpoints.DTYPES for shape in ((70, 536), (5000,), (3, 40, 50))
               if dtype not in NO_LEVELS}
    large_ones = checkpoints.write_checkpoint(folder("src") / "large", tensors)
    with Mount(f"small={small_ones.path}", f"large={large_ones.path}") as m:
        for model, made in (("small", small_ones), ("large", large_ones)):
            for name, tensor in made.tensors.items():
                if tensor.elems and tensor.dtype not in NO_LEVELS:
                    check_levels(m.tensor(model, name), made.values(name), name)


def test_scaled_tensors_count_as_their_values():
    for make in (checkpoints.fp8_block, checkpoints.fp8_scaled):
        made = make(folder("src") / "fp8")
        with Mount(f"m={made.path}") as m:
            for name in made.expected:
                check_levels(m.tensor("m", name), made.values(name), name)


def test_experts_of_a_fused_tensor_have_their_own_levels():
    made = checkpoints.fused_experts(folder("src") / "fused")
    rng = np.random.default_rng(21)
    tensors = {"model.layers.0.mlp.experts.gate_up_proj":
                   checkpoints.normal("BF16", (4, 300, 70), rng),
               "model.layers.0.mlp.experts.down_proj":
                   checkpoints.random_bits("F4", (2, 33, 35), rng)}
    config = json.loads((made.path / "config.json").read_text())
    large = checkpoints.write_checkpoint(folder("src") / "large", tensors, config=config)
    with Mount(f"fused={made.path}", f"large={large.path}") as m:
        for model, one in (("fused", made), ("large", large)):
            for name, tensor in one.tensors.items():
                if ".experts." not in name:
                    continue
                layer, role = int(name.split(".")[2]), name.split(".")[-1]
                values = one.values(name)
                check_levels(m.tensor(model, name), values, name)
                for expert in range(tensor.shape[0]):
                    at = m.model(model) / f"experts/{layer:03}/{expert:03}/{role}"
                    check_levels(at, values[expert], f"{name} expert {expert}")


def laden(shape, seed=22):
    """Values of which many are not finite: some cells of level 1, 4 and 9 have none that is."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape, dtype=np.float32)
    values[rng.random(shape) < 0.2] = np.nan
    values[rng.random(shape) < 0.1] = np.inf
    values[rng.random(shape) < 0.1] = -np.inf
    values[..., :520, :520] = np.nan
    values[..., 521:700, 600:] = -np.inf
    values[..., 600, 600] = 0.5  # the one finite value near it
    return values


def test_what_is_not_finite_is_counted_and_left_out():
    values = laden((900, 1100))
    tensors = {dtype: checkpoints.of_array(dtype, values)
               for dtype in ("BF16", "F16", "F32", "F64", "F8_E5M2")}
    tensors["planes"] = checkpoints.of_array("BF16", laden((3, 800, 640)))
    tensors["none"] = checkpoints.of_array("F32", np.full((40, 50), np.nan, np.float32))
    made = checkpoints.write_checkpoint(folder("src") / "m", tensors)
    with Mount(f"m={made.path}") as m:
        for name in tensors:
            check_levels(m.tensor("m", name), made.values(name), name)
        got = read_level(m.tensor("m", "F32"), values.shape, 9)
        assert np.isnan(got["mean"][0, 0, 0]) and got["nonfinite"][0, 0, 0] == 512 * 512
        assert np.isfinite(got["mean"][0, 1, 1])


def test_means_are_of_sums_where_magnitudes_cancel():
    rng = np.random.default_rng(23)
    half = rng.standard_normal((512, 256)).astype(np.float32) * 1e6
    values = np.concatenate([half, -half[::-1]], axis=1) + np.float32(0.25)
    extremes = np.array([[np.finfo(np.float32).max] * 6, [-0.0] * 6, [1e-45] * 6], np.float32)
    tensors = {"cancel": checkpoints.of_array("F32", values),
               "norm": checkpoints.of_array("BF16", 1 + 1e-4 * rng.standard_normal((300, 300))),
               "extremes": checkpoints.of_array("F32", extremes),
               "doubles": checkpoints.of_array("F64", rng.standard_normal((40, 50)) * 1e300)}
    made = checkpoints.write_checkpoint(folder("src") / "m", tensors)
    with Mount(f"m={made.path}") as m:
        for name in tensors:
            check_levels(m.tensor("m", name), made.values(name), name)


# ---------------------------------------------------------------- tiles


def check_tiles(at, shape, level, chosen=None):
    """The tiles of a level are cuts of its files, all reducers in one."""
    planes, rows, cols = ref.level_shape(shape, level)
    whole = np.stack([a for a in read_level(at, shape, level).values()])
    down, across = -(-rows // ref.TILE_SIDE), -(-cols // ref.TILE_SIDE)
    for k, y, x in chosen or itertools.product(range(planes), range(down), range(across)):
        name = f"{y},{x}.npy" if planes == 1 else f"{k},{y},{x}.npy"
        got = npy(at / f"lod/{level}" / name)
        want = whole[:, k:k + 1, y * ref.TILE_SIDE:(y + 1) * ref.TILE_SIDE,
                     x * ref.TILE_SIDE:(x + 1) * ref.TILE_SIDE]
        want = want[:, 0] if planes == 1 else want
        assert got.shape == want.shape, f"{level}/{name}: {got.shape}, not {want.shape}"
        assert got.tobytes() == want.tobytes(), f"{level}/{name}: other cells"
    beyond = [f"{down},0.npy", f"0,{across}.npy"] if planes == 1 else \
        [f"{planes},0,0.npy", f"0,{down},0.npy", f"0,0,{across}.npy", "0,0.npy"]
    for name in beyond:
        assert error_name(os.stat, at / f"lod/{level}" / name) == "ENOENT", name


def test_tiles_are_cuts_of_all_reducers_of_a_level():
    made = of_shapes()
    with Mount(f"m={made.path}") as m:
        for name in ("BF16-300x20011", "BF16-3x300x9001", "BF16-5x40x33", "BF16-1000x37", "F32-7",
                     "F32-513x769", "F4-40000x257"):
            shape = made.tensors[name].shape
            for level in {1, 2, 5, 8, 9, ref.level_count(shape)} & set(levels_of(shape)):
                check_tiles(m.tensor("m", name), shape, level)
        ends = [(0, 0, 0), (0, 0, 2500), (0, 0, 5859)]
        check_tiles(m.tensor("m", "BF16-3000001"), (3_000_001,), 1, ends)


# ---------------------------------------------------------------- names


def listed(at):
    return set(os.listdir(at / "lod"))


def test_levels_are_listed_from_4_on():
    made = of_shapes()
    with Mount(f"m={made.path}") as m:
        for name, tensor in made.tensors.items():
            planes = ref.planes_of(tensor.shape)[0]
            want = {"overview.png"}
            for level in range(LISTED, ref.level_count(tensor.shape) + 1):
                want |= {f"{level}.{reducer}.npy" for reducer in ref.REDUCERS}
                fits = max(ref.level_shape(tensor.shape, level)) <= ref.PICTURE_SIDE
                want |= {f"{level}.png"} if planes == 1 and fits else set()
            at = m.tensor("m", name)
            assert listed(at) == want, (name, listed(at) ^ want)
            assert "lod" in os.listdir(at)
            for file in want:
                assert (at / "lod" / file).stat().st_size > 0, file
            if ref.level_count(tensor.shape):
                assert os.listdir(at / "lod/1") == []


def test_names_that_mean_nothing_do_not_exist():
    made = of_shapes()
    names = ["0.mean.npy", "99.mean.npy", "04.mean.npy", "4.mode.npy", "4.mean", "4.mean.npy.npy",
             "4.mean.npz", ".mean.npy", "-1.mean.npy", "+4.mean.npy", "4 .mean.npy", "4.MEAN.npy",
             "4.", "0", "99", "04", "0.png", "04.png", "4.pn", "4.png.png", "x", "overview",
             "overview.npy", "overview.p0.png", "18446744073709551617.mean.npy",
             "4.p0.png",  # one plane
             "1.png",     # too wide for a picture
             "4/0,99.npy", "4/99,0.npy", "4/00,0.npy", "4/0,00.npy", "4/0.npy", "4/0,0,0.npy",
             "4/0,0", "4/,0.npy", "4/0,.npy", "4/-1,0.npy", "4/0,0.png", "4/x",
             "4/0,18446744073709551616.npy", "0/0,0.npy", "99/0,0.npy"]
    of_planes = ["4.png", "4.p3.png", "4.p00.png", "4.p.png", "4.p-1.png", "overview.p3.png",
                 "overview.p00.png", "4/0,0.npy", "4/3,0,0.npy", "4/0,0,99.npy", "4/00,0,0.npy"]
    with Mount(f"m={made.path}") as m:
        one, many = m.tensor("m", "BF16-300x20011"), m.tensor("m", "BF16-3x300x9001")
        for at, wrong in ((one, names), (many, of_planes), (m.tensor("m", "F32-scalar"), names)):
            for name in wrong:
                assert error_name(os.stat, f"{at}/lod/{name}") == "ENOENT", name
        for at, right in ((one, ["4.mean.npy", "1.mean.npy", "5.png", "4/0,4.npy", "4",
                                 "15.min.npy"]),
                          (many, ["4.p2.png", "overview.p2.png", "4/2,0,2.npy"])):
            for name in right:
                assert error_name(os.stat, f"{at}/lod/{name}") == "", name


# ---------------------------------------------------------------- pictures


def check_picture(path, cells, nonfinite, texts):
    pixels, palette, said = ref.decoded(read_exact(path))
    want = ref.pixels_of(cells, nonfinite)
    assert pixels.shape == want.shape, f"{path}: {pixels.shape}, not {want.shape}"
    assert np.array_equal(pixels, want), f"{path}: {np.sum(pixels != want)} pixels differ"
    assert len(palette) == 256 and tuple(palette[ref.STEPS]) == (255, 255, 255)
    assert tuple(palette[ref.MAGENTA]) == (255, 0, 255)
    blue, red = palette[0].astype(int), palette[254].astype(int)
    assert blue[2] > blue[0] + 50 and red[0] > red[2] + 50, (blue, red)
    assert np.float32(said["Scale"]) == ref.scale_of(cells), said
    for key, value in texts.items():
        assert said[key].strip() == value, said


def check_pictures(at, tensor, values):
    """The overview of the first and last plane, and the pictures of every level that fits."""
    planes = ref.planes_of(values.shape)
    first = ref.overview_level(values.shape)
    as_planes = values.reshape(planes)
    for level in range(first, ref.level_count(values.shape) + 1):
        cells = read_level(at, values.shape, level) if level else None
        texts = {"Level": str(level), "Dtype": tensor.dtype, "Software": "tensormorph",
                 "Cell": f"2^{level} x 2^{level} elements"}
        for k in {0, planes[0] - 1}:
            with np.errstate(over="ignore"):
                mean = cells["mean"][k] if level else as_planes[k].astype(np.float32)
            counts = cells["nonfinite"][k] if level else None
            suffix = "png" if planes[0] == 1 else f"p{k}.png"
            names = [f"{level}.{suffix}"] if level else []
            if level == first:
                names += [f"overview.{suffix}"] + (["overview.png"] if k == 0 else [])
            for name in names:
                check_picture(at / "lod" / name, mean, counts, texts)


def test_pictures_show_the_means():
    made = of_shapes()
    with Mount(f"m={made.path}") as m:
        for name, tensor in made.tensors.items():
            check_pictures(m.tensor("m", name), tensor, made.values(name))


def test_cells_that_are_not_all_finite_are_magenta():
    rng = np.random.default_rng(24)
    sparse = rng.standard_normal((1500, 1400), dtype=np.float32)
    sparse[rng.random(sparse.shape) < 0.95] = 0
    sparse[700, 700] = np.nan
    tensors = {"laden": checkpoints.of_array("F32", laden((900, 1100))),
               "fits": checkpoints.of_array("BF16", laden((900, 1000))),
               "sparse": checkpoints.of_array("F32", sparse),
               "zeros": checkpoints.of_array("BF16", np.zeros((1100, 30), np.float32)),
               "bits": checkpoints.random_bits("F64", (50, 60), rng),
               "integers": checkpoints.random_bits("I64", (50, 60), rng),
               "flags": checkpoints.random_bits("BOOL", (50, 60), rng)}
    made = checkpoints.write_checkpoint(folder("src") / "m", tensors)
    with Mount(f"m={made.path}") as m:
        for name, tensor in tensors.items():
            check_pictures(m.tensor("m", name), tensor, made.values(name))
        pixels, _, _ = ref.decoded((m.tensor("m", "sparse") / "lod/overview.png").read_bytes())
        assert pixels[350, 350] == ref.MAGENTA and np.sum(pixels == ref.MAGENTA) == 1


# ---------------------------------------------------------------- what has no levels


def test_empty_tensors_have_an_empty_folder():
    tensors = {f"e{i}": checkpoints.Tensor("BF16", shape, b"")
               for i, shape in enumerate([(0,), (0, 3), (3, 0), (2, 0, 40), (0, 40, 40)])}
    made = checkpoints.write_checkpoint(folder("src") / "m", tensors)
    with Mount(f"m={made.path}") as m:
        for name in tensors:
            assert os.listdir(m.tensor("m", name) / "lod") == [], name
            for file in ("overview.png", "1.mean.npy", "1", "0.mean.npy", "1.png"):
                assert error_name(os.stat, m.tensor("m", name) / "lod" / file) == "ENOENT", file


def test_what_has_no_values_has_no_levels():
    made = checkpoints.every_dtype(folder("src") / "all")
    with Mount(f"m={made.path}") as m:
        for name, tensor in made.tensors.items():
            has = tensor.dtype not in NO_LEVELS
            assert ("lod" in os.listdir(m.tensor("m", name))) == has, name
            if not has:
                said = error_name(os.stat, m.tensor("m", name) / "lod")
                assert said == ("ENOENT" if tensor.dtype == "C64" else "EOPNOTSUPP"), (name, said)


def test_packed_codes_refuse():
    for scheme, given in checkpoints.quantised_schemes().items():
        made = checkpoints.write_checkpoint(folder("src") / scheme, given["tensors"],
                                            config=given["config"])
        with Mount(f"m={made.path}") as m:
            for name in given["refused"]:
                at = m.tensor("m", name)
                assert "lod" not in os.listdir(at), (scheme, name)
                assert read_error(at / "lod/overview.png") == "EOPNOTSUPP", (scheme, name)
                assert read_error(at / "lod/4.mean.npy") == "EOPNOTSUPP", (scheme, name)
                assert name in m.words("m")


def test_damaged_tensors_refuse():
    made = checkpoints.llama(folder("src") / "m", shards=2)
    lost = sorted(set(made.files.values()))[0]
    file = made.path / lost
    file.write_bytes(file.read_bytes()[:-100])
    with Mount(f"m={made.path}") as m:
        assert m.state("m") == "damaged"
        damaged = [n for n in made.files if read_error(m.tensor("m", n) / "raw") == "EBADMSG"]
        assert 0 < len(damaged) < len(made.files)
        for name in made.files:
            at = m.tensor("m", name)
            assert ("lod" in os.listdir(at)) == (name not in damaged), name
            if name in damaged:
                for file in ("overview.png", "1.mean.npy", "1/0,0.npy"):
                    assert read_error(at / "lod" / file) == "EBADMSG", (name, file)
            else:
                check_levels(at, made.values(name), name)


# ---------------------------------------------------------------- what it costs


def big(shape):
    """A file of zeros, sparse, that is one BF16 tensor."""
    path = folder("big")
    size = 2 * int(np.prod(shape))
    header = json.dumps({"big": {"dtype": "BF16", "shape": shape, "data_offsets": [0, size]}})
    header += " " * (-len(header) % 8)
    with open(path / "model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(header)) + header.encode())
        f.truncate(f.tell() + size)
    return path, size


def read_by(m, action):
    """The bytes that the daemon read meanwhile."""
    before = process_io(m.pid, "rchar")
    action()
    return process_io(m.pid, "rchar") - before


def test_looking_reads_no_tensor_byte():
    path, _ = big([8192, 16384])
    with Mount(f"m={path}") as m:
        at = m.tensor("m", "big") / "lod"
        files = [at / f for f in os.listdir(at)]
        files += [at / f"{level}.{reducer}.npy" for level in levels_of((8192, 16384))
                  for reducer in ref.REDUCERS]
        files += [at / f"1/{y},{x}.npy" for y in range(16) for x in range(32)]
        assert read_by(m, lambda: [f.stat() for f in files]) < MIB
        assert int((m.path / ".tmorph/residency/used").read_text()) == 0


def test_one_level_of_one_tensor_is_one_pass():
    path, size = big([8192, 16384])
    with Mount(f"m={path}") as m:
        at = m.tensor("m", "big") / "lod"
        # for all its files and tiles
        level = [at / f"4.{reducer}.npy" for reducer in ref.REDUCERS] + [at / "4/1,3.npy"]
        assert size <= read_by(m, lambda: [f.read_bytes() for f in level]) < size * 1.05


def test_readers_of_one_level_share_one_scan():
    path, size = big([4096, 8192])
    with Mount(f"m={path}") as m:
        at = m.tensor("m", "big") / "lod"
        for names in (["4.mean.npy", "4.max.npy", "4.nonfinite.npy", "4.mean.npy"],
                      ["10.mean.npy", "12.png", "10/0,0.npy", "9.min.npy"]):
            gate, got = threading.Barrier(len(names)), []

            def read(name, gate=gate, got=got):
                gate.wait()
                got.append(len((at / name).read_bytes()))

            threads = [threading.Thread(target=read, args=(name,)) for name in names]

            def run(threads=threads):
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()

            assert size <= read_by(m, run) < size * 1.05, names
            assert len(got) == len(names)


def lanes_are_idle(m, lanes=""):
    """Whether nothing is queued or running in any lane, or in one whose name has LANES."""
    _, rows = table(m.path / ".tmorph/lanes.tsv")
    return all(row["queued"].strip() == row["running"].strip() == "0"
               for row in rows if lanes in row["lane"])


def test_readers_that_are_killed_leave_nothing_running():
    with SlowFolder() as slow, contextlib.ExitStack() as stack:
        small(slow.real / "m")
        tensors = {NAME: normal("BF16", (4096, 8192))}
        made = checkpoints.write_checkpoint(slow.real / "m", tensors)
        size = len(tensors[NAME].raw)
        with Mount(f"m={slow.path}/m") as m:
            at = m.tensor("m", NAME) / "lod"
            names = ("4.mean.npy", "overview.png", "9.min.npy", "1.max.npy", "2.min.npy")
            files = [at / name for name in names]
            assert all(f.stat().st_size for f in files)
            before = process_io(m.pid, "rchar")
            slow.hold("read")
            readers = [stack.enter_context(reader(CAT, f)) for f in files]
            time.sleep(0.7)
            assert all(r.poll() is None for r in readers), "a source that is held gave bytes"
            for r in readers:
                r.kill()
                r.wait(5)
            # a worker takes back what nobody waits for: before what was held comes in
            wait_until(lambda: lanes_are_idle(m, "scalar"), 10, "the end of all cancelling")
            slow.let_go()
            wait_until(lambda: lanes_are_idle(m), 10, "idle lanes")
            time.sleep(0.3)
            assert lanes_are_idle(m)
            # what was under way came in; nothing was begun after it
            assert process_io(m.pid, "rchar") - before < size
            assert int((m.path / ".tmorph/residency/used").read_text()) < MIB
            check_tiles(m.tensor("m", NAME), made.tensors[NAME].shape, 4, [(0, 0, 0), (0, 0, 1)])


def budget_files(at, shape):
    """Every cell and picture that there is of a tensor, by name."""
    planes = ref.planes_of(shape)[0]
    for level in levels_of(shape):
        yield from (at / f"lod/{level}.{reducer}.npy" for reducer in ref.REDUCERS)
        yield at / (f"lod/{level}/0,0.npy" if planes == 1 else f"lod/{level}/{planes - 1},0,0.npy")
        if max(ref.level_shape(shape, level)[1:]) <= ref.PICTURE_SIDE:
            yield at / (f"lod/{level}.png" if planes == 1 else f"lod/{level}.p{planes - 1}.png")
    yield at / "lod/overview.png"


def test_a_small_budget_gives_the_same_bytes_to_eight_readers():
    tensors = {"cut": normal("BF16", (260, 8200)),  # whose tiles are larger than the budget
               "laden": checkpoints.of_array("BF16", laden((610, 710))),
               "planes": normal("F32", (3, 270, 190)),
               "long": normal("BF16", (300_001,)),
               "thin": normal("BF16", (20_001, 3))}
    made = checkpoints.write_checkpoint(folder("src") / "m", tensors)

    def files_of(m):
        return {f.relative_to(m.path): f for name, tensor in tensors.items()
                for f in budget_files(m.tensor("m", name), tensor.shape)}

    with Mount(f"m={made.path}") as m:
        want = {name: f.read_bytes() for name, f in files_of(m).items()}
    with Mount(f"m={made.path}", opts="budget=1M") as m:
        faults = []

        def read(seed):
            order = list(files_of(m).items())
            random.Random(seed).shuffle(order)
            for name, f in order[:len(order) // 2]:
                try:
                    if f.read_bytes() != want[name]:
                        faults.append(f"{name}: other bytes")
                except OSError as e:
                    faults.append(f"{name}: {e}")

        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not faults, faults[:3]
        used = m.path / ".tmorph/residency/used"
        wait_until(lambda: int(used.read_text()) <= MIB, what="a store within its budget")


if __name__ == "__main__":
    tmtest.main(globals())
