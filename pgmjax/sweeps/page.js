"use strict";
// What is chosen above hides figures, series, points and lines of the table; nothing is loaded.
(function () {
  const all = (query) => Array.from(document.querySelectorAll(query));
  const chosen = (key) => document.querySelector(`select[data-key="${key}"]`).value;
  const boxes = all(".chip input");
  const search = document.getElementById("search");
  const lines = all("#numbers tbody tr");

  function show() {
    const [table, workload, epsilon, metric] = ["t", "w", "e", "metric"].map(chosen);
    const mechanisms = new Set(boxes.filter((box) => box.checked).map((box) => box.dataset.m));
    const fits = (wanted, value) => !wanted || wanted === value;
    for (const figure of all("figure[data-metric]")) {
      const { t, w } = figure.dataset;
      figure.hidden = !(fits(table, t) && fits(workload, w) && metric === figure.dataset.metric);
    }
    pictures.choose((name, label) => mechanisms.has(name) && fits(epsilon, label));
    for (const none of all(".none")) {
      none.hidden = all("figure[data-metric]").some((figure) => !figure.hidden);
    }
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    for (const line of lines) {
      const [t, w, m, e] = Array.from(line.cells, (cell) => cell.textContent);
      const text = line.textContent.toLowerCase();
      line.hidden = !(fits(table, t) && fits(workload, w) && fits(epsilon, e) && mechanisms.has(m) &&
        words.every((word) => text.includes(word)));
      left += line.hidden ? 0 : 1;
    }
    document.getElementById("count").textContent = `${left} of ${lines.length} lines`;
  }

  function sort(head, place) {
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const each of all("#numbers th")) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (line) => {  // text, or the number that it begins with: 1,234 (1,000 – 2,000), or 1/2
      const text = line.cells[place].textContent, found = text.replaceAll(",", "").match(/^([-+\d.e]+)(\/\d+)?/);
      if (!head.classList.contains("n")) return text;
      return found ? Number(found[1]) / Number((found[2] || "/1").slice(1)) : Infinity;
    };
    const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1);
    lines.sort((one, other) => compare(value(one), value(other)));
    document.querySelector("#numbers tbody").append(...lines);
  }

  function check(on) {
    for (const box of boxes) box.checked = on;
    show();
  }

  all("#numbers th").forEach((head, place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => sort(head, place));
  });
  for (const chip of all(".chip svg")) pictures.marker(chip, Number(chip.dataset.kind), 7, 7);
  all("select").forEach((select) => select.addEventListener("change", show));
  boxes.forEach((box) => box.addEventListener("change", show));
  search.addEventListener("input", show);
  document.getElementById("all").addEventListener("click", () => check(true));
  document.getElementById("none").addEventListener("click", () => check(false));
  show(); // a page that is gone back to keeps its choices
})();
