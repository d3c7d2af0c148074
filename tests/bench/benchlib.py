"""What the benchmarks share: building the null server and the reader, and a table of goals."""
import os
import pathlib
import shlex
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python"))
import tmtest  # noqa: E402 (found through the line above)

CFLAGS = ["-std=c17", "-D_GNU_SOURCE", "-O2"]


def tool(name, packages=()):
    """A program of this folder: as the build made it, else compiled into the scratch folder."""
    built = tmtest.TMORPH.parents[1] / "tests/bench" / name
    if built.exists():
        return str(built)
    out = tmtest.scratch() / name
    if not out.exists():
        flags = [] if not packages else shlex.split(subprocess.run(
            ["pkg-config", "--cflags", "--libs", *packages], capture_output=True, text=True,
            check=True).stdout)
        compiler = os.environ.get("CC") or shutil.which("cc") or "gcc"
        subprocess.run([compiler, *CFLAGS, HERE / f"{name}.c", "-o", out, *flags, "-lpthread"],
                       check=True)
    return str(out)


class NullServer:
    """with NullServer(size=…, entries=…) as null: null.path is mounted, null.pid serves it."""

    def __init__(self, **options):
        self.path = tmtest.folder("null")
        self.args = [f"--{k.replace('_', '-')}={v}" for k, v in options.items()]

    def __enter__(self):
        self.process = subprocess.Popen(
            [tool("null_server", ["fuse3"]), *self.args, self.path])
        self.pid = self.process.pid
        tmtest.wait_until(lambda: str(self.path) in tmtest.mount_points(), 5, "the null server")
        return self

    def __exit__(self, *_):
        subprocess.run(["fusermount3", "-u", self.path], check=False)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()


def read_ahead(path):
    """The file with the read-ahead of the mount at PATH, in KiB."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if fields[4] == str(path):
            return pathlib.Path(f"/sys/class/bdi/{fields[2]}/read_ahead_kb")
    raise KeyError(path)


def same_read_ahead(ours, null):
    """Gives the null server the read-ahead that our mount has; returns it in KiB."""
    kib = read_ahead(ours).read_text().strip()
    if kib != read_ahead(null).read_text().strip():
        read_ahead(null).write_text(kib)
    return kib


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def timed(action, *args):
    """Seconds of a call, and its result."""
    start = time.perf_counter()
    result = action(*args)
    return time.perf_counter() - start, result


def busy_share(seconds):
    """The share of all CPUs' time that was used during SECONDS."""
    def ticks():
        fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        return sum(map(int, fields)), int(fields[3]) + int(fields[4])
    before = ticks()
    time.sleep(seconds)
    after = ticks()
    return 1 - (after[1] - before[1]) / max(1, after[0] - before[0])


class Quiet:
    """Waits for an idle machine before a measurement, within bounds; counts where it was not."""

    starts = busy = 0

    @classmethod
    def wait(cls, seconds=5):
        cls.starts += 1
        deadline = time.monotonic() + seconds
        while busy_share(0.1) > 0.1:
            if time.monotonic() > deadline:
                cls.busy += 1
                return


def interleaved(rounds, actions):
    """Runs every action once a round, the first round for warmth only; medians of their results."""
    results = {name: [] for name in actions}
    for i in range(rounds + 1):
        for name, action in actions.items():
            Quiet.wait()
            value = action()
            if i > 0:
                results[name].append(value)
    return {name: statistics.median(values) for name, values in results.items()}


class Goals:
    """Prints what was measured beside what is owed; remembers what was missed."""

    def __init__(self):
        self.missed = []
        print(f"{os.cpu_count()} CPUs, kernel {os.uname().release}, "
              f"load {os.getloadavg()[0]:.2f}", flush=True)

    def show(self, what, value, unit=""):
        print(f"{what:52} {value:10.3f} {unit}", flush=True)

    def at_least(self, what, value, goal):
        self._judge(what, value, goal, value >= goal, ">=")

    def at_most(self, what, value, goal, unit=""):
        self._judge(what, value, goal, value <= goal, "<=", unit)

    def _judge(self, what, value, goal, good, sign, unit=""):
        print(f"{what:52} {value:10.3f} {unit:4} {sign} {goal:<8g} "
              f"{'ok' if good else 'MISSED'}", flush=True)
        if not good:
            self.missed.append(what)

    def finish(self):
        if Quiet.busy:
            print(f"{Quiet.busy} of {Quiet.starts} measurements began on a busy machine: "
                  "times and their ratios mean little")
        if self.missed:
            print(f"{len(self.missed)} missed: {', '.join(self.missed)}")
        sys.exit(1 if self.missed else 0)


def start():
    """Common beginning: skips where nothing can be mounted."""
    tmtest.need_fuse()
    if not os.access(tmtest.TMORPH, os.X_OK):
        print(f"{tmtest.TMORPH} is not there: build it, or name it by TMORPH")
        sys.exit(1)
    return Goals()
