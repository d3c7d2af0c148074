"""What readers will want next is near before they ask: in the page cache, or computed."""
import ctypes
import json
import mmap
import os
import struct
import threading
import time

import tmtest

tmtest.need_fuse()
tmtest.need_modules("numpy")

from expect import table
from test_lod import big, lanes_are_idle
from test_trouble import SlowFolder
from tmtest import Mount, Skip, folder, process_io, wait_until

KIB = 1 << 10
MIB = 1 << 20
WAYS = ("mapped", "pread")
LIBC = ctypes.CDLL(None, use_errno=True)


class Weights:
    """A file of zeros (no holes: those are always near) with tensors at known places."""

    def __init__(self, tensors):
        self.folder = folder("weights")
        self.path = self.folder / "model.safetensors"
        header, at = {}, 0
        for name, (dtype, shape, size) in tensors.items():
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
            at += size
        text = json.dumps(header).encode()
        text += b" " * (-(8 + len(text)) % 4096)
        self.begin = {n: 8 + len(text) + e["data_offsets"][0] for n, e in header.items()}
        self.end = {n: 8 + len(text) + e["data_offsets"][1] for n, e in header.items()}
        with open(self.path, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            for written in range(0, at, MIB):
                f.write(bytes(min(MIB, at - written)))
            f.flush()
            os.fsync(f.fileno())
        self.fd = os.open(self.path, os.O_RDWR)
        self.drop()

    def drop(self):
        """Has the page cache forget it; pages that the kernel is at stay the first time."""
        for _ in range(40):
            os.fsync(self.fd)
            os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_DONTNEED)
            if self.near_bytes() == 0:
                return
            time.sleep(0.05)
        raise Skip("the page cache here keeps what it is told to drop")

    def is_near(self, *offsets):
        """Whether the pages that have these bytes are in the page cache."""
        near = self._pages()
        return all(near[offset // 4096] & 1 for offset in offsets)

    def _pages(self):
        # not by reading without waiting: that has the kernel fetch what is not there
        size = self.path.stat().st_size
        pages = (ctypes.c_ubyte * (-(-size // 4096)))()
        with mmap.mmap(self.fd, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE) as m:
            first = ctypes.c_char.from_buffer(m)
            at = ctypes.c_void_p(ctypes.addressof(first))
            failed = LIBC.mincore(at, ctypes.c_size_t(size), pages)
            del first
        assert not failed, os.strerror(ctypes.get_errno())
        return bytes(pages)

    def wait_near(self, *offsets):
        wait_until(lambda: self.is_near(*offsets), 10, f"{offsets} in the page cache")

    def near_bytes(self):
        return sum(page & 1 for page in self._pages()[1:]) * 4096


def open_as_random(path):
    """The kernel then reads no further than it is asked."""
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    return fd


def one():
    return Weights({"w": ("U8", [1024, 64 * KIB], 64 * MIB)})


def each_way(make, check):
    """CHECKs a fresh file for each way that its bytes may go: as a file, and as raw where it has
    a tensor w."""
    for way in WAYS:
        for as_file in (True, False):
            weights = make()
            if not as_file and "w" not in weights.begin:
                continue
            with Mount(f"m={weights.folder}", opts=f"raw={way}") as m:
                weights.drop()
                path = m.load / "m/model.safetensors" if as_file else m.tensor("m", "w") / "raw"
                base = 0 if as_file else weights.begin["w"]
                fd = open_as_random(path)
                check(weights, lambda at, size: os.pread(fd, size, at - base))
                os.close(fd)
            os.unlink(weights.path)


def test_a_reader_of_columns_finds_the_next_rows_near():
    def check(weights, read):
        start = weights.begin["w"]
        for row in range(0, 5 * 16, 16):  # 4 KiB of each mebibyte
            assert len(read(start + row * 64 * KIB + 8 * KIB, 4 * KIB)) == 4 * KIB
        later = [start + row * 64 * KIB + 8 * KIB for row in range(5 * 16, 9 * 16, 16)]
        weights.wait_near(*later)
        assert not weights.is_near(later[0] + 512 * KIB)
        assert weights.near_bytes() < 8 * MIB

    each_way(one, check)


def test_who_reads_backwards_finds_what_lies_before_near():
    def check(weights, read):
        end = weights.end["w"]
        for at in range(end - 64 * KIB, end - 3 * MIB, -64 * KIB):
            assert len(read(at, 64 * KIB)) == 64 * KIB
        weights.wait_near(*range(end - 7 * MIB, end - 3 * MIB, 16 * KIB))
        assert not weights.is_near(end - 16 * MIB)

    each_way(one, check)


def test_who_reads_on_finds_what_follows_near_up_to_the_tensors_end():
    def make():
        return Weights({"w": ("U8", [24 * MIB], 24 * MIB), "x": ("U8", [24 * MIB], 24 * MIB)})

    def check(weights, read):
        start, end = weights.begin["w"], weights.end["w"]
        for at in range(start, start + 3 * MIB, 64 * KIB):
            read(at, 64 * KIB)
        weights.wait_near(*range(start + 3 * MIB, start + 8 * MIB, 16 * KIB))  # without a gap
        assert not weights.is_near(start + 14 * MIB)
        for at in range(start + 3 * MIB, end, 64 * KIB):
            read(at, 64 * KIB)
        time.sleep(0.2)
        assert not weights.is_near(end + 4096)  # it has not shown that it goes on there

    each_way(make, check)


def layers():
    """Names and bytes go other ways, and each tensor's size is one of three."""
    tensors = {}
    for i in range(18):
        tensors[f"layer.{i:02}.w"] = ("BF16", [MIB], 2 * MIB)
        tensors[f"layer.{i:02}.k"] = ("BF16", [MIB // 2], MIB)
    for i in range(18):
        tensors[f"layer.{i:02}.norm"] = ("F32", [8192], 32 * KIB)
    return Weights(tensors)


def read_tensors(weights, read, names):
    for name in names:
        for at in range(weights.begin[name], weights.end[name], 64 * KIB):
            read(at, min(64 * KIB, weights.end[name] - at))


def test_who_goes_by_name_finds_the_next_names_near():
    def check(weights, read):
        names = sorted(weights.begin)
        read_tensors(weights, read, names[:7])
        weights.wait_near(*(at for n in names[7:10]
                            for at in range(weights.begin[n], weights.end[n], 16 * KIB)))
        assert not weights.is_near(weights.begin["layer.16.w"])

    each_way(layers, check)


def test_who_looks_at_one_role_finds_the_next_layers_near():
    def check(weights, read):
        read_tensors(weights, read, [f"layer.{i:02}.k" for i in range(4)])
        weights.wait_near(*(weights.begin[f"layer.{i:02}.k"] for i in range(4, 8)))
        assert not weights.is_near(weights.begin["layer.05.w"] + MIB)
        assert not weights.is_near(weights.begin["layer.02.norm"])

    each_way(layers, check)


def test_computed_values_follow_their_readers_too():
    weights = Weights({"w": ("BF16", [24 * MIB], 48 * MIB)})
    with Mount(f"m={weights.folder}") as m:
        fd = open_as_random(m.tensor("m", "w") / "data.npy")
        weights.drop()
        for i in range(5):
            os.pread(fd, 4 * KIB, 64 * KIB + i * 4 * MIB)  # of f32: 2 MiB of what is stored
        weights.wait_near(*(weights.begin["w"] + 32 * KIB + i * 2 * MIB for i in range(5, 8)))
        assert weights.near_bytes() < 8 * MIB
        os.close(fd)


def test_random_readers_bring_nothing_near():
    weights = one()
    with Mount(f"m={weights.folder}") as m:
        fd = open_as_random(m.load / "m/model.safetensors")
        weights.drop()
        places = [(i * i * 7919 + i * 104729) % 16000 for i in range(100)]
        for place in places:
            os.pread(fd, 1, place * 4096)
        wait_until(lambda: lanes_are_idle(m), 10, "idle lanes")
        _, rows = table(m.path / ".tmorph/lanes.tsv")
        near = int(next(r["done"] for r in rows if "prefetch" in r["lane"]))
        assert near < 20, f"{near} pieces were foretold"
        os.close(fd)


def test_threads_of_one_file_are_told_apart():
    weights = one()
    with Mount(f"m={weights.folder}") as m:
        fd = open_as_random(m.load / "m/model.safetensors")
        weights.drop()
        start, turn = weights.begin["w"], [threading.Semaphore(i == 0) for i in range(3)]

        def go(i):
            for step in range(5):
                turn[i].acquire()
                os.pread(fd, 4096, start + i * 20 * MIB + step * (i + 1) * MIB)
                turn[(i + 1) % 3].release()

        threads = [threading.Thread(target=go, args=(i,)) for i in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        weights.wait_near(*(start + i * 20 * MIB + 5 * (i + 1) * MIB for i in range(3)))
        os.close(fd)


def test_tiles_beside_one_that_is_looked_at_are_made():
    with SlowFolder() as slow:
        path, _ = big([4096, 4096])
        path.rename(slow.real / "m")
        with Mount(f"m={slow.path}/m") as m:
            at = m.tensor("m", "big") / "lod"
            (at / "2/1,1.npy").read_bytes()
            wait_until(lambda: lanes_are_idle(m), 20, "idle lanes")
            slow.hold("read")  # what is there needs no source
            for name in ("2/1,2", "2/2,1", "2/1,0", "2/0,1", "1/2,2", "1/3,2", "1/2,3", "1/3,3"):
                assert len((at / f"{name}.npy").read_bytes()) > MIB, name
            slow.let_go()


def test_a_tile_costs_itself_and_its_neighbours():
    path, _ = big([8192, 16384])
    with Mount(f"m={path}") as m:
        at = m.tensor("m", "big") / "lod"

        def read_by(name):
            before = process_io(m.pid, "rchar")
            (at / name).read_bytes()
            wait_until(lambda: lanes_are_idle(m), 20, "idle lanes")
            return process_io(m.pid, "rchar") - before

        # a block is 256 x 8192: a tile of level 1 covers two, and so does the one below it
        assert 16 * MIB <= read_by("1/0,0.npy") < 17 * MIB
        assert read_by("1/1,0.npy") < 9 * MIB  # it was there; the next one below was not
        # the ones beside one of level 5 would be scans of the whole
        assert 256 * MIB <= read_by("5/0,0.npy") < 257 * MIB


def test_a_mount_ends_while_much_is_foretold():
    with SlowFolder() as slow:
        path, _ = big([16384, 16384])
        path.rename(slow.real / "m")
        for _ in range(3):
            with Mount(f"m={slow.path}/m") as m:
                at = m.tensor("m", "big") / "lod"
                (at / "2/1,1.npy").read_bytes()
                fd = os.open(m.tensor("m", "big") / "raw", os.O_RDONLY)
                for i in range(48):
                    os.pread(fd, 64 * KIB, i * 64 * KIB)
                os.close(fd)


tmtest.main(globals())
