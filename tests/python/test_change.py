"""Sources that change while they are mounted: replaced, rewritten, cut, removed, added to."""
import contextlib
import io
import json
import mmap
import os
import pathlib

import tmtest

tmtest.need_modules("numpy", "ml_dtypes")

import numpy as np

import checkpoints
from tmtest import Mount, error_name, folder, read_error, wait_until

NAME = "model.layers.0.mlp.up_proj.weight"
BIG = 256  # hidden size: data.npy of NAME is half a megabyte


def single(path, seed, hidden=BIG):
    return checkpoints.llama(path, layers=1, hidden=hidden, shards=1, seed=seed)


def replaced_file(made, other):
    """Puts OTHER's weights over MADE's, each file by rename."""
    new = made.path / ".new"
    for file in other.path.glob("*.safetensors"):
        new.write_bytes(file.read_bytes())
        os.replace(new, made.path / file.name)


def rewritten_in_place(made, other):
    with open(made.path / "model.safetensors", "r+b") as f:
        f.write((other.path / "model.safetensors").read_bytes())


def shown(m, model="m", name=NAME):
    """The values of a tensor by a new look-up; None while they cannot be read."""
    try:
        return np.load(m.tensor(model, name) / "data.npy")
    except OSError:
        return None


def bytes_of(path):
    """The content of a file by a new look-up; None while it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def becomes(m, want, what, **tensor):
    wait_until(lambda: np.array_equal(shown(m, **tensor), want), what=what)


def direct_read_error(fd):
    """The error of a read that goes past the page cache."""
    buffer = mmap.mmap(-1, 1 << 16)
    try:
        return error_name(os.preadv, fd, [buffer], 1 << 18)
    finally:
        buffer.close()


def test_replaced_by_rename_keeps_open_handles_on_the_old_file():
    src = folder("src")
    old, new = single(src / "m", 1), single(src / "n", 2, hidden=BIG * 2)
    before = (old.path / "model.safetensors").read_bytes()
    after = (new.path / "model.safetensors").read_bytes()
    with Mount(f"m={old.path}") as m:
        file = m.load / "m/model.safetensors"
        data = m.tensor("m", NAME) / "data.npy"
        with open(file, "rb") as held, open(data, "rb") as values:
            inode = os.fstat(held.fileno()).st_ino
            start = held.read(1000)
            replaced_file(old, new)
            wait_until(lambda: bytes_of(file) == after, what="the new file in load/")
            assert file.stat().st_ino != inode, "the same inode for another file"
            assert start + held.read() == before, "an open handle shows the new file"
            assert np.array_equal(np.load(values), old.values(NAME)), "an open data.npy changed"
        becomes(m, new.values(NAME), "the new values")
        assert json.loads((m.models / "m/model.json").read_text())["state"] == "ready"
        got = float((m.tensor("m", NAME) / "at/1,2").read_text())
        assert got == float(new.values(NAME)[1, 2])


# path below a tensor directory -> that part of a matrix
VIEWS = {"data.npy": np.s_[:], "at/1,-2": np.s_[1, -2], "rows/3.npy": np.s_[3],
         "cols/-1.npy": np.s_[:, -1], "slice/2:9,5:-5.npy": np.s_[2:9, 5:-5]}


def value_of(view, content):
    return np.load(io.BytesIO(content)) if view.endswith(".npy") else np.float32(content)


def read_on(fd, content):
    """CONTENT, and what follows it in an open file."""
    while piece := os.pread(fd, 1 << 20, len(content)):
        content += piece
    return content


def scarce_mount(src, *sources):
    """A mount whose daemon keeps few files open, and what makes it close those that nobody reads.
    """
    others = {f"t{i}": checkpoints.Tensor("U8", (3,), b"%03d" % i) for i in range(90)}
    checkpoints.write_checkpoint(src / "others", others, shards=90)
    m = Mount(src / "others", *sources, nofile=128)

    def close_unread():
        for name, tensor in others.items():
            assert (m.tensor("others", name) / "raw").read_bytes() == tensor.raw

    return m, close_unread


def test_open_values_of_replaced_files_stay_the_old_ones_though_descriptors_are_scarce():
    src = folder("src")
    code = "model.layers.0.self_attn.q_proj.weight"
    makes = {NAME: single, code: lambda path, seed: checkpoints.fp8_block(path, shards=2,
                                                                         seed=seed)}
    # a source of its own for each view: none is kept open by another's reader
    cases = [(f"m{i}", name, view) for i, (name, view) in
             enumerate((name, view) for name in makes for view in VIEWS)]
    old = {model: makes[name](src / model, 1) for model, name, _ in cases}
    new = {name: make(src / name, 2) for name, make in makes.items()}
    assert old["m5"].files[code] != old["m5"].files[code + "_scale_inv"]
    mount, close_unread = scarce_mount(src, *(made.path for made in old.values()))
    with mount as m:
        # past the page cache, so that the rest is not read ahead
        fds = {model: os.open(m.tensor(model, name) / view, os.O_RDONLY | os.O_DIRECT)
               for model, name, view in cases}
        starts = {model: os.pread(fds[model], 4096, 0) if view == "data.npy" else b""
                  for model, _, view in cases}
        close_unread()
        for model, name, _ in cases:
            replaced_file(old[model], new[name])
        for model, name, view in cases:
            becomes(m, new[name].values(name), "the new values", model=model, name=name)
            got = value_of(view, read_on(fds[model], starts[model]))
            want = old[model].values(name)[VIEWS[view]]
            assert np.array_equal(got, want), f"{model} {view} shows other values"
            os.close(fds[model])


def kept_by(m):
    """The regular files that the daemon has mapped or open, with ' (deleted)' behind the gone."""
    mapped = [line.split(maxsplit=5)[5] for line in
              pathlib.Path(f"/proc/{m.pid}/maps").read_text().splitlines() if "/" in line]
    opened = []
    for fd in pathlib.Path(f"/proc/{m.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            opened.append(os.readlink(fd))
    return mapped, opened


def test_the_space_of_a_replaced_file_is_free_soon_after_its_last_reader():
    src = folder("src")
    old, new = single(src / "m", 1), single(src / "n", 2)
    source = old.path / "model.safetensors"
    before = source.read_bytes()
    with Mount(f"m={old.path}", opts="raw=mapped") as m:
        file = m.load / "m/model.safetensors"
        with open(file, "rb") as held:
            start = held.read(1000)
            assert str(source) in kept_by(m)[0], "not read by its mapping"
            replaced_file(old, new)
            becomes(m, new.values(NAME), "the new values")
            assert start + held.read() == before
        assert file.read_bytes() == source.read_bytes()
        assert str(source) in kept_by(m)[0], "a mapping goes with its reader"
        wait_until(lambda: not any(f"{source} (deleted)" in names for names in kept_by(m)),
                   seconds=15, what="the end of what keeps the old file's space")


def test_replaced_by_a_file_of_the_same_size_is_noticed():
    src = folder("src")
    old, new = single(src / "m", 1), single(src / "n", 2)
    with Mount(f"m={old.path}") as m:
        becomes(m, old.values(NAME), "the values")
        at = m.tensor("m", NAME) / "at/0,0"
        assert float(at.read_text()) == float(old.values(NAME)[0, 0])
        replaced_file(old, new)
        becomes(m, new.values(NAME), "the new values")
        assert float(at.read_text()) == float(new.values(NAME)[0, 0])
        tmtest.same_tree(old.path, m.load / "m")


def test_rewritten_in_place_answers_stale_then_shows_the_new():
    src = folder("src")
    old, new = single(src / "m", 1), single(src / "n", 2)
    with Mount(f"m={old.path}") as m:
        data = m.tensor("m", NAME) / "data.npy"
        buffered = os.open(data, os.O_RDONLY)
        direct = os.open(data, os.O_RDONLY | os.O_DIRECT)
        try:
            rewritten_in_place(old, new)
            assert direct_read_error(direct) == "ESTALE"
            # the kernel may answer EIO for a page that it could not read
            assert error_name(os.pread, buffered, 4096, 1 << 18) in ("ESTALE", "EIO")
            assert f"tensor '{NAME}': {old.path}" in (m.path / ".tmorph/log").read_text()
        finally:
            os.close(buffered)
            os.close(direct)
        becomes(m, new.values(NAME), "the new values")
        assert NAME in m.words("m") or "model.safetensors" in m.words("m"), "no words"


def test_new_look_ups_never_mix_two_versions():
    src = folder("src")
    old, new = single(src / "m", 1), single(src / "n", 2)
    allowed = [old.values(NAME), new.values(NAME)]
    with Mount(f"m={old.path}") as m:
        for turn in range(6):
            replaced_file(old, (new, single(src / f"o{turn}", 1))[turn % 2])
            for _ in range(20):
                got = shown(m)
                assert got is None or any(np.array_equal(got, a) for a in allowed), turn
        becomes(m, old.values(NAME), "the last version")


def test_cut_short_in_place_is_an_error_and_no_zeros():
    src = folder("src")
    made = single(src / "m", 1)
    file = made.path / "model.safetensors"
    want = file.read_bytes()
    with Mount(f"m={made.path}") as m:
        raw = os.open(m.tensor("m", NAME) / "raw", os.O_RDONLY | os.O_DIRECT)
        try:
            os.truncate(file, len(want) // 8)
            assert error_name(os.preadv, raw, [mmap.mmap(-1, 4096)], 1 << 16) == "ESTALE"
        finally:
            os.close(raw)
        wait_until(lambda: m.state("m") == "damaged", what="the diagnosis")
        assert "model.safetensors" in (m.models / "m/error").read_text()
        assert read_error(m.tensor("m", NAME) / "data.npy") in ("EBADMSG", "ENOENT")
        copy = m.load / "m/model.safetensors"
        wait_until(lambda: copy.stat().st_size == len(want) // 8, what="the new size")
        assert copy.read_bytes() == want[:len(want) // 8]
        file.write_bytes(want)
        becomes(m, made.values(NAME), "the values after repair")
        wait_until(lambda: m.state("m") == "ready", what="ready after repair")


def test_removed_sources_disappear_and_leave_others_alone():
    src = folder("src")
    made, other = single(src / "m", 1), single(src / "n", 2)
    want = (made.path / "model.safetensors").read_bytes()
    with Mount(f"m={made.path}", f"n={other.path}") as m:
        file = m.load / "m/model.safetensors"
        with open(file, "rb") as held:
            os.unlink(made.path / "model.safetensors")
            wait_until(lambda: error_name(os.stat, file) == "ENOENT", what="ENOENT in load/")
            assert held.read() == want
        wait_until(lambda: "model.safetensors" not in os.listdir(m.load / "m"), what="the listing")
        assert np.array_equal(np.load(m.tensor("n", NAME) / "data.npy"), other.values(NAME))
        assert m.state("n") == "ready"


def test_a_file_that_vanished_is_told_of_and_found_missing_at_once():
    src = folder("src")
    views = ("raw", "data.npy", "at/0,0", "rows/0.npy")
    # a source of its own for each view: the first failure opens it anew
    made = {view: checkpoints.llama(src / f"m{i}", shards=2) for i, view in enumerate(views)}
    lost, kept = "model.embed_tokens.weight", "model.norm.weight"
    mount, close_unread = scarce_mount(src, *(c.path for c in made.values()))
    with mount as m:
        for view, c in made.items():
            assert read_error(m.tensor(c.path.name, lost) / view) == ""
        close_unread()
        for c in made.values():
            os.unlink(c.path / c.files[lost])
        for view, c in made.items():
            # ESTALE makes the kernel look the path up again: no such tensor now
            assert read_error(m.tensor(c.path.name, lost) / view) == "ENOENT", view
            assert m.state(c.path.name) == "damaged", view
            got = np.load(m.tensor(c.path.name, kept) / "data.npy")
            assert np.array_equal(got, c.values(kept)), view
        # of one of them at least it was not the watch that noticed first
        assert f"/{made['raw'].files[lost]}: the file is gone since it was mounted" \
            in m.log.read_text(), "no words in the log"


def test_a_source_folder_that_vanishes_does_not_take_the_mount_down():
    src = folder("src")
    made, other = single(src / "m", 1), single(src / "n", 2)
    with Mount(f"m={made.path}", f"n={other.path}") as m:
        os.rename(made.path, src / "elsewhere")
        wait_until(lambda: read_error(m.load / "m/config.json") == "ENOENT", what="ENOENT")
        assert np.array_equal(np.load(m.tensor("n", NAME) / "data.npy"), other.values(NAME))
        os.rename(src / "elsewhere", made.path)
        becomes(m, made.values(NAME), "the values after its return")


def test_files_added_and_edited_beside_the_weights_show_up():
    made = single(folder("src") / "m", 1)
    with Mount(f"m={made.path}") as m:
        at = m.load / "m"
        assert error_name(os.stat, at / "NOTES.md") == "ENOENT"
        (made.path / "NOTES.md").write_text("a note\n")
        wait_until(lambda: "NOTES.md" in os.listdir(at), what="the new file in the listing")
        wait_until(lambda: read_error(at / "NOTES.md") == "", what="the new file")
        assert (at / "NOTES.md").read_text() == "a note\n"
        pathlib.Path(made.path / "NOTES.md").write_text("a longer note\n")
        wait_until(lambda: bytes_of(at / "NOTES.md") == b"a longer note\n", what="the edit")
        os.unlink(made.path / "NOTES.md")
        wait_until(lambda: error_name(os.stat, at / "NOTES.md") == "ENOENT", what="its removal")


def test_mtime_follows_the_source():
    made = single(folder("src") / "m", 1)
    with Mount(f"m={made.path}") as m:
        os.utime(made.path / "config.json", ns=(10 ** 18, 10 ** 18))
        wait_until(lambda: (m.load / "m/config.json").stat().st_mtime_ns == 10 ** 18,
                   what="the new mtime")


def test_a_shard_that_arrives_repairs_the_model():
    made = checkpoints.llama(folder("src") / "m", shards=2)
    late = made.path / "model-00002-of-00002.safetensors"
    content = late.read_bytes()
    os.unlink(late)
    with Mount(f"m={made.path}") as m:
        assert m.state("m") == "damaged"
        (made.path / ".part").write_bytes(content)
        os.rename(made.path / ".part", late)
        wait_until(lambda: m.state("m") == "ready", what="ready")
        for name in made.tensors:
            got = np.load(m.tensor("m", name) / "data.npy")
            assert np.array_equal(got, made.values(name)), name


if __name__ == "__main__":
    tmtest.main(globals())
