"""One network by pyagrum, which `networks.py` and `networks_made.py` start under pyagrum's own interpreter.

Arguments: NETWORK.bif QUESTIONS.json ANSWERS.json, for a Bayesian network by lazy propagation;
NETWORK.json, with factors and questions, for a Markov network by Shafer and Shenoy's algorithm.
"""

import json
import pathlib
import re
import sys
import time

import pyagrum


def table(tensor, order):
    """The numbers of a tensor, flat, row-major in the order of names given."""
    array = tensor.toarray()  # its last axis is the tensor's first variable
    names = list(reversed(tensor.names))
    return array.transpose([names.index(name) for name in order]).ravel().tolist()


def rename(path, labels):
    """Give labels that its reader refuses (`<5`, `12+`) names that it takes; old to new."""
    words = sorted({word for group in labels.values() for word in group})
    odd = [word for word in words if not re.fullmatch(r"[A-Za-z_]\w*|\d+", word)]
    renamed = {word: f"renamed_{n}" for n, word in enumerate(odd)}
    text = path.read_text()
    for word, name in renamed.items():
        text = re.sub(rf"(?<=[\s,(]){re.escape(word)}(?=[\s,)])", name, text)
    path.write_text(text)
    return renamed


def joint(net, engine, pair):
    """The marginal of a pair; by an engine of its own where the common one loses the target."""
    try:
        return engine.jointPosterior(set(pair))
    except pyagrum.UndefinedElement:
        own = pyagrum.ShaferShenoyMRFInference(net)
        own.setTargets(set())
        own.addJointTarget(set(pair))
        own.makeInference()
        return own.jointPosterior(set(pair))


def marginals(engine, names, pairs, pair_of):
    """Seconds and answers of all singles and of some pairs, each by an engine made anew."""
    seconds, found = {}, {}
    start = time.perf_counter()
    made = engine()
    made.makeInference()
    found["singles"] = [table(made.posterior(name), [name]) for name in names]
    seconds["singles"] = time.perf_counter() - start
    start = time.perf_counter()
    made = engine()
    made.setTargets(set())
    for pair in pairs:
        made.addJointTarget(set(pair))
    made.makeInference()
    found["pairs"] = [table(pair_of(made, pair), pair) for pair in pairs]
    seconds["pairs"] = time.perf_counter() - start
    return seconds, found


def markov(path):
    """Answer the questions of a Markov network, and print a line with seconds and answers."""
    asked = json.loads(pathlib.Path(path).read_text())
    net = pyagrum.MarkovRandomField()
    for v, size in enumerate(asked["sizes"]):
        net.add(pyagrum.LabelizedVariable(f"x{v}", "", size))
    joined = {}
    for scope, numbers in asked["factors"]:
        factor = pyagrum.Tensor()
        for v in reversed(scope):  # its first variable varies fastest
            factor.add(net.variable(f"x{v}"))
        factor.fillWith(numbers)
        key = frozenset(scope)
        joined[key] = joined[key] * factor if key in joined else factor
    alone = set(range(len(asked["sizes"]))).difference(*joined)
    for v in alone:  # its inference wants a factor for every variable
        joined[frozenset([v])] = pyagrum.Tensor().add(net.variable(f"x{v}")).fillWith(1)
    for factor in joined.values():
        net.addFactor(factor)
    names = [f"x{v}" for v in range(len(asked["sizes"]))]
    seconds, found = marginals(
        lambda: pyagrum.ShaferShenoyMRFInference(net),
        names,
        asked["pairs"],
        lambda engine, pair: joint(net, engine, pair),
    )
    print(json.dumps({"seconds": seconds, "answers": found, "version": pyagrum.__version__}))


def main():
    """Answer the questions of a file."""
    if len(sys.argv) == 2:
        markov(sys.argv[1])
        return
    path, questions, answers = sys.argv[1:]
    asked = json.loads(pathlib.Path(questions).read_text())
    renamed = rename(pathlib.Path(path), asked["labels"])
    start = time.perf_counter()
    net = pyagrum.loadBN(path)
    load = time.perf_counter() - start
    for name, labels in asked["labels"].items():
        if list(net.variable(name).labels()) != [renamed.get(label, label) for label in labels]:
            raise ValueError(f"the labels of {name} stand in another order")
    start = time.perf_counter()
    probabilities = []
    for evidence in asked["evidence"]:
        engine = pyagrum.LazyPropagation(net)
        engine.setTargets(set())
        engine.setEvidence(evidence)
        try:
            probabilities.append(engine.evidenceProbability())
        except pyagrum.IncompatibleEvidence:
            probabilities.append(0.0)
    evidence_s = time.perf_counter() - start
    seconds, found = marginals(
        lambda: pyagrum.LazyPropagation(net),
        asked["labels"],
        asked["pairs"],
        lambda engine, pair: engine.jointPosterior(set(pair)),
    )
    seconds = {"load": load, "evidence": evidence_s, **seconds}
    result = {"evidence": probabilities, **found, "version": pyagrum.__version__, "seconds": seconds}
    pathlib.Path(answers).write_text(json.dumps(result))
    print(json.dumps(result["seconds"]))


if __name__ == "__main__":
    main()
