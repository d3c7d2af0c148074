"""What the tests from outside share: a scratch folder, a mount with its daemon, a small runner.

Standard library only, since the benchmarks use it too. A test file is a script of functions named
test_*; it ends in `tmtest.main(globals())`, prints a line a test and exits 0, 1, or 77 (skipped).
The environment variable TMORPH names the program (default: build/tools/tmorph of the checkout).
"""
import atexit
import errno
import hashlib
import importlib.util
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
TMORPH = pathlib.Path(os.environ.get("TMORPH", ROOT / "build/tools/tmorph")).absolute()
TEST_SECONDS = 120
UMOUNT_SECONDS = 20
NOTICE_SECONDS = 5.0  # a change is noticed by inotify or a poll of a second; the rest is slack


class Skip(Exception):
    """Raised by a test that cannot run here; says why."""


# ---------------------------------------------------------------- scratch folder

_scratch = None


def scratch():
    """A folder of this script, removed when it ends."""
    global _scratch
    if _scratch is None:
        _scratch = pathlib.Path(tempfile.mkdtemp(prefix="tmtest-"))
        atexit.register(_remove_scratch)
        # so that a run that is given up (by timeout, by meson) leaves nothing mounted either, and
        # so that under nohup the daemons that it starts do not ignore what it ignores
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    return _scratch


def _remove_scratch():
    for point in mount_points(below=_scratch):
        subprocess.run(["fusermount3", "-uz", point], check=False)
    if mount_points(below=_scratch):
        print(f"{_scratch} is left: something is still mounted in it", file=sys.stderr)
        return
    shutil.rmtree(_scratch, ignore_errors=True)


def folder(name):
    """A new empty folder in the scratch folder."""
    return pathlib.Path(tempfile.mkdtemp(prefix=name + "-", dir=scratch()))


def environment():
    """Ours, with caches and state kept out of the home folder, and sanitizers' reports in it.

    A daemon has no terminal to report on, so a report would be lost.
    """
    env = dict(os.environ)
    for name in ("CACHE", "STATE", "DATA", "CONFIG"):
        env[f"XDG_{name}_HOME"] = str(scratch() / f"xdg-{name.lower()}")
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
        env[name] = ":".join(filter(None, [env.get(name), f"log_path={scratch()}/sanitizer"]))
    return env


def check_sanitizers():
    """Fails with the reports that sanitizers left since the last call."""
    reports = list(scratch().glob("sanitizer.*"))
    words = "\n".join(r.read_text(errors="replace")[:4000] for r in reports)
    for report in reports:
        report.unlink()
    assert not reports, words


def is_sanitized():
    """Whether the program carries a sanitizer: its memory then says little."""
    content = TMORPH.read_bytes()
    return b"__asan_init" in content or b"__tsan_init" in content


# ---------------------------------------------------------------- processes and mounts


def mount_points(below=None):
    """The mount points of this namespace, all or those below a folder."""
    points = []
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        point = line.split()[4].encode().decode("unicode_escape")
        if below is None or point == str(below) or point.startswith(str(below) + "/"):
            points.append(point)
    return points


def tmorph(*args, check=None, timeout=60, nofile=None):
    """Runs the program; returns the CompletedProcess with text. `check` is the exit status owed,
    `nofile` the most descriptors it may have.
    """
    limit = nofile and (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (nofile, nofile)))
    done = subprocess.run([str(TMORPH), *map(str, args)], capture_output=True, text=True,
                          timeout=timeout, env=environment(), check=False, preexec_fn=limit)
    if check is not None:
        assert done.returncode == check, (
            f"tmorph {' '.join(map(str, args))}: exit {done.returncode}, not {check}\n"
            f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done


def daemon_pid(mount_point):
    """The process of our program that has the mount point among its arguments, or None."""
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            args = (entry / "cmdline").read_bytes().split(b"\0")
            state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if state != "Z" and os.path.basename(args[0]) == TMORPH.name.encode() \
                and os.fsencode(mount_point) in args and b"umount" not in args:
            return int(entry.name)
    return None


def process_status(pid, key):
    """A number of /proc/PID/status, as RssAnon in KiB."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    raise KeyError(key)


def process_io(pid, key):
    """A number of /proc/PID/io, as rchar."""
    for line in pathlib.Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    raise KeyError(key)


def wait_until(condition, seconds=NOTICE_SECONDS, what="the condition"):
    """Polls CONDITION until it gives something true, which is returned."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.05)


def need_fuse():
    """Skips the whole script where nothing can be mounted, or there is no program."""
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as e:
        skip_all(f"/dev/fuse cannot be opened: {e.strerror}")


def need_modules(*names):
    """Skips the whole script where a Python package is missing."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            skip_all(f"the Python package {name} is not installed")


def skip_all(why):
    print(f"skipped: {why}")
    sys.exit(77)


class Mount:
    """with Mount("name=/source", …, opts="budget=64M") as m: m.path, m.models/…, m.load/…

    Mounting must succeed; so must unmounting, after which no daemon may be left.
    """

    def __init__(self, *sources, opts="", base=None, nofile=None):
        self.sources = [str(s) for s in sources]
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="mnt-", dir=base or scratch()))
        self.log = self.path.with_name(self.path.name + ".log")
        self.opts = ",".join(filter(None, [f"log={self.log}", opts]))
        self.nofile = nofile
        self.models = self.path / "models"
        self.load = self.path / "load"
        self.ctl = self.path / ".tmorph/ctl"
        self.pid = None
        self.seconds = 0.0  # that mounting took

    def __enter__(self):
        start = time.perf_counter()
        tmorph("mount", "-o", self.opts, *self.sources, self.path, check=0, nofile=self.nofile)
        self.seconds = time.perf_counter() - start
        assert str(self.path) in mount_points(), "exit 0, but nothing is mounted"
        self.pid = daemon_pid(self.path)
        assert self.pid, "mounted, but no daemon is found"
        return self

    def __exit__(self, kind, value, trace):
        try:
            self._unmount()
        except Exception:
            self._force()
            if kind is None:
                raise
        finally:
            if kind is not None and kind is not Skip:
                self._show_log()
        os.rmdir(self.path)
        return False

    def _unmount(self):
        done = tmorph("umount", self.path, timeout=UMOUNT_SECONDS)
        assert done.returncode == 0, f"umount: exit {done.returncode}: {done.stderr}"
        assert str(self.path) not in mount_points(), "umount: exit 0, but it is still mounted"
        wait_until(lambda: daemon_pid(self.path) is None, UMOUNT_SECONDS, "end of the daemon")
        check_sanitizers()

    def _force(self):
        if str(self.path) in mount_points():
            subprocess.run(["fusermount3", "-uz", str(self.path)], check=False)
        if self.pid and daemon_pid(self.path) == self.pid:
            os.kill(self.pid, signal.SIGKILL)

    def _show_log(self):
        if self.log.exists():
            print("    daemon's log:", *self.log.read_text(errors="replace").splitlines()[-20:],
                  sep="\n    | ")

    def model(self, name):
        return self.models / name

    def tensor(self, model, name):
        return self.models / model / "tensors" / file_name(name)

    def state(self, model):
        """The first word of the model's state."""
        return (self.models / model / "state").read_text().split()[0]

    def words(self, model):
        """Everything that says why: the model's error and the log of the mount."""
        parts = [self.models / model / "error", self.path / ".tmorph/log"]
        return "\n".join(p.read_text(errors="replace") for p in parts if p.exists())

    def command(self, text):
        with open(self.ctl, "w") as f:
            f.write(text)


# ---------------------------------------------------------------- small helpers


def file_name(name):
    """A tensor name as the tree spells it (names short enough to need no hash)."""
    raw = name if isinstance(name, bytes) else name.encode()
    if raw == b"":
        return "%"
    if raw in (b".", b".."):
        return raw.decode().replace(".", "%2E")
    escaped = b"".join(b"%%%02X" % c if c < 0x20 or c == 0x7f or c in b"/%" else bytes([c])
                       for c in raw)
    return os.fsdecode(escaped)


def error_name(action, *args):
    """The name of the errno that ACTION fails with, '' where it succeeds."""
    try:
        action(*args)
    except OSError as e:
        # Linux has one number under two names
        return "EOPNOTSUPP" if e.errno == errno.EOPNOTSUPP else errno.errorcode[e.errno]
    return ""


def read_error(path):
    """The name of the errno of a look-up, open or read to the end of PATH, '' where all is well."""
    return error_name(lambda: pathlib.Path(path).read_bytes())


def sha256(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def listing(top):
    """Every path below TOP, as a set of relative names; folders end in a slash."""
    found = set()
    for where, folders, files in os.walk(top, followlinks=True):
        base = pathlib.Path(where).relative_to(top)
        found.update(f"{base / f}/" for f in folders)
        found.update(str(base / f) for f in files)
    return found


def same_tree(left, right):
    """Asserts that two folders have the same names and the same bytes."""
    names = listing(left)
    assert names == listing(right), f"names differ: {sorted(names ^ listing(right))}"
    for name in names:
        if not name.endswith("/"):
            a, b = pathlib.Path(left, name), pathlib.Path(right, name)
            assert a.stat().st_size == b.stat().st_size, f"{name}: another size"
            assert sha256(a) == sha256(b), f"{name}: other bytes"


# ---------------------------------------------------------------- runner


def _alarm(_signal, _frame):
    raise TimeoutError(f"not done within {TEST_SECONDS} s")


def _run_one(name, test):
    start = time.monotonic()
    signal.alarm(TEST_SECONDS)
    try:
        test()
        word, detail = "ok", ""
    except Skip as e:
        word, detail = "skip", f": {e}"
    except Exception:
        word, detail = "FAIL", "\n" + traceback.format_exc()
    finally:
        signal.alarm(0)
    print(f"{word:4} {name} ({time.monotonic() - start:.1f} s){detail}", flush=True)
    return word


def main(names):
    """Runs the test_* functions of NAMES whose names contain an argument of the script (or all)."""
    need_fuse()
    if not os.access(TMORPH, os.X_OK):
        print(f"{TMORPH} is not there: build it, or name it by TMORPH")
        sys.exit(1)
    signal.signal(signal.SIGALRM, _alarm)
    wanted = sys.argv[1:]
    words = [_run_one(n, f) for n, f in list(names.items())
             if n.startswith("test_") and callable(f)
             and (not wanted or any(w in n for w in wanted))]
    counts = {w: words.count(w) for w in ("ok", "FAIL", "skip")}
    print(f"{counts['ok']} passed, {counts['FAIL']} failed, {counts['skip']} skipped")
    if counts["FAIL"] or not words:
        sys.exit(1)
    sys.exit(77 if counts["ok"] == 0 else 0)
