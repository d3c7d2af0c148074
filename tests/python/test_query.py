"""Queries: what tmorph query and the folders of query/ answer."""
import errno
import functools
import math
import os

import tmtest

tmtest.need_fuse()
tmtest.need_modules("numpy", "ml_dtypes")

import numpy as np

import checkpoints
import stats_reference as ref
from checkpoints import Tensor, normal, of_array, random_bits
from expect import table
from tmtest import Mount, error_name, folder, tmorph, wait_until

COLUMN = 24
FILES = ["matches.tsv", "unknown.tsv", "error"]


# ---------------------------------------------------------------- the models

ROLES = {"embed_tokens": "embedding", "q_proj": "attention", "up_proj": "mlp", "norm": "norm",
         "experts": "mlp", "lm_head": "head"}


def layer_of(name):
    words = name.split(".")
    return int(words[words.index("layers") + 1]) if "layers" in words else None


def expert_of(name):
    words = name.split(".")
    return int(words[words.index("experts") + 1]) if "experts" in words else None


def role_of(name):
    return next((role for word, role in ROLES.items() if word in name), "other")


def odd_floats():
    """An F64 array of everything that is not finite, and of the extremes."""
    return np.array([[np.nan, np.inf, -np.inf, 0.0], [-0.0, 1e308, -1e-308, 5e-324],
                     [0, 0, 0, 0], [1, -1, 2, 0]])


def mixed_tensors():
    rng = np.random.default_rng(3)
    layers = {}
    for i in range(4):
        p = f"model.layers.{i}."
        layers |= {
            p + "input_layernorm.weight": of_array("F32", np.full(16, 1 + i / 8, np.float32)),
            p + "self_attn.q_proj.weight": normal("BF16", (16, 16), rng, 3 * i + 0.1),
            p + "mlp.up_proj.weight": random_bits("BF16" if i % 2 else "F16", (24, 16), rng),
            p + "mlp.experts.1.up_proj.weight": normal("F32", (8, 4), rng, 10.0 ** i),
        }
    sparse = np.zeros((12, 8), np.float32)
    sparse[3, 2] = -7
    return layers | {
        "model.embed_tokens.weight": normal("BF16", (64, 16), rng),
        "model.norm.weight": of_array("BF16", np.ones(16, np.float32)),
        "lm_head.weight": of_array("BF16", sparse),
        "a.codes": random_bits("U8", (40,), rng),
        "a.nothing": Tensor("F32", (0, 3), b""),
        "b.all nan": Tensor("F16", (5,), np.full(5, np.nan, np.float16).tobytes()),
        "b.all inf": of_array("F32", np.full((2, 2), -np.inf)),
        "b.odd": of_array("F64", odd_floats()),
        "c.complex": random_bits("C64", (2, 3), rng),
        "c.six": random_bits("F6_E2M3", (8,), rng),
        "d.e4m3": random_bits("F8_E4M3", (30, 40), rng),
        "d.e5m2": random_bits("F8_E5M2", (300,), rng),
        "d.four": random_bits("F4", (6, 4), rng),
        "e.flags": random_bits("BOOL", (33,), rng),
        "e.scalar": of_array("I64", np.array(-(2 ** 62) - 1)),
        "e.wide": of_array("I64", np.array([[2 ** 53 + 1, -3], [0, 5]])),
        "odd/na%me\there": of_array("I32", np.arange(-8, 8).reshape(4, 4)),
    }


def facts_of(name, tensor, file):
    """Every field of a query -> its value; None where there is none."""
    found = {"name": name, "dtype": tensor.dtype, "role": role_of(name), "file": file,
             "rank": len(tensor.shape), "rows": tensor.shape[0] if tensor.shape else None,
             "cols": tensor.shape[-1] if tensor.shape else None, "params": tensor.elems,
             "bytes": len(tensor.raw), "layer": layer_of(name), "expert": expert_of(name),
             "counted": tensor.dtype not in ref.NO_VALUES}
    if found["counted"]:
        with np.errstate(all="ignore"):
            found |= ref.record(tensor.dtype, ref.stored(tensor))
        found["inf_count"] = found["pos_inf_count"] + found["neg_inf_count"]
    return found


@functools.cache
def mixed():
    """A model of many types, indexed, and what NumPy says of each of its tensors."""
    made = checkpoints.write_checkpoint(folder("src") / "mixed", mixed_tensors(), shards=2)
    tmorph("index", made.path, check=0)
    return made, {n: facts_of(n, t, made.files[n]) for n, t in made.tensors.items()}


def of_rank(rank):
    """How many tensors of the mixed model have it."""
    return sum(t["rank"] == rank for t in mixed()[1].values())


def escaped(name):
    """A name as tables have it."""
    return "".join(f"%{ord(c):02X}" if c == "%" or c < " " or c == "\x7f" else c for c in name)


# ---------------------------------------------------------------- asking


def ask(source, expr, check=0):
    """The lines of `tmorph query` as dicts, its head, and its stderr."""
    done = tmorph("query", source, expr, check=check)
    lines = done.stdout.splitlines()
    head = lines[0].split("\t") if lines else []
    return [dict(zip(head, line.split("\t"), strict=True)) for line in lines[1:]], head, done.stderr


def names_of(rows):
    return [row["name"] for row in rows]


def read_exact(path):
    """The bytes of PATH, whose size is told before and after."""
    before = path.stat().st_size
    content = path.read_bytes()
    assert len(content) == before == path.stat().st_size, f"{path}: {len(content)}, not {before}"
    return content


class Query:
    """query/NAME.q of a model, and the folder that shows what it comes to."""

    def __init__(self, model, name):
        self.text = model / "query" / f"{name}.q"
        self.folder = model / "query" / name

    def write(self, text):
        self.text.write_text(text)
        return self

    def matches(self):
        return table(self.folder / "matches.tsv")[1]

    def unknown(self):
        rows = table(self.folder / "unknown.tsv")[1]
        return {row["name"]: row["reason"] for row in rows}

    def error(self):
        return read_exact(self.folder / "error").decode()


def compares(value, test):
    """What a comparison answers: no, where there is no number."""
    return value is not None and test(value)


# ---------------------------------------------------------------- against NumPy

# An expression as "HEADERS and VALUES": what each says of the facts of a tensor. VALUES is None
# where headers are all.
QUESTIONS = [
    ("nan_count > 0", None, lambda t: t["nan_count"] > 0),
    ('role == "attention" and absmax > 8', lambda t: t["role"] == "attention",
     lambda t: compares(t["absmax"], lambda x: x > 8)),
    ('tensor.dtype == "bf16" and tensor.sparsity > 0.5', lambda t: t["dtype"] == "BF16",
     lambda t: compares(t["sparsity"], lambda x: x > 0.5)),
    ("zero_rows > 0", None, lambda t: t["zero_rows"] > 0),
    ("nan_count == n and n != 0", None, lambda t: t["nan_count"] == t["n"] != 0),
    ("min == max", None, lambda t: t["min"] is not None and t["min"] == t["max"]),
    ("not layer < 1 and mean < 0", lambda t: not compares(t["layer"], lambda x: x < 1),
     lambda t: compares(t["mean"], lambda x: x < 0)),
    ("rank == 2 and inf_count > 0", lambda t: t["rank"] == 2, lambda t: t["inf_count"] > 0),
    ("distinct == none", None, lambda t: t["distinct"] is None),
    ("absmax == none or var == none", None, lambda t: t["absmax"] is None),
    ("l2 > 100 or l1 == 0", None, lambda t: t["l2"] > 100 or t["l1"] == 0),
    ("std <= 0.5 and std != none", None, lambda t: compares(t["std"], lambda x: x <= 0.5)),
    ("std != 0", None, lambda t: t["std"] is None or t["std"] != 0),
    ("not absmax > 1", None, lambda t: not compares(t["absmax"], lambda x: x > 1)),
    ("entropy > 7", None, lambda t: t["entropy"] > 7),
    ('(dtype == "bf16" or dtype == "u8") and q0.75 >= 0.5',
     lambda t: t["dtype"] in ("BF16", "U8"), lambda t: compares(t["q0.75"], lambda x: x >= 0.5)),
    ("cols > 3 and subnormal_count > 0", lambda t: compares(t["cols"], lambda x: x > 3),
     lambda t: t["subnormal_count"] > 0),
    ("absmax_index == 0", None, lambda t: t["absmax"] is not None and t["absmax_index"] == 0),
    ("max == 9007199254740992 and min == -3", None,
     lambda t: t["max"] == 2.0 ** 53 and t["min"] == -3),
    ("neg_zero_count < zero_count and zero_cols > 0", None,
     lambda t: t["neg_zero_count"] < t["zero_count"] and t["zero_cols"] > 0),
    ('name == "*.mlp.*" and rank == 2', lambda t: ".mlp." in t["name"] and t["rank"] == 2, None),
    ("expert == none and layer >= 1 and bytes > 100",
     lambda t: t["expert"] is None and compares(t["layer"], lambda x: x >= 1) and t["bytes"] > 100,
     None),
    ("rows == cols and params < 20",
     lambda t: t["rows"] is not None and t["rows"] == t["cols"] and t["params"] < 20, None),
    ('file == "*-00001-*" and dtype == "f8_*" or name == "odd/*"',
     lambda t: "-00001-" in t["file"] and t["dtype"].startswith("F8_") or
     t["name"].startswith("odd/"), None),
]

INTEGERS = {"rank", "rows", "cols", "params", "bytes", "layer", "expert", "inf_count", "n",
            "zero_count", "neg_zero_count", "nan_count", "pos_inf_count", "neg_inf_count",
            "subnormal_count", "absmax_index", "distinct", "zero_rows", "zero_cols"}
WITHIN = {"std": 3e-16, "l2": 3e-16, "entropy": 1e-12}  # relative; all else is exact


def check_cell(field, text, want):
    if field in ("name", "dtype", "role", "file"):
        assert text == escaped(want), (field, text, want)
        return
    assert len(text) == COLUMN and text.lstrip() == text.strip(), (field, text)
    text = text.strip()
    if field in INTEGERS:
        assert text == ("-" if want is None else str(int(want))), (field, text, want)
    elif want is None:
        assert text == "nan", (field, text)
    else:
        assert math.isclose(float(text), float(want), rel_tol=WITHIN.get(field, 0)), \
            (field, text, want)


def check_answer(expr, facts, rows, unknown):
    """ROWS of matches and names that are UNKNOWN, against what EXPR says of FACTS."""
    headers, values = next((h, v) for e, h, v in QUESTIONS if e == expr)
    want, doubtful = [], []
    for name, t in sorted(facts.items(), key=lambda item: item[0].encode()):
        if headers and not headers(t):
            continue
        if values and not t["counted"]:
            doubtful.append(escaped(name))
        elif not values or values(t):
            want.append(name)
    assert names_of(rows) == [escaped(n) for n in want], (expr, names_of(rows), want)
    assert unknown == doubtful, (expr, unknown, doubtful)
    for name, row in zip(want, rows):
        for field, text in row.items():
            check_cell(field, text, facts[name][field])


def test_answers_are_those_of_numpy():
    made, facts = mixed()
    sizes = []
    with Mount(f"m={made.path}") as m:
        for i, (expr, _, _) in enumerate(QUESTIONS):
            q = Query(m.model("m"), f"q{i}").write(expr)
            rows = q.matches()
            check_answer(expr, facts, rows, list(q.unknown()))
            assert set(q.unknown().values()) <= {"has no statistics"}
            assert q.error() == ""
            done = tmorph("query", made.path, expr, check=0 if rows else 1)
            told = read_exact(q.folder / "matches.tsv").decode()
            assert done.stdout == (told if rows else ""), expr
            sizes.append(len(rows))
    assert min(sizes) < 3 and max(sizes) > 20, "the questions tell tensors apart"


def test_no_weights_are_read_to_answer():
    made, _ = mixed()
    with Mount(f"m={made.path}") as m:
        for i, (expr, _, _) in enumerate(QUESTIONS):
            Query(m.model("m"), f"q{i}").write(expr).matches()
        lanes = {row["lane"]: row for row in table(m.path / ".tmorph/lanes.tsv")[1]}
        assert lanes["4-analysis"]["done"] == "0" == lanes["6-index"]["done"], lanes


def test_columns_are_those_of_the_query_in_its_order():
    made, _ = mixed()
    rows, head, _ = ask(made.path, 'rank == 2 and name == "lm*" and tensor.min < 0 and rank > 1')
    assert head == ["name", "rank", "min"] and names_of(rows) == ["lm_head.weight"]
    assert [rows[0][f].strip() for f in head] == ["lm_head.weight", "2", "-7"]
    rows, head, _ = ask(made.path, 'role == "head" and layer.type != "mlp" and nan_count == 0')
    assert head == ["name", "role", "nan_count"]


# ---------------------------------------------------------------- unknown is never no


STATISTICS = ref.KEYS + ["inf_count"]


def four(path, shards=1):
    rng = np.random.default_rng(8)
    return checkpoints.write_checkpoint(path, {
        "model.a.norm.weight": normal("F32", (6,), rng),
        "model.b.proj.weight": normal("BF16", (4, 6), rng, 100),
        "model.c.norm.weight": normal("F32", (6,), rng),
        "model.d.proj.weight": normal("BF16", (4, 6), rng, 100)}, shards=shards)


def test_without_an_index_every_statistic_is_unknown():
    made = four(folder("src") / "m")
    all_names = list(made.tensors)
    with Mount(f"m={made.path}") as m:
        q = Query(m.model("m"), "q")
        for field in STATISTICS:
            for op in ("==", "!=", "<", "<=", ">", ">="):
                expr = f"{field} {op} 1" if op != "==" else f"not {field} == 1"
                q.write(expr)
                assert q.matches() == [], expr
                assert list(q.unknown()) == all_names, expr
        for field in STATISTICS:
            q.write(f"{field} == none")
            assert q.matches() == [] and list(q.unknown()) == all_names, field
    for expr in ("absmax > 8", "not absmax > 8", "distinct == none", "n < 0"):
        assert ask(made.path, expr, check=1) == \
            ([], [], f"0 matches, 4 unknown: run tmorph index {made.path}\n")


def test_headers_decide_what_they_can():
    made = four(folder("src") / "m")
    norms = ["model.a.norm.weight", "model.c.norm.weight"]
    others = ["model.b.proj.weight", "model.d.proj.weight"]
    cases = [  # expression, matches, unknown
        ('role == "norm" and absmax > 8', [], norms),
        ('absmax > 8 and role == "norm"', [], norms),
        ('role == "norm" or absmax > 8', norms, others),
        ('not (role == "norm" and absmax > 8)', others, norms),
        ('not (role == "norm" or absmax > 8)', [], others),
        ('rank == 1 and n > 0 or rank == 2', others, norms),
        ('rank == 3 and n > 0', [], []),
        ('rank < 3 or n > 0', sorted(norms + others), []),
    ]
    with Mount(f"m={made.path}") as m:
        q = Query(m.model("m"), "q")
        for expr, matches, unknown in cases:
            rows, _, words = ask(made.path, expr, check=0 if matches else 1)
            assert names_of(rows) == matches, expr
            count = f"{len(matches)} match{'' if len(matches) == 1 else 'es'}"
            assert words == ("" if matches and not unknown else
                             f"{count}, {len(unknown)} unknown" +
                             (f": run tmorph index {made.path}\n" if unknown else "\n")), expr
            q.write(expr)
            assert names_of(q.matches()) == matches, expr
            assert q.unknown() == dict.fromkeys(unknown, "not indexed"), expr


def test_with_one_of_two_shards_indexed_the_rest_is_unknown_and_answers_stay():
    made = four(folder("src") / "m", shards=2)
    first = [n for n in made.tensors if "00001" in made.files[n]]
    second = [n for n in made.tensors if "00002" in made.files[n]]
    exprs = ["n > 0", "absmax > 8", "not absmax > 8", "nan_count > 0", "min == none",
             'role == "norm" or n == 24']
    with Mount(f"m={made.path}") as m:
        queries = [Query(m.model("m"), f"q{i}").write(e) for i, e in enumerate(exprs)]

        def answers():
            return [(set(names_of(q.matches())), set(q.unknown())) for q in queries]

        before = answers()
        tmorph("index", "--part", "1/2", made.path, check=0)
        indexed = first if (made.path / f"{made.files[first[0]]}.tmidx").exists() else second
        wait_until(lambda: (m.model("m") / "index/state").read_text().strip() == "partial",
                   what="half an index")
        half = answers()
        assert {n for n in made.tensors if n not in indexed} == half[0][1]
        assert set(indexed) == half[0][0]
        tmorph("index", made.path, check=0)
        wait_until(lambda: (m.model("m") / "index/state").read_text().strip() == "fresh",
                   what="the whole index")
        whole = answers()
        for then, later in ((before, half), (half, whole)):
            for (yes, unknown), (yes_later, unknown_later) in zip(then, later):
                assert yes <= yes_later and unknown_later <= unknown
                assert yes_later - yes <= unknown  # nobody who was no
        assert all(not unknown for _, unknown in whole)
        assert len(whole[0][0]) == 4 and not whole[3][0]


# ---------------------------------------------------------------- the command


def test_exit_status_and_words():
    made, _ = mixed()
    words = "a SOURCE and an EXPR are needed"
    assert ask(made.path, 'rank == 2 and name == "lm*"')[2] == ""
    assert ask(made.path, "rank == 99", check=1) == ([], [], "0 matches, 0 unknown\n")
    assert ask(made.path, 'name == "e.flags" and n == 33')[2] == ""
    plain = four(folder("src") / "m")
    assert ask(plain.path, 'name == "*.a.*" or n > 0')[2] == \
        f"1 match, 3 unknown: run tmorph index {plain.path}\n"
    for args in ([], [made.path], [made.path, "rank == 2", "more"], ["--all", "rank == 2"]):
        done = tmorph("query", *args, check=2)
        assert done.stdout == "" and (words in done.stderr or "--all" in str(args)), done.stderr
    done = tmorph("query", made.path / "nothing", "rank == 2", check=2)
    assert done.stderr.endswith(f"{made.path}/nothing: No such file or directory\n")
    done = tmorph("query", folder("empty"), "rank == 2", check=2)
    assert "no weights that can be read" in done.stderr
    assert tmorph("query", "--help", check=0).stdout.startswith("usage: tmorph query SOURCE EXPR")


def test_it_is_not_told_to_index_what_no_index_can_have():
    """What has no statistics stays unknown: an index would not help."""
    rng = np.random.default_rng(2)
    made = checkpoints.write_checkpoint(folder("src") / "m", {
        "complex": random_bits("C64", (4,), rng), "real": normal("F32", (4,), rng)})
    tmorph("index", made.path, check=0)
    rows, _, words = ask(made.path, "n > 0")
    assert names_of(rows) == ["real"]
    assert words == "1 match, 1 unknown\n", words


# Expression, line, column, words.
MISTAKES = [
    ("tensor.nan_count = 0", 1, 18, '"=" is no operator: write == to compare'),
    ("tensor.nan_cout > 0", 1, 1, 'unknown field "tensor.nan_cout"; there is tensor.nan_count'),
    ('role == "nrom"', 1, 9, None),
    ("rank == 2 and", 1, 14, None),
    ("(rank == 2", 1, 11, None),
    ("rank == nan", 1, 9, None),
    ("", 1, 1, None),
    ('name == "äöü\U0001f600" and rnk == 1', 1, 20, None),
    ("\trank\t= 1", 1, 7, None),
    ("rank == 1\nor rank = 2\nor rank == 3", 2, 9, None),
    ("rank == 1\n\n\n)", 4, 1, None),
]


def test_a_mistake_has_a_caret_below_its_column():
    made, _ = mixed()
    with Mount(f"m={made.path}") as m:
        q = Query(m.model("m"), "q")
        for expr, line, column, words in MISTAKES:
            done = tmorph("query", made.path, expr, check=2)
            first, shown, caret = done.stderr.splitlines()
            assert first.startswith(f"tmorph: column {column}: "), (expr, first)
            said = first.removeprefix(f"tmorph: column {column}: ")
            assert words in (None, said), (expr, said)
            at_fault = expr.split("\n")[line - 1].replace("\t", " ")
            assert shown == at_fault and caret == " " * (column - 1) + "^", (expr, shown, caret)
            assert done.stdout == ""
            q.write(expr)
            assert q.error() == f"{line}:{column}: {said}\n{shown}\n{caret}\n"
            for file in FILES[:2]:
                assert read_exact(q.folder / file) == b"", (expr, file)
        q.write("rank == 1")
        assert q.error() == "" and q.matches()


def test_a_long_line_is_cut_around_its_mistake():
    made, _ = mixed()
    expr = "rank == 1 or " * 30 + "rank = 2 or " + "rank == 1 or " * 30 + "rank == 1"
    _, shown, caret = tmorph("query", made.path, expr, check=2).stderr.splitlines()
    assert len(shown) <= 80 and caret.strip() == "^"
    assert shown[len(caret) - 1] == "=" and shown[len(caret) - 6:len(caret) + 2] == "rank = 2"


# ---------------------------------------------------------------- collections


def run_of_two(path):
    """A collection of two checkpoints, and a nested one; the second is indexed."""
    four(path / "step-1")
    four(path / "step-2", shards=2)
    four(path / "more/deep")
    tmorph("index", path / "step-2", check=0)
    return path


def test_of_a_collection_the_member_stands_first():
    run = run_of_two(folder("src") / "run")
    rows, head, words = ask(run, "rank == 1 and not n == 5")
    assert head == ["model", "name", "rank", "n"]
    assert [(r["model"], r["name"], r["n"].strip()) for r in rows] == \
        [("run/step-2", f"model.{c}.norm.weight", "6") for c in "ac"]
    assert words == f"2 matches, 4 unknown: run tmorph index {run}\n"
    assert ask(run, "rank == 9", check=1)[2] == "0 matches, 0 unknown\n"
    rows, _, words = ask(run, 'name == "*.a.*"')
    assert [r["model"] for r in rows] == ["run/more/deep", "run/step-1", "run/step-2"]
    assert words == ""


def test_a_member_of_any_name_stays_one_field():
    run = folder("src") / "run"
    four(run / "tab\there")
    four(run / "100%")
    rows, head, _ = ask(run, "rank == 1")
    assert head == ["model", "name", "rank"]
    assert {r["model"] for r in rows} == {"run/100%25", "run/tab%09here"}


def test_members_have_queries_of_their_own():
    run = run_of_two(folder("src") / "run")
    with Mount(f"run={run}") as m:
        assert not (m.model("run") / "query").exists()
        for member in ("step-1", "step-2", "more/deep"):
            q = Query(m.model("run") / member, "q").write("n == 6")
            is_indexed = member == "step-2"
            assert len(q.matches()) == (2 if is_indexed else 0)
            assert len(q.unknown()) == (0 if is_indexed else 4)
        assert sorted(os.listdir(m.model("run") / "step-1/query")) == ["q", "q.q"]


# ---------------------------------------------------------------- changes of the source


def test_a_query_is_kept_when_the_weights_are_replaced():
    made = four(folder("src") / "m")
    tmorph("index", made.path, check=0)
    rng = np.random.default_rng(9)
    new = checkpoints.write_checkpoint(folder("new"), {
        "model.a.norm.weight": of_array("F32", np.full(8, 2.0)),
        "model.z.proj.weight": normal("BF16", (4, 6), rng)})
    with Mount(f"m={made.path}") as m:
        q = Query(m.model("m"), "q").write("min != max or rank == 2")
        assert names_of(q.matches()) == list(made.tensors) and not q.unknown()
        os.replace(new.path / "model.safetensors", made.path / "model.safetensors")
        wait_until(lambda: (m.model("m") / "tensors/model.z.proj.weight").exists(),
                   what="the new weights")
        assert q.text.read_text() == "min != max or rank == 2"
        assert names_of(q.matches()) == ["model.z.proj.weight"]
        assert q.unknown() == {"model.a.norm.weight": "not indexed"}, "the index is another's"
        assert (m.model("m") / "index/state").read_text().strip() == "stale"
        tmorph("index", made.path, check=0)
        wait_until(lambda: not q.unknown(), what="the new index")
        assert names_of(q.matches()) == ["model.z.proj.weight"]
        m.command("reload m")
        assert names_of(q.matches()) == ["model.z.proj.weight"]
        q.text.unlink()
        assert not os.listdir(m.model("m") / "query")


def test_a_query_is_kept_while_its_name_stands_for_nothing():
    made = four(folder("src") / "m")
    with Mount(f"m={made.path}") as m:
        q = Query(m.model("m"), "q").write("rank == 1")
        m.command("remove m")
        assert error_name(os.stat, q.text) == "ENOENT"
        m.command(f"add m={made.path}")
        assert q.text.read_text() == "rank == 1" and len(q.matches()) == 2


def test_an_index_that_goes_away_is_noticed():
    made = four(folder("src") / "m")
    tmorph("index", made.path, check=0)
    with Mount(f"m={made.path}") as m:
        q = Query(m.model("m"), "q").write("n > 0")
        assert len(q.matches()) == 4
        (made.path / "model.safetensors.tmidx").unlink()
        wait_until(lambda: len(q.unknown()) == 4, what="the end of the index")
        assert q.matches() == []


# ---------------------------------------------------------------- without a mount


def test_without_a_mount_there_are_no_queries():
    made, _ = mixed()
    assert tmorph("ls", f"{made.path}::query", check=0).stdout == ""
    assert "query\n" in tmorph("ls", made.path, check=0).stdout
    done = tmorph("cat", f"{made.path}::query/q.q", check=2)
    assert os.strerror(errno.ENOENT) in done.stderr, done.stderr


if __name__ == "__main__":
    tmtest.main(globals())
