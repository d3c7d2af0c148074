"""Indexes made while a mount is up: with index=on, by ctl, while others read, until its end."""
import contextlib
import os
import pathlib
import signal
import threading
import time

import tmtest

tmtest.need_fuse()
tmtest.need_modules("numpy", "ml_dtypes")

import numpy as np

import checkpoints
import stats_reference as ref
from checkpoints import normal, random_bits
from expect import table
from test_query import Query
from test_trouble import SlowFolder
from tmtest import Mount, error_name, folder, process_io, tmorph, wait_until

MADE_SECONDS = 60  # threads that give way get little of a machine that is busy


def small(path, seed=1, shards=1):
    rng = np.random.default_rng(seed)
    return checkpoints.write_checkpoint(path, {
        f"model.layers.{i}.mlp.up_proj.weight": random_bits("BF16", (8, 16), rng)
        for i in range(6)} | {"model.norm.weight": normal("F32", (16,), rng)}, shards=shards)


def big(path):
    """Some tensors of many blocks each, 40 MiB in all."""
    rng = np.random.default_rng(2)
    return checkpoints.write_checkpoint(path, {
        f"big.{i}.weight": random_bits("BF16", (5 << 10, 1024), rng) for i in range(4)} |
        {"small.weight": normal("F32", (16, 16), rng)})


def state(m, model):
    return (m.model(model) / "index/state").read_text().strip()


def done(m, model):
    return int((m.model(model) / "index/done").read_text())


def total(m, model):
    return int((m.model(model) / "index/total").read_text())


def wait_fresh(m, *models):
    for model in models:
        wait_until(lambda n=model: state(m, n) == "fresh", MADE_SECONDS, f"the index of {model}")


def lane(m):
    return next(r for r in table(m.path / ".tmorph/lanes.tsv")[1] if r["lane"] == "6-index")


def log_of(m):
    return (m.path / ".tmorph/log").read_text()


def indexes_below(top):
    """Names of index files below TOP, finished and not."""
    return sorted(str(p.relative_to(top)) for p in pathlib.Path(top).rglob("*.tmidx*"))


def check_statistics(m, model, made):
    """stats.tsv knows all tensors, and what it says is what NumPy counts."""
    rows = {row["name"]: row for row in table(m.model(model) / "stats.tsv")[1]}
    for name, tensor in made.tensors.items():
        want = ref.record(tensor.dtype, ref.stored(tensor))
        for field in ("n", "zero_count", "nan_count", "pos_inf_count", "zero_rows"):
            assert int(rows[name][field]) == want[field], (name, field)


# ---------------------------------------------------------------- index=on


def test_with_index_on_all_that_is_mounted_is_indexed():
    made, run = small(folder("src") / "m", shards=2), folder("src") / "run"
    members = {name: small(run / name, seed=i) for i, name in enumerate(("a", "deep/b"))}
    with Mount(f"m={made.path}", f"run={run}", opts="index=on") as m:
        wait_fresh(m, "m", *(f"run/{name}" for name in members))
        assert done(m, "m") == total(m, "m") == sum(len(t.raw) for t in made.tensors.values())
        check_statistics(m, "m", made)
        for name, member in members.items():
            check_statistics(m, f"run/{name}", member)
        late = small(folder("src") / "late", seed=9)
        m.command(f"add late={late.path}")
        wait_fresh(m, "late")
        assert len(Query(m.model("late"), "q").write("n == 128").matches()) == 6
    assert indexes_below(made.path) == [f"{f}.tmidx" for f in sorted(set(made.files.values()))]
    assert indexes_below(run) == ["a/model.safetensors.tmidx", "deep/b/model.safetensors.tmidx"]
    for source in (made.path, run, late.path):
        assert "indexed already" in tmorph("index", source, check=0).stdout, "they are whole"


def test_without_it_nothing_is():
    made = small(folder("src") / "m")
    with Mount(f"m={made.path}") as m, Mount(f"m={made.path}", opts="index=off") as off, \
            Mount("s=" + str(small(folder("src") / "s").path), opts="index=on") as on:
        for mount in (m, off):
            (mount.tensor("m", "model.norm.weight") / "stats.json").read_bytes()
        wait_fresh(on, "s")  # by then the others could have begun
        for mount in (m, off):
            assert state(mount, "m") == "none" and done(mount, "m") == 0 < total(mount, "m")
    assert indexes_below(made.path) == []
    for opts in ("index=maybe", "index=", "index"):
        failed = tmorph("mount", "-o", opts, made.path, folder("mnt"), check=2)
        assert "index" in failed.stderr, failed.stderr


def test_new_weights_are_indexed_anew():
    made, new = small(folder("src") / "m"), small(folder("new"), seed=5)
    with Mount(f"m={made.path}", opts="index=on") as m:
        wait_fresh(m, "m")
        os.replace(new.path / "model.safetensors", made.path / "model.safetensors")
        wait_until(lambda: "opened anew" in log_of(m), what="the new weights")
        wait_fresh(m, "m")
        check_statistics(m, "m", new)
        assert log_of(m).count("m: indexed: 7 tensors in 1 files") == 2


# ---------------------------------------------------------------- ctl


def test_a_command_has_one_source_indexed_and_once():
    made, other = small(folder("src") / "m", shards=2), small(folder("src") / "o")
    with Mount(f"m={made.path}", f"o={other.path}") as m:
        assert state(m, "m") == "none"
        for _ in range(3):
            m.command("index m")
        wait_fresh(m, "m")
        assert done(m, "m") == total(m, "m")
        check_statistics(m, "m", made)
        read = process_io(m.pid, "wchar")
        m.command("index m")  # finds all of it there
        m.command("index o")
        wait_fresh(m, "o")
        log = log_of(m)
        assert log.count("m: indexed: 7 tensors in 2 files") == 1, log
        assert log.count("o: indexed: 7 tensors in 1 files") == 1, log
        assert process_io(m.pid, "wchar") > read


def test_what_cannot_be_indexed_is_refused_with_words():
    plain = folder("plain")
    (plain / "notes.txt").write_text("no weights\n")
    made = small(folder("src") / "m")
    with Mount(f"m={made.path}", f"plain={plain}") as m:
        for command, words in (("index nothing", "'nothing' is not mounted"),
                               ("index m/x", "'m/x' is not mounted"),
                               ("index plain", "ctl: index plain: it has no tensors"),
                               ("cancel nothing", "'nothing' is not mounted"),
                               ("index", "ctl: 'index': a command and its argument"),
                               ("cancel", "ctl: 'cancel': a command and its argument"),
                               ("index m\nindex m", "ctl: one command a write")):
            assert error_name(m.command, command) == "EINVAL", command
            assert words in log_of(m), command
        m.command("cancel m")  # of which nothing is under way
        assert state(m, "m") == "none" and indexes_below(made.path) == []


def test_a_member_is_indexed_by_its_name():
    run = folder("src") / "run"
    for name in ("a", "b"):
        small(run / name)
    with Mount(f"run={run}") as m:
        assert state(m, "run/a") == state(m, "run/b") == "none"
        m.command("index run/a")
        wait_fresh(m, "run/a")
        assert state(m, "run/b") == "none"
        m.command("index run")
        wait_fresh(m, "run/b")


def test_another_folder_takes_the_indexes_and_has_them():
    made, indexes = small(folder("src") / "m", shards=2), folder("indexes") / "new"
    run = folder("src") / "run"
    small(run / "a")
    with Mount(f"m={made.path}", f"run={run}", opts=f"index-dir={indexes},index=on") as m:
        wait_fresh(m, "m", "run/a")
        check_statistics(m, "m", made)
    assert indexes_below(made.path) == indexes_below(run) == []
    assert indexes_below(indexes) == ["a/model.safetensors.tmidx",
                                      *(f"{f}.tmidx" for f in sorted(set(made.files.values())))]
    with Mount(f"m={made.path}", opts=f"index-dir={indexes}") as m:
        assert state(m, "m") == "fresh"
        assert len(Query(m.model("m"), "q").write("n > 0").matches()) == 7
    with Mount(f"m={made.path}") as m:
        assert state(m, "m") == "none"


def test_sources_whose_files_have_one_name_share_another_folder():
    """As almost all have that are one file."""
    made = {name: small(folder("src") / name, seed=i) for i, name in enumerate("ab")}
    sources = [f"{name}={c.path}" for name, c in made.items()]
    indexes, out = folder("indexes"), folder("out")
    with Mount(*sources, opts=f"index-dir={indexes},index=on") as m:
        wait_until(lambda: all(f"{n}: indexed" in log_of(m) for n in made), MADE_SECONDS, "both")
        m.command("reload a")  # looks at once, as a second later
        assert [state(m, n) for n in made] == ["fresh", "fresh"]
    tmorph("index", "--out", out, *(c.path for c in made.values()), check=0)
    with Mount(*sources, opts=f"index-dir={out}") as m:
        assert [state(m, n) for n in made] == ["fresh", "fresh"]


# ---------------------------------------------------------------- in the midst


@contextlib.contextmanager
def held(slow, m, model, command):
    """Has COMMAND index MODEL, whose source gives no bytes until the block ends."""
    slow.hold("read", ".safetensors")
    m.command(command)
    wait_until(lambda: state(m, model) == "partial", what="the beginning")
    yield
    slow.let_go()


def test_a_cancel_stops_it_and_it_goes_on_later():
    indexes = folder("indexes")
    with SlowFolder() as slow:
        made = small(slow.real / "m")
        with Mount(f"m={slow.path}/m", opts=f"index-dir={indexes}") as m:
            assert state(m, "m") == "none"
            with held(slow, m, "m", "index m"):
                m.command("index m")
                m.command("cancel m")
            wait_until(lambda: state(m, "m") == "none", MADE_SECONDS, "the end of it")
            assert "m: indexing was stopped; it goes on where it was" in log_of(m)
            assert not [n for n in indexes_below(indexes) if n.endswith((".tmidx", ".tmp"))]
            m.command("index m")
            wait_fresh(m, "m")
            check_statistics(m, "m", made)
            assert indexes_below(indexes) == ["model.safetensors.tmidx"]


def test_a_collection_is_cancelled_while_a_member_is_opened():
    indexes = folder("indexes")
    with SlowFolder() as slow:
        for name in ("a", "b"):
            small(slow.real / "run" / name)
        with Mount(f"run={slow.path}/run", opts=f"index-dir={indexes}") as m:
            slow.hold("read", ".safetensors")
            m.command("index run")
            wait_until(lambda: lane(m)["running"] != "0", what="the header of the first member")
            m.command("cancel run")
            slow.let_go()
            m.command("add last=" + str(small(folder("src") / "last", shards=3).path))
            m.command("index last")
            wait_fresh(m, "last")  # whose turn comes when the run's is over
            assert [state(m, f"run/{n}") for n in "ab"] == ["none", "none"]


def test_readers_do_not_wait_for_it():
    made = big(folder("src") / "m")
    with Mount(f"m={made.path}", opts="index=on,threads=1") as m:
        at = m.tensor("m", "big.3.weight")
        values = made.values("big.3.weight")
        seconds = []
        while state(m, "m") != "fresh" and len(seconds) < 60:
            row = len(seconds)
            start = time.monotonic()
            assert np.float32((at / f"at/{row},5").read_text()) == values[row, 5] or \
                np.isnan(values[row, 5])
            got = np.load(at / f"rows/{row}.npy")
            seconds.append(time.monotonic() - start)
            assert np.array_equal(got, values[row], equal_nan=True)
        assert sorted(seconds)[len(seconds) // 2] < 0.5, seconds
        assert "statistics" not in log_of(m)


def test_what_somebody_asks_for_is_computed_before_it():
    with SlowFolder() as slow:
        made = small(slow.real / "m")
        other = small(folder("src") / "o")
        indexes = folder("indexes")
        with Mount(f"m={slow.path}/m", f"o={other.path}", opts=f"index-dir={indexes}") as m:
            with held(slow, m, "m", "index m"):
                at = m.tensor("o", "model.norm.weight")
                assert float((at / "stats/n").read_text()) == 16
                assert state(m, "o") == "none"
                m.command("index o")  # waits for its turn
                assert state(m, "o") == "partial" and done(m, "o") == 0
            wait_fresh(m, "m", "o")
            check_statistics(m, "m", made)


def check_unfinished(where):
    """No index stands below WHERE, not half of one either; the log of what is done may."""
    left = indexes_below(where)
    assert left in ([], ["model.safetensors.tmidx.part"]), left


def test_the_mount_ends_in_the_midst():
    indexes = folder("indexes")
    with SlowFolder() as slow:
        small(slow.real / "m")
        for number in (signal.SIGTERM, signal.SIGINT):
            m = Mount(f"m={slow.path}/m", opts=f"index-dir={indexes}")
            m.__enter__()
            with held(slow, m, "m", "index m"):
                os.kill(m.pid, number)
                wait_until(lambda p=m: str(p.path) not in tmtest.mount_points(), 20, "its end")
            wait_until(lambda p=m: tmtest.daemon_pid(p.path) is None, 20, "the end of the daemon")
            check_unfinished(indexes)
        with Mount(f"m={slow.path}/m", opts=f"index-dir={indexes}") as m:
            assert state(m, "m") == "none"
            m.command("index m")
            wait_fresh(m, "m")
        assert indexes_below(indexes) == ["model.safetensors.tmidx"]
    tmtest.check_sanitizers()


def test_after_a_kill_the_next_goes_on_and_makes_the_same():
    made = big(folder("src") / "m")
    clean = folder("clean")
    tmorph("index", "--out", clean, made.path, check=0)
    m = Mount(f"m={made.path}", opts="index=on")
    m.__enter__()
    wait_until(lambda: state(m, "m") != "none", MADE_SECONDS, "the beginning")
    os.kill(m.pid, signal.SIGKILL)
    wait_until(lambda: tmtest.daemon_pid(m.path) is None, 20, "the end of the daemon")
    tmorph("umount", m.path, check=0)
    if indexes_below(made.path) != ["model.safetensors.tmidx"]:  # it was done already
        check_unfinished(made.path)
    with Mount(f"m={made.path}") as m:
        m.command("index m")
        wait_fresh(m, "m")
    assert indexes_below(made.path) == ["model.safetensors.tmidx"]
    assert (made.path / "model.safetensors.tmidx").read_bytes() == \
        (clean / "model.safetensors.tmidx").read_bytes()


def test_the_mount_ends_while_others_ask_how_far_it_is():
    made = big(folder("src") / "m")
    for _ in range(3):
        m = Mount(f"m={made.path}", opts="index=on")
        m.__enter__()
        q = Query(m.model("m"), "q").write("absmax > 1")

        def look():
            while not tmtest.read_error(m.model("m") / "index/state"):
                for path in (m.model("m") / "stats.tsv", q.folder / "unknown.tsv"):
                    tmtest.read_error(path)

        threads = [threading.Thread(target=look) for _ in range(4)]
        for thread in threads:
            thread.start()
        os.kill(m.pid, signal.SIGTERM)
        wait_until(lambda: tmtest.daemon_pid(m.path) is None, 20, "the end of the daemon")
        for thread in threads:
            thread.join()
        assert str(m.path) not in tmtest.mount_points()
        assert not [n for n in indexes_below(made.path) if n.endswith(".tmp")]
    tmtest.check_sanitizers()


if __name__ == "__main__":
    tmtest.main(globals())
