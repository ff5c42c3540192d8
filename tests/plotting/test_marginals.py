"""The pictures of marginals: bars, points and maps stand for the numbers, panels for the cliques."""

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot

import pgmjax as pj
from pgmjax.plotting import marginals

matplotlib.use("Agg")

DOMAIN = pj.Domain(
    {"age": {"bins": [0, 18, 65, 100]}, "sex": {"labels": ["F", "M"]}, "region": 4, "day": 300}
)


@pytest.fixture(autouse=True)
def close():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def model():
    generator = np.random.default_rng(0)
    cliques = [("age", "sex"), ("sex", "region"), ("day",)]
    tables = {clique: generator.normal(size=DOMAIN.shape_of(clique)) for clique in cliques}
    return pj.GraphicalModel.from_potentials(DOMAIN, tables, total=1000)


def heights(axes):
    return np.array([bar.get_height() for bar in axes.patches])


def test_bars_are_the_marginals_of_every_attribute(model):
    panels = model.plot_marginals()
    assert list(panels) == [("age",), ("sex",), ("region",), ("day",)]
    for clique in [("age",), ("sex",), ("region",)]:
        assert np.allclose(heights(panels[clique]), model.marginal(clique))
        assert panels[clique].get_title(loc="left") == clique[0]
    assert [tick.get_text() for tick in panels["age",].get_xticklabels()] == [
        "[0, 18)",
        "[18, 65)",
        "[65, 100]",
    ]
    grouped = heights(panels["day",])
    assert len(grouped) == 100 and grouped.sum() == pytest.approx(1000)
    assert len({axes.figure for axes in panels.values()}) == 1
    assert not panels["age",].figure.legends


@pytest.mark.parametrize("stddevs", [2.0, 1.0])
def test_points_are_the_noisy_counts_with_their_spread(model, stddevs):
    noisy = np.array([400.0, 250, 150, 230])
    measured = pj.LinearMeasurement(("region",), noisy, stddev=7.0)
    panels = model.plot_marginals([("region",), ("sex",)], [measured], stddevs=stddevs)
    points, _, (spread,) = panels["region",].containers[1].lines
    assert points.get_ydata() == pytest.approx(noisy)
    ends = np.array([segment[:, 1] for segment in spread.get_segments()])
    assert np.allclose(ends, np.stack([noisy - 7 * stddevs, noisy + 7 * stddevs], axis=1))
    assert len(panels["sex",].containers) == 1
    (legend,) = panels["sex",].figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "fitted count",
        f"noisy count, {stddevs:g} standard deviations each way",
    ]


def test_a_pair_is_a_map_beside_what_was_measured_of_it(model):
    noisy = np.arange(6.0).reshape(3, 2) * 50 - 20
    measured = pj.LinearMeasurement(("age", "sex"), noisy, stddev=5.0)
    panels = model.plot_marginals([("sex", "age"), ("sex", "region")], [measured])
    fitted = panels["sex", "age"]
    assert np.allclose(fitted.images[0].get_array(), model.marginal(("sex", "age")))
    assert np.allclose(panels["sex", "region"].images[0].get_array(), model.marginal(("sex", "region")))
    (beside,) = [a for a in fitted.figure.axes if a.get_title(loc="left") == "sex by age, measured (noisy)"]
    assert np.allclose(beside.images[0].get_array(), np.clip(noisy.T, 0, None))
    assert beside.images[0].norm.vmax == fitted.images[0].norm.vmax  # one scale
    assert [tick.get_text() for tick in fitted.get_yticklabels()] == ["F", "M"]
    assert fitted.get_xlabel() == "age" and not fitted.figure.legends


def test_panels_fill_lines_and_never_lie_on_one_another(model):
    assert marginals._places([1, 1, 2, 2, 1, 1]) == (
        [(0, 0), (0, 1), (1, 0), (2, 0), (2, 2), (3, 0)],
        4,
    )
    panels = model.plot_marginals([(a,) for a in DOMAIN] + [("age", "sex")])
    panels["age",].figure.canvas.draw()
    boxes = [axes.get_tightbbox() for axes in panels.values()]
    for i, one in enumerate(boxes):
        assert not any(one.overlaps(two) for two in boxes[i + 1 :])


def test_bad_arguments_are_refused_before_anything_is_drawn(model):
    for cliques, said in [
        ([], "1 to 60"),
        ([("age", "sex", "region")], "one or two"),
        ([("what",)], "'what'"),
    ]:
        with pytest.raises(ValueError, match=said):
            model.plot_marginals(cliques)
    with pytest.raises(TypeError, match=r"'age'.*\('age',\)"):
        model.plot_marginals(["age"])
    with pytest.raises(ValueError, match=r"stddevs.*0"):
        model.plot_marginals(stddevs=0)
    with pytest.raises(ValueError, match=r"\('sex',\).*\(2,\).*\(3,\)"):
        model.plot_marginals([("age",)], [pj.LinearMeasurement(("sex",), [1.0, 2, 3], 1.0)])
    many = pj.GraphicalModel.from_potentials(pj.Domain({f"a{i}": 2 for i in range(61)}), {})
    with pytest.raises(ValueError, match="got 61: pass cliques"):
        many.plot_marginals()
    assert not pyplot.get_fignums()
