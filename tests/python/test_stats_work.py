"""What statistics cost: looking is free, one pass serves all of them, and it ends with its readers;
what was computed stays within the budget.
"""
import contextlib
import os
import signal
import subprocess
import threading
import time

import tmtest

tmtest.need_fuse()
tmtest.need_modules("numpy", "ml_dtypes")

import numpy as np

import checkpoints
import stats_reference as ref
from expect import table
from test_purity import Source, commands
from test_trouble import CAT, PROMPT, SlowFolder, prompt, reader
from tmtest import Mount, folder, process_io, process_status, read_error, wait_until

FILES = ["stats.json", "hist.tsv"] + [f"stats/{key}" for key in ref.KEYS]
REQUESTS = 512 << 10  # bytes that the daemon may read besides: some hundred requests of the kernel


def used(m):
    return int((m.path / ".tmorph/residency/used").read_text())


def fits(m, budget):
    """What is resident fits BUDGET, once nobody uses it: some moments after a reply."""
    return wait_until(lambda: used(m) <= budget, what=f"{used(m)} within {budget} bytes")


def lanes(m):
    return {row["lane"]: row for row in table(m.path / ".tmorph/lanes.tsv")[1]}


def is_idle(m):
    return all(row["queued"] == "0" == row["running"] for row in lanes(m).values())


def read_source(m, action, *args):
    """How many bytes the daemon read while ACTION ran."""
    before = process_io(m.pid, "rchar")
    action(*args)
    return process_io(m.pid, "rchar") - before


def forget(path):
    """Drops the kernel's pages of PATH, so that its next read comes to the daemon."""
    with open(path, "rb") as f:
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def big(path, mebibytes=24):
    """One tensor of several blocks."""
    rng = np.random.default_rng(1)
    return checkpoints.write_checkpoint(path, {
        "big": checkpoints.random_bits("BF16", (mebibytes << 9, 1024), rng),
        "small": checkpoints.random_bits("BF16", (16, 16), rng)})



# ---------------------------------------------------------------- looking is free


def test_walking_computes_nothing():
    source = Source()
    with Mount(f"m={source.made.path}") as m:
        at = m.tensor("m", "model.embed_tokens.weight")
        source.drop()
        for command in commands(str(m.models)):
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  check=False).stdout
            if command == ["find", str(m.models)] or command[:2] == ["ls", "-lR"]:
                assert done.count(b"hist.tsv") == len(source.made.tensors), command
        for file in FILES:
            (at / file).stat()
        assert source.resident() == 0 and used(m) == 0
        assert lanes(m)["4-analysis"]["done"] == "0"
        read_error(at / "stats/mean")
        assert source.resident() > 0 and used(m) > 0, "this test would see what is read"


# ---------------------------------------------------------------- one pass


def test_one_pass_serves_all_files_of_a_tensor():
    made = big(folder("src") / "m")
    size = len(made.tensors["big"].raw)
    with Mount(f"m={made.path}") as m:
        at = m.tensor("m", "big")
        assert size <= read_source(m, (at / "hist.tsv").read_bytes) < size + REQUESTS
        assert read_source(m, lambda: [(at / f).read_bytes() for f in FILES]) < REQUESTS
        first = (at / "stats.json").read_bytes()
        for file in FILES:
            forget(at / file)
        assert read_source(m, lambda: [(at / f).read_bytes() for f in FILES]) < REQUESTS
        assert (at / "stats.json").read_bytes() == first
        m.command("drop m")
        forget(at / "stats.json")
        assert size <= read_source(m, (at / "stats.json").read_bytes) < size + REQUESTS
        assert (at / "stats.json").read_bytes() == first


def test_readers_at_once_share_one_pass():
    made = big(folder("src") / "m")
    size = len(made.tensors["big"].raw)
    with Mount(f"m={made.path}") as m:
        at = m.tensor("m", "big")

        def read_all():
            threads = [threading.Thread(target=(at / f).read_bytes) for f in FILES]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        assert size <= read_source(m, read_all) < size + REQUESTS


def test_a_pass_counts_for_its_lane_and_for_residency():
    made = big(folder("src") / "m")
    with Mount(f"m={made.path}") as m:
        for name in made.tensors:
            (m.tensor("m", name) / "stats.json").read_bytes()
        rows = {r["tensor"]: r for r in table(m.path / ".tmorph/residency.tsv")[1]}
        assert set(rows) == set(made.tensors)
        assert {r["lane"] for r in rows.values()} == {"4-analysis"}
        assert sum(int(r["host_bytes"]) for r in rows.values()) == used(m)
        lane = lanes(m)["4-analysis"]
        assert int(lane["done"]) > 0 and int(lane["bytes"]) > 0, lane
        wait_until(lambda: is_idle(m), what="the end of the jobs")


def test_what_a_higher_lane_wants_overtakes():
    made = big(folder("src") / "m", 64)
    with Mount(f"m={made.path}", opts="threads=1") as m:
        at = m.tensor("m", "big")
        thread = threading.Thread(target=(at / "stats.json").read_bytes)
        thread.start()
        seconds = []
        while thread.is_alive() and len(seconds) < 50:
            start = time.monotonic()
            float((at / f"at/{len(seconds)},3").read_text())
            seconds.append(time.monotonic() - start)
        thread.join()
        assert sorted(seconds)[len(seconds) // 2] < 1, seconds


# ---------------------------------------------------------------- readers that go away


def test_killed_readers_leave_no_work_behind():
    with SlowFolder() as slow:
        made = big(slow.real / "m", 40)
        with Mount(f"m={slow.path}/m") as m:
            at = m.tensor("m", "big")
            (m.tensor("m", "small") / "stats.json").read_bytes()
            before, served = used(m), process_io(m.pid, "rchar")
            for number in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
                slow.hold("read")
                with contextlib.ExitStack() as stack:
                    readers = [stack.enter_context(reader(CAT, at / file))
                               for file in FILES[:4]]
                    wait_until(lambda: not is_idle(m), what="a pass that hangs")
                    time.sleep(0.3)
                    for process in readers:
                        assert process.poll() is None, "it does not hang"
                        process.send_signal(number)
                    for process in readers:
                        prompt(lambda p=process: p.wait(PROMPT))
                slow.let_go()
                wait_until(lambda: is_idle(m), what="the end of what was begun")
                assert used(m) == before, number
            # of what was begun, some blocks came after all; no pass went on
            size = len(made.tensors["big"].raw)
            assert process_io(m.pid, "rchar") - served < 3 * size // 2
            assert f'"n": {size // 2},' in (at / "stats.json").read_text()
            assert used(m) > before


def test_one_reader_that_goes_leaves_the_pass_to_the_others():
    with SlowFolder() as slow:
        made = big(slow.real / "m")
        with Mount(f"m={slow.path}/m") as m:
            at = m.tensor("m", "big")
            slow.hold("read")
            before = process_io(m.pid, "rchar")
            with reader(CAT, at / "stats.json") as gone, reader(CAT, at / "hist.tsv") as stays:
                wait_until(lambda: not is_idle(m), what="a pass that hangs")
                time.sleep(0.3)
                gone.kill()
                prompt(lambda: gone.wait(PROMPT))
                assert stays.poll() is None
                slow.let_go()
                assert stays.wait(20) == 0
            size = len(made.tensors["big"].raw)
            assert process_io(m.pid, "rchar") - before < size + REQUESTS
            assert used(m) > 0


def test_a_pass_that_takes_too_long_fails_with_words():
    with SlowFolder() as slow:
        small = checkpoints.llama(slow.real / "m", layers=1, hidden=32, shards=1)
        with Mount(f"m={slow.path}/m", opts="timeout=1") as m:
            at = m.tensor("m", "model.norm.weight")
            slow.hold("read")
            assert read_error(at / "stats.json") == "ETIMEDOUT"
            assert "no answer within the time limit" in m.words("m")
            slow.let_go()
            wait_until(lambda: not read_error(at / "stats.json"), what="another try")
            assert f'"n": {small.tensors["model.norm.weight"].elems},' in \
                (at / "stats.json").read_text()


def test_a_source_that_shrinks_fails_and_is_not_remembered():
    made = big(folder("src") / "m")
    file = made.path / "model.safetensors"
    whole = file.read_bytes()
    with Mount(f"m={made.path}") as m:
        at = m.tensor("m", "big")
        with open(file, "r+b") as f:
            f.truncate(len(whole) - (8 << 20))
        assert read_error(at / "stats.json") in ("ESTALE", "EBADMSG", "EIO"), "no numbers"
        file.write_bytes(whole)
        wait_until(lambda: not read_error(at / "stats.json"), what="the source as it was")
        assert f'"n": {made.tensors["big"].elems},' in (at / "stats.json").read_text()


# ---------------------------------------------------------------- memory


COUNT = 300


def many(path):
    rng = np.random.default_rng(2)
    return checkpoints.write_checkpoint(path, {f"t{i:03}": checkpoints.normal("BF16", (48, 64), rng)
                                               for i in range(COUNT)})


def expected_head(tensor):
    want = ref.record(tensor.dtype, ref.stored(tensor))
    return {key: want[key] for key in ("n", "zero_count", "absmax_index", "distinct")}


def has(m, name, want):
    return all(int((m.tensor("m", name) / "stats" / key).read_text()) == value
               for key, value in want.items())


def test_what_was_computed_stays_within_the_budget():
    made = many(folder("src") / "m")
    budget = 200 << 10
    with Mount(f"m={made.path}", opts="budget=200K") as m:
        texts = {}
        for name in made.tensors:
            texts[name] = (m.tensor("m", name) / "stats.json").read_bytes()
            assert fits(m, budget) and used(m) > 0
        kept = {r["tensor"] for r in table(m.path / ".tmorph/residency.tsv")[1]}
        assert 0 < len(kept) < COUNT and f"t{COUNT - 1:03}" in kept and "t000" not in kept
        # what went is computed again, and is the same
        for name in list(made.tensors)[::7]:
            assert has(m, name, expected_head(made.tensors[name])), name
            forget(m.tensor("m", name) / "stats.json")
            assert (m.tensor("m", name) / "stats.json").read_bytes() == texts[name]
            assert fits(m, budget)


def test_the_budget_may_be_smaller_than_any_tile():
    made = many(folder("src") / "m")
    with Mount(f"m={made.path}", opts="budget=1K") as m:
        for name in list(made.tensors)[:20]:
            assert has(m, name, expected_head(made.tensors[name])), name
            assert fits(m, 1024)
        # a file of several windows, from a tile that has no room
        rows = table(m.tensor("m", "t021") / "hist.tsv")[1]
        assert sum(int(r["count"]) for r in rows) == 48 * 64


def test_budget_and_drop_take_effect_at_once():
    made = many(folder("src") / "m")
    other = checkpoints.llama(folder("src") / "o", layers=1)
    with Mount(f"m={made.path}", f"o={other.path}") as m:
        (m.tensor("o", "model.norm.weight") / "stats.json").read_bytes()
        others = used(m)
        names = list(made.tensors)
        first = {n: (m.tensor("m", n) / "stats.json").read_bytes() for n in names}
        assert used(m) > others
        m.command("budget 64K")
        assert int((m.path / ".tmorph/residency/budget").read_text()) == 64 << 10
        assert fits(m, 64 << 10) and used(m) > 0
        m.command("budget 1G")
        for name in names:
            (m.tensor("m", name) / "stats/n").read_bytes()
            (m.tensor("m", name) / "stats/min").read_bytes()
        (m.tensor("o", "model.norm.weight") / "stats/n").read_bytes()
        assert used(m) > 64 << 10
        m.command("drop m")
        wait_until(lambda: used(m) == others, what="what is left")
        assert {r["model"] for r in table(m.path / ".tmorph/residency.tsv")[1]} == {"o"}
        forget(m.tensor("m", "t007") / "stats.json")
        assert (m.tensor("m", "t007") / "stats.json").read_bytes() == first["t007"]
        assert used(m) > others
        assert tmtest.error_name(m.command, "drop x") == "EINVAL"
        assert tmtest.error_name(m.command, "budget 0") == "EINVAL"
        m.command("remove m")
        wait_until(lambda: used(m) == others, what="what is left")


def test_a_changed_source_has_other_statistics():
    made = many(folder("src") / "m")
    with Mount(f"m={made.path}") as m:
        assert has(m, "t000", expected_head(made.tensors["t000"]))
        before = used(m)
        new = checkpoints.write_checkpoint(folder("src") / "n", {
            "t000": checkpoints.random_bits("BF16", (48, 65), np.random.default_rng(5))})
        os.replace(new.path / "model.safetensors", made.path / "model.safetensors")
        m.command("reload m")
        wait_until(lambda: used(m) < before, what="the end of what was computed of the old one")
        assert has(m, "t000", expected_head(new.tensors["t000"]))


def test_the_daemon_keeps_little_more_than_it_says():
    if tmtest.is_sanitized():
        raise tmtest.Skip("a sanitizer keeps what is freed")
    made = many(folder("src") / "m")
    with Mount(f"m={made.path}") as m:
        names = list(made.tensors)

        def read(some):
            for name in some:
                (m.tensor("m", name) / "stats.json").read_bytes()
            return used(m), process_status(m.pid, "RssAnon") << 10

        begun, start = read(names[:100])  # all threads have what they work with
        said, end = read(names)
        assert end - start < 4 * (said - begun) + (12 << 20), (end - start, said - begun)


if __name__ == "__main__":
    tmtest.main(globals())
