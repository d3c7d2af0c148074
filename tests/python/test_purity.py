"""Looking is free: stat and readdir, by any tool, read no tensor byte.

The source's pages are dropped from the page cache; after a tool has walked the whole mount, none
of the pages that hold only tensor bytes may have come back, and the daemon may have read little.
"""
import ctypes
import mmap
import os
import shutil
import struct
import subprocess

import tmtest

tmtest.need_modules("numpy", "ml_dtypes")

import checkpoints
from tmtest import Mount, folder, process_io

PAGE = mmap.PAGESIZE
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                      ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]


def resident_pages(path):
    """A list of booleans: which pages of PATH are in the page cache. Reads none of them."""
    with open(path, "rb") as f:
        size = os.fstat(f.fileno()).st_size
        at = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, f.fileno(), 0)
    assert at not in (None, ctypes.c_void_p(-1).value), os.strerror(ctypes.get_errno())
    flags = ctypes.create_string_buffer(-(-size // PAGE))
    rc = libc.mincore(at, size, flags)
    libc.munmap(at, size)
    assert rc == 0, os.strerror(ctypes.get_errno())
    return [bool(b & 1) for b in flags.raw]


def drop_pages(path):
    with open(path, "rb") as f:
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def first_tensor_page(path):
    """The first page of PATH that holds tensor bytes alone."""
    with open(path, "rb", buffering=0) as f:
        header = 8 + struct.unpack("<Q", f.read(8))[0]
    return -(-header // PAGE)


class Source:
    """A model whose shards can be asked which of their tensor pages are in memory."""

    def __init__(self):
        self.made = checkpoints.llama(folder("src") / "m", layers=8, hidden=512, shards=2)
        self.shards = [self.made.path / f for f in sorted(set(self.made.files.values()))]
        self.first = [first_tensor_page(s) for s in self.shards]
        self.bytes = sum(s.stat().st_size for s in self.shards)

    def drop(self):
        os.sync()
        for shard in self.shards:
            drop_pages(shard)
        if self.resident():
            raise tmtest.Skip("this filesystem keeps pages that were given up (tmpfs?)")

    def resident(self):
        return sum(sum(resident_pages(s)[n:]) for s, n in zip(self.shards, self.first))


def commands(top):
    """Everything people and crawlers do to a folder before they read it."""
    found = [["find", top], ["find", top, "-size", "+1M"], ["find", top, "-empty"],
             ["find", top, "-newer", "/etc/hostname"], ["ls", "-lR", top], ["ls", "-laLR", top],
             ["du", "-s", top], ["du", "-sh", "--apparent-size", top],
             ["stat", top], ["tar", "cf", "/dev/null", top]]
    if shutil.which("rsync"):
        found.append(["rsync", "-rn", f"{top}/", "/nonexistent/"])
    return found


def test_walking_the_mount_reads_no_tensor_byte():
    source = Source()
    with Mount(f"m={source.made.path}") as m:
        source.drop()
        before = process_io(m.pid, "read_bytes"), process_io(m.pid, "rchar")
        for command in commands(str(m.path)):
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           check=False)
            assert source.resident() == 0, f"{command[0]} read tensor bytes"
        # read_bytes counts what came from disk; a request of the kernel is some 60 bytes of rchar
        assert process_io(m.pid, "read_bytes") - before[0] < 64 << 10
        assert process_io(m.pid, "rchar") - before[1] < source.bytes // 4


# What the kernel reads ahead of a read is the disk's affair (8 MiB on some), so that below this
# line only the bytes that the daemon itself asked for count.


def test_mounting_and_tables_read_headers_only():
    source = Source()
    headers = sum(first * PAGE for first in source.first)
    with Mount(f"m={source.made.path}") as m:
        assert process_io(m.pid, "rchar") < headers + (256 << 10)
        at = m.models / "m"
        for name in ("model.json", "metadata.json", "tensors.tsv", "state", "error"):
            (at / name).read_bytes()
        for name in source.made.tensors:
            for part in ("name", "dtype", "shape"):
                (m.tensor("m", name) / part).read_bytes()
        # the fingerprint samples each shard
        assert process_io(m.pid, "rchar") < headers + (1 << 20)


def test_one_element_reads_one_neighbourhood():
    source = Source()
    name = "model.layers.4.mlp.up_proj.weight"
    with Mount(f"m={source.made.path}") as m:
        before = process_io(m.pid, "rchar")
        got = float((m.tensor("m", name) / "at/3,5").read_text())
        assert got == float(source.made.values(name)[3, 5])
        assert process_io(m.pid, "rchar") - before < 1 << 20


def test_a_tensor_read_leaves_the_others_alone():
    source = Source()
    name = "model.embed_tokens.weight"
    with Mount(f"m={source.made.path}") as m:
        before = process_io(m.pid, "rchar")
        (m.tensor("m", name) / "data.npy").read_bytes()
        stored = len(source.made.tensors[name].raw)
        assert stored <= process_io(m.pid, "rchar") - before < stored + (1 << 20)


def requests(m, action, *args):
    """How many requests reached the daemon while ACTION ran (a read of /dev/fuse each)."""
    before = process_io(m.pid, "syscr")
    action(*args)
    return process_io(m.pid, "syscr") - before


FEW = 20  # what a daemon's own timers may read meanwhile


def test_what_was_looked_up_is_not_asked_again():
    source = Source()
    with Mount(f"m={source.made.path}") as m:
        names = [m.tensor("m", n) / f for n in source.made.tensors for f in ("dtype", "data.npy")]
        absent = [m.load / "m" / f for f in ("pytorch_model.bin", "adapter_config.json")]

        def look():
            for name in names:
                os.stat(name)
            for name in absent * 50:
                assert tmtest.error_name(os.stat, name) == "ENOENT"

        look()
        assert requests(m, look) < FEW, requests(m, look)


def test_a_second_read_comes_from_the_page_cache():
    source = Source()
    with Mount(f"m={source.made.path}") as m:
        for file in (m.tensor("m", "model.embed_tokens.weight") / "data.npy",
                     m.models / "m/tensors.tsv", m.load / "m" / source.shards[0].name):
            first = file.read_bytes()
            assert requests(m, lambda f=file: f.read_bytes()) < FEW, file
            assert file.read_bytes() == first


if __name__ == "__main__":
    tmtest.main(globals())
