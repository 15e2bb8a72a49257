"""``f.document()``: ids that resolve, rewrites that lead from one graph to the other, if asked for."""

import json
from pathlib import Path

import numpy as np
import pytest

import jtorch
import jtorch.nn as nn
from jtorch.compile.inspect import rewrites
from tests.compile.workloads import WORKLOADS

PAGE = (Path(__file__).parents[3] / "docs" / "document.md").read_text()


def made(name):
    _, _, step, batch = WORKLOADS[name]()
    compiled, rng = jtorch.compile(step), np.random.default_rng(0)
    for _ in range(2):
        compiled(*batch(4, rng))
    return compiled


def stepped(document, program):
    """The equations after all rewrites."""
    state = list(document["recorded"])
    for w in program["rewrites"]:
        uses = dict(map(tuple, w["uses"]))
        at = state.index(w["gone"][0]) if w["gone"] else len(state)
        state[at:at] = w["come"]
        state = [uses.get(e, e) for k, e in enumerate(state) if not (e in w["gone"] and k >= at)]
    return state


def check_links(document):
    """Every id that is named is one of an entry."""
    by = {kind: {e["id"]: e for e in document[kind]} for kind in ("lines", "values", "equations", "nodes")}
    for eqn in document["equations"]:
        assert eqn["line"] is None or eqn["line"] in by["lines"]
        assert eqn["node"] is None or eqn["node"] in by["nodes"]
        assert by["values"].keys() >= {*eqn["inputs"], *eqn["outputs"]}
        assert by["equations"].keys() >= {*eqn["from"]}
    assert by["equations"].keys() >= {*document["recorded"]}
    for node in document["nodes"]:
        assert by["nodes"].keys() >= {p for p in node["parents"] if p}
        assert by["equations"].keys() >= {*node["forward"], *node["backward"]}
    for program in document["programs"]:
        groups, kernels = ({e["id"] for e in program[kind]} for kind in ("groups", "kernels"))
        assert by["equations"].keys() >= {*program["equations"]}
        assert by["values"].keys() >= {p["value"] for p in program["places"]}
        for step in program["steps"]:
            assert step["group"] in groups and step["kernel"] in {None, *kernels}
            assert by["equations"].keys() >= {*step["equations"]}
            assert by["values"].keys() >= {*step["reads"], *step["writes"]}
    for guard in document["guards"]:
        assert guard["line"] is None or guard["line"] in by["lines"]


@pytest.mark.parametrize("name", ["mlp_adam", "lenet", "normed_adamw", "transformer", "rnn"])
def test_links_resolve_and_the_document_is_plain(name):
    f = made(name)
    document = f.document(with_reasons=True)
    assert json.loads(json.dumps(document)) == document
    check_links(document)
    (program,) = document["programs"]
    assert sorted(stepped(document, program)) == sorted(program["equations"])
    assert program["rewrites"] and program["apart"]


def test_every_top_level_name_is_described():
    document = made("mlp_adam").document(with_reasons=True)
    assert document["schema"] == "jtorch.document" and document["version"] == 1
    for name in (*document, *document["programs"][0], *document["nodes"][0], *document["guards"][0]):
        assert f"`{name}`" in PAGE, name


def test_nodes_have_their_module_their_equations_and_the_way_back():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh())

    @jtorch.compile
    def step(x):
        model(x).sum().backward()

    step(jtorch.ones(2, 3))
    document = step.document()
    names = {e["id"]: e["op"] for e in document["equations"]}
    linear, tanh, total = document["nodes"]
    assert [n["name"] for n in document["nodes"]] == ["AddmmBackward0", "TanhBackward0", "SumBackward0"]
    assert linear["modules"] == ["model", "model.0"] and tanh["modules"] == ["model", "model.1"]
    assert total["modules"] == [] and total["parents"] == [tanh["id"]]
    values = {v["id"]: v for v in document["values"]}
    inputs = {i["value"]: i["name"] for i in document["inputs"]}
    assert [inputs[v] for v in linear["leaves"] if v] == ["model.0.weight", "model.0.bias"]
    assert [names[e] for e in tanh["forward"]] == ["tanh"] and "matmul" in [
        names[e] for e in linear["backward"]
    ]
    assert all("test_document.py" in line["file"] for line in document["lines"])
    assert "model(x).sum().backward()" in {line["text"].strip() for line in document["lines"]}
    assert values[document["inputs"][0]["value"]]["type"] == "f32[2, 3]"


def test_places_of_the_arena_never_overlap_in_time():
    document = made("transformer").document()
    nbytes = {v["id"]: v["bytes"] for v in document["values"]}
    program = document["programs"][0]
    here = [p for p in program["places"] if p["kind"] == "arena" and "born" in p]
    assert here and all(p["at"] + nbytes[p["value"]] <= program["arena_bytes"] for p in here)
    for k, a in enumerate(here):
        for b in here[:k]:
            apart_in_time = a["dies"] <= b["born"] or b["dies"] <= a["born"]  # at one step: written over
            ends = [p["at"] + nbytes[p["value"]] for p in (a, b)]
            assert apart_in_time or ends[0] <= b["at"] or ends[1] <= a["at"]


@pytest.mark.slow
def test_measured_times_are_there_after_profile():
    model = nn.Linear(3, 4)
    f, x = jtorch.compile(lambda x: model(x).relu().sum(1)), jtorch.ones(2, 3)
    f(x)
    assert f.document()["measured"] is None
    f.profile()
    document = f.document()
    steps = [step["id"] for step in document["programs"][0]["steps"]]
    assert [s for t in document["measured"]["times"] for s in t["steps"]] == steps
    assert all(t["us"] > 0 for t in document["measured"]["times"])


def test_a_backward_outside_is_a_program_of_its_own():
    f = jtorch.compile(lambda x: (x * 2).tanh().sum())
    x = jtorch.ones(3, requires_grad=True)
    f(x).backward()
    f(x)
    document = f.document(with_reasons=True)
    check_links(document)
    assert [p["role"] for p in document["programs"]] == ["call", "backward"]


def test_symbolic_sizes_and_retraces():
    f = jtorch.compile(lambda x: (x * 2).sum(0))
    for n in (3, 4, 5):
        f(jtorch.ones(n, 2))
    document = f.document(with_reasons=True)
    check_links(json.loads(json.dumps(document)))
    assert len(document["recordings"]) == 2 and document["retraces"][0]["causes"][0]["what"] == "x.shape"
    assert document["guards"] and all(g["kind"] and g["expression"] for g in document["guards"])


def test_rewrites_are_computed_only_when_asked_for(monkeypatch):
    f = made("mlp_adam")
    monkeypatch.setattr(rewrites, "PASSES", None)  # which fails where they run
    assert not {"rewrites", "apart"} & f.document()["programs"][0].keys()
    with pytest.raises(TypeError):
        f.document(with_reasons=True)


def test_a_recording_holds_no_node_of_the_tape():
    import gc

    from jtorch.eager.node import Node

    def nodes() -> list[Node]:
        gc.collect()
        return [o for o in gc.get_objects() if issubclass(type(o), Node) and "op" in dir(type(o))]

    others = set(map(id, nodes()))
    f = made("mlp_adam")
    assert f._newest().capture.nodes and not [node for node in nodes() if id(node) not in others]
