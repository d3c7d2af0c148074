"""Sources that hang, lead into the mount or never stay; readers with signals; sudden ends."""
import contextlib
import ctypes
import mmap
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import tmtest

tmtest.need_fuse()
tmtest.need_modules("numpy", "ml_dtypes")

import numpy as np

import checkpoints
from tmtest import Mount, error_name, folder, read_error, wait_until

SLOW_FS = pathlib.Path(os.environ.get("TM_SLOW_FS", tmtest.TMORPH.parents[1] / "tests/slow_fs"))
PROMPT = 5.0  # seconds that nothing takes which waits for nobody
NAME = "model.norm.weight"


class SlowFolder:
    """with SlowFolder() as slow: slow.made a checkpoint's files, slow.path the same by slow_fs.

    READ_MS: what each read takes; what was read stays in the page cache then.
    """

    def __init__(self, read_ms=0):
        self.read_ms = read_ms
        self.real = folder("real")
        self.path = folder("slow")

    def __enter__(self):
        delay = [str(self.read_ms)] if self.read_ms else []
        self.server = subprocess.Popen([SLOW_FS, self.real, self.path, *delay])
        wait_until(lambda: str(self.path) in tmtest.mount_points(), what="slow_fs")
        return self

    def __exit__(self, *_):
        self.let_go()
        wait_until(self._unmounted, tmtest.UMOUNT_SECONDS, "end of slow_fs")
        self.server.wait(tmtest.UMOUNT_SECONDS)

    def _unmounted(self):
        return subprocess.run(["fusermount3", "-u", self.path], check=False,
                              stderr=subprocess.DEVNULL).returncode == 0

    def hold(self, what, part=""):
        new = self.real / ".slow.new"
        new.write_text(f"{what} {part}\n")
        os.replace(new, self.real / ".slow")

    def let_go(self):
        (self.real / ".slow").unlink(missing_ok=True)


@contextlib.contextmanager
def reader(code, *paths):
    """A process that runs CODE with PATHS as sys.argv[1:]; killed at the end."""
    process = subprocess.Popen([sys.executable, "-c", code, *map(str, paths)],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait(PROMPT)
        process.stdout.close()


# SIGINT ends it as it ends cat: the kernel lets a page be waited for by whoever handles a signal.
CAT = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
open(sys.argv[1], 'rb').read()
"""


def small(path, seed=1):
    return checkpoints.llama(path, layers=1, hidden=32, shards=1, seed=seed)


def prompt(action):
    """Runs ACTION; fails where it takes longer than what waits for nobody."""
    start = time.monotonic()
    value = action()
    assert time.monotonic() - start < PROMPT, f"{time.monotonic() - start:.1f} s"
    return value


def is_right(m, made, model):
    got = np.load(m.tensor(model, NAME) / "data.npy")
    return np.array_equal(got, made.values(NAME))


# ---------------------------------------------------------------- sources that hang


def test_a_hanging_member_leaves_other_sources_alone():
    fast = small(folder("fast"))
    with SlowFolder() as slow, contextlib.ExitStack() as stack:
        for i in range(30):
            small(slow.real / f"step-{i}")
        with Mount(f"slow={slow.path}", f"fast={fast.path}") as m:
            slow.hold("read")
            for i in range(30):
                stack.enter_context(reader(CAT, m.models / f"slow/step-{i}/state"))
            time.sleep(0.5)
            for _ in range(20):
                assert prompt(lambda: is_right(m, fast, "fast"))
                prompt(lambda: m.command("reload fast"))
            slow.let_go()
            assert wait_until(lambda: m.state("slow/step-29") == "ready", 20)
            stack.close()


def test_many_hanging_sources_leave_another_alone():
    fast = small(folder("fast"))
    with SlowFolder() as slow, contextlib.ExitStack() as stack:
        for i in range(12):
            small(slow.real / f"m{i}")
        with Mount(*[f"s{i}={slow.path}/m{i}" for i in range(12)], f"fast={fast.path}") as m:
            slow.hold("all")
            for i in range(12):
                for _ in range(3):
                    stack.enter_context(reader(CAT, m.load / f"s{i}/model.safetensors"))
                    stack.enter_context(reader(CAT, m.tensor(f"s{i}", NAME) / "data.npy"))
            time.sleep(1.5)  # the watcher hangs on them as well
            for _ in range(20):
                assert prompt(lambda: is_right(m, fast, "fast"))
                assert prompt(lambda: (m.load / "fast/config.json").read_bytes())
            # changes of the fast one are seen
            made = small(folder("new"), seed=2)
            os.replace(made.path / "model.safetensors", fast.path / "model.safetensors")
            wait_until(lambda: is_right(m, made, "fast"), what="a change beside sources that hang")
            slow.let_go()
            stack.close()


def test_readers_of_a_hanging_source_can_be_killed():
    with SlowFolder() as slow:
        small(slow.real / "in")
        with Mount(f"slow={slow.path}") as m:
            assert m.state("slow/in") == "ready"
            numbers = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
            late = {number: slow.real / f"late-{number}" for number in numbers}
            for path in late.values():
                small(path)
            wait_until(lambda: {p.name for p in late.values()} <= set(os.listdir(m.load / "slow")),
                       what="new members")
            for number in numbers:
                new = m.models / "slow" / late[number].name / "state"
                for what, path in (("look", new), ("open", m.load / "slow/in/config.json"),
                                   ("read", m.tensor("slow/in", NAME) / "data.npy")):
                    slow.hold(what)
                    with reader(CAT, path) as process:
                        time.sleep(0.3)
                        assert process.poll() is None, f"{what}: it does not hang"
                        process.send_signal(number)
                        prompt(lambda p=process: p.wait(PROMPT))
                    slow.let_go()
                wait_until(lambda p=new: not read_error(p), what="the member that was given up")
                m.command("reload slow")  # so that no page is kept
                assert m.state("slow/in") == "ready"


def test_what_hangs_is_answered_when_its_time_is_up():
    with SlowFolder() as slow:
        small(slow.real / "in")
        with Mount(f"slow={slow.path}", opts="timeout=1") as m:
            data = m.tensor("slow/in", NAME) / "data.npy"
            assert not read_error(data)
            small(slow.real / "late")
            wait_until(lambda: "late" in os.listdir(m.load / "slow"), what="a new member")
            for what, path in (("read", m.tensor("slow/in", "model.embed_tokens.weight") / "raw"),
                               ("open", m.load / "slow/in/config.json")):
                slow.hold(what)
                assert read_error(path) == "ETIMEDOUT", what
                slow.let_go()
                wait_until(lambda p=path: not read_error(p), what=f"a read after the {what}")
            # an opening that takes longer than that goes on, and serves who asks again
            slow.hold("read")
            assert read_error(m.models / "slow/late/state") == "ETIMEDOUT"
            slow.let_go()
            wait_until(lambda: not read_error(m.models / "slow/late/state"), what="an opening")


def test_looks_after_many_hanging_sources_leave_threads():
    fast = small(folder("fast"))
    count = 70  # more than there are openers
    with SlowFolder() as slow:
        for i in range(count):
            small(slow.real / f"m{i}")
        names = [f"s{i}={slow.path}/m{i}" for i in range(count)]
        with Mount(*names, f"fast={fast.path}", opts="timeout=3") as m:
            slow.hold("look")
            time.sleep(2.5)  # all of them are being looked at
            assert not prompt(lambda: read_error(m.load / "fast/config.json"))
            prompt(lambda: m.command("reload fast"))
            assert prompt(lambda: is_right(m, fast, "fast"))
            slow.let_go()


def test_descriptions_and_commands_of_a_hanging_source_leave_threads():
    fast = small(folder("fast"))
    with SlowFolder() as slow:
        small(slow.real / "m")
        with Mount(f"s={slow.path}/m", f"fast={fast.path}", opts="timeout=1") as m:
            (m.models / "s/model.json").stat()
            slow.hold("read")
            threads = [threading.Thread(target=read_error, args=(m.models / "s/model.json",))
                       for _ in range(12)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert not prompt(lambda: read_error(m.models / "fast/model.json"))
            slow.hold("all")
            for _ in range(6):
                assert error_name(m.command, "reload s") == "ETIMEDOUT"
            prompt(lambda: m.command("reload fast"))
            prompt(lambda: m.command("remove s"))
            assert "no answer within the time limit" in (m.path / ".tmorph/log").read_text()
            slow.let_go()


def test_a_member_that_is_late_is_nobody_elses():
    other = folder("other")
    small(other / "x", seed=9)
    with SlowFolder() as slow:
        small(slow.real / "coll/x", seed=1)
        with Mount(f"c={slow.path}/coll") as m:
            slow.hold("read", "/coll/x/")
            path = m.load / "c/x/model.safetensors"
            thread = threading.Thread(target=read_error, args=(path,))
            thread.start()
            time.sleep(0.5)
            m.command("remove c")
            m.command(f"add c={other}")
            slow.let_go()
            thread.join()
            assert path.read_bytes() == (other / "x/model.safetensors").read_bytes()


def test_a_stuck_daemon_can_be_unmounted():
    made = small(folder("m"))
    m = Mount(f"m={made.path}")
    m.__enter__()
    os.kill(m.pid, signal.SIGSTOP)
    try:
        prompt(lambda: tmtest.tmorph("umount", m.path, check=0))
    finally:
        os.kill(m.pid, signal.SIGCONT)
    wait_until(lambda: tmtest.daemon_pid(m.path) is None, 10, "the end of the daemon")


def test_the_mount_ends_while_its_source_hangs():
    with SlowFolder() as slow:
        small(slow.real / "in")
        with contextlib.ExitStack() as stack:
            m = Mount(f"slow={slow.path}")
            m.__enter__()
            assert m.state("slow/in") == "ready"
            slow.hold("all")
            for _ in range(8):
                stack.enter_context(reader(CAT, m.tensor("slow/in", NAME) / "data.npy"))
                stack.enter_context(reader(CAT, m.load / "slow/in/model.safetensors"))
            time.sleep(0.5)
            os.kill(m.pid, signal.SIGTERM)
            wait_until(lambda: str(m.path) not in tmtest.mount_points(), 10, "the end of the mount")
            slow.let_go()
            wait_until(lambda: tmtest.daemon_pid(m.path) is None, 10, "the end of the daemon")


# ---------------------------------------------------------------- signals that end nobody

TICKING = """
import ctypes, mmap, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
fd = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(fd).st_size
if sys.argv[2] == "mmap":
    got = mmap.mmap(fd, size, prot=mmap.PROT_READ)[:]
else:
    bytes = ctypes.create_string_buffer(size)
    n = libc.pread(fd, bytes, ctypes.c_size_t(size), ctypes.c_long(0))
    got = bytes.raw if n == size else b"error %d" % ctypes.get_errno()
sys.stdout.write(got.hex())
"""


def test_timers_and_children_end_no_read():
    with SlowFolder() as slow:
        made = small(slow.real / "m")
        with Mount(f"m={slow.path}/m") as m:
            raw = m.tensor("m", NAME) / "raw"
            for how in ("pread", "mmap"):
                slow.hold("read")
                with reader(TICKING, raw, how) as process:
                    time.sleep(1)
                    assert process.poll() is None, f"{how}: ended by a timer's signal"
                    slow.let_go()
                    got = process.communicate(timeout=PROMPT)[0]
                    assert bytes.fromhex(got) == made.tensors[NAME].raw, (how, got[:80])
                m.command("reload m")  # so that no page is kept


# ---------------------------------------------------------------- sources in the mount itself


def test_a_link_into_the_mount_ends_there():
    made = small(folder("m"))
    base = folder("base")
    with Mount(f"m={made.path}", base=base) as m:
        (made.path / "loop").symlink_to(m.load / "m")
        (made.path / "one.txt").symlink_to(m.models / "m/model.json")
        m.command("reload m")
        assert prompt(lambda: sorted(p.name for p in (m.load / "m").iterdir())), "nothing"
        tmtest.listing(m.load)  # no end would be a time-out
        assert prompt(lambda: is_right(m, made, "m"))
        run = folder("run")
        small(run / "a")
        (run / "b").symlink_to(m.load / "m")
        (run / "c").symlink_to(m.load)
        prompt(lambda: m.command(f"add run={run}"))
        prompt(lambda: list(tmtest.listing(m.load / "run")))
        assert m.state("run/a") == "ready"
        for source in (m.path, m.load, m.load / "m", m.load / "run/a/model.safetensors"):
            assert prompt(lambda s=source: error_name(m.command, f"add x={s}")) == "ELOOP", source
        assert "leads into this mount" in m.words("m")
        assert not (m.load / "x").exists()


# ---------------------------------------------------------------- changes all the time


def replace_weights(made, seed):
    new = small(folder("new"), seed=seed)
    os.replace(new.path / "model.safetensors", made.path / "model.safetensors")
    return new


def test_parallel_opens_of_a_replaced_file_open_it_anew_once():
    made = small(folder("m"))
    with Mount(f"m={made.path}") as m:
        for seed in range(2, 6):
            assert not read_error(m.load / "m/model.safetensors")
            new = replace_weights(made, seed)
            errors = []
            path = m.load / "m/model.safetensors"
            want = (new.path.parent / made.path / "model.safetensors").read_bytes()

            def read():
                try:
                    assert path.read_bytes() == want
                except Exception as e:
                    errors.append(e)

            threads = [threading.Thread(target=read) for _ in range(16)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert not errors, errors[:3]
        log = (m.path / ".tmorph/log").read_text()
        assert log.count("was opened anew") == 4, log


def test_a_growing_log_disturbs_nobody():
    made = small(folder("m"))
    log = made.path / "train.log"
    log.write_text("0")
    with Mount(f"m={made.path}") as m:
        numbers = [(m.models / "m").stat().st_ino, (m.load / "m").stat().st_ino,
                   (m.load / "m/model.safetensors").stat().st_ino]
        fd = os.open(m.load / "m/model.safetensors", os.O_RDONLY)
        deadline = time.monotonic() + 3.5
        while time.monotonic() < deadline:
            with open(log, "a") as f:
                f.write("a line\n")
            assert is_right(m, made, "m")
            time.sleep(0.02)
        wait_until(lambda: (m.load / "m/train.log").read_text() == log.read_text(), what="the log")
        assert numbers == [(m.models / "m").stat().st_ino, (m.load / "m").stat().st_ino,
                           (m.load / "m/model.safetensors").stat().st_ino]
        assert os.pread(fd, 1 << 20, 0) == (made.path / "model.safetensors").read_bytes()
        os.close(fd)
        assert "opened anew" not in (m.path / ".tmorph/log").read_text()


def test_members_may_lose_their_weights_and_get_some():
    run = folder("run")
    small(run / "a")
    small(run / "b")
    small(run / "deep/c")
    (run / "late/d").mkdir(parents=True)
    with Mount(f"run={run}") as m:
        (run / "b/model.safetensors").unlink()
        read_error(m.models / "run/b/state")
        (run / "deep/c/model.safetensors").unlink()
        wait_until(lambda: not (m.models / "run/b").exists(), what="the end of b")
        wait_until(lambda: not (m.models / "run/deep").exists(), what="the end of deep")
        assert m.state("run/a") == "ready"
        small(run / "late/d")
        wait_until(lambda: not read_error(m.models / "run/late/d/state"), what="a late member")
        assert "late" in os.listdir(m.models / "run")


def test_a_list_goes_on_while_files_come_and_go():
    made = small(folder("many"))
    count = 3000  # more than the kernel takes at once
    for i in range(count):
        (made.path / f"file-{i:05}-with-a-long-name").touch()
    with Mount(f"m={made.path}") as m:
        names = set(os.listdir(made.path))
        listed = os.scandir(m.load / "m")
        seen = [next(listed).name for _ in range(100)]
        gone = {f"file-{i:05}-with-a-long-name" for i in range(50)}
        for name in gone:
            (made.path / name).unlink()
        (made.path / "aaa-new").touch()
        wait_until(lambda: (m.load / "m/aaa-new").exists(), what="a new file")
        seen += [entry.name for entry in listed]
        assert len(seen) == len(set(seen)), "listed twice"
        assert not names - gone - set(seen), sorted(names - gone - set(seen))[:3]


BUSY = """
import os, sys
while True:
    for top in ("load", "models"):
        for where, _, files in os.walk(os.path.join(sys.argv[1], top)):
            for f in files:
                try:
                    open(os.path.join(where, f), "rb").read()
                except OSError:
                    pass
"""


def test_signals_end_the_mount_amid_changes_and_readers():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTERM):
        made = small(folder("m"))
        run = folder("run")
        for i in range(4):
            small(run / f"step-{i}")
        m = Mount(f"m={made.path}", f"run={run}")
        m.__enter__()
        with contextlib.ExitStack() as stack:
            for _ in range(4):
                stack.enter_context(reader(BUSY, m.path))
            for seed in range(12):
                replace_weights(made, seed + 2)
                m.command("reload run")
                os.utime(run / f"step-{seed % 4}/model.safetensors")
            os.kill(m.pid, number)
            wait_until(lambda: tmtest.daemon_pid(m.path) is None, 10, "the end of the daemon")
            assert str(m.path) not in tmtest.mount_points()


if __name__ == "__main__":
    tmtest.main(globals())
