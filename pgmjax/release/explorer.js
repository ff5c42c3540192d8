"use strict";
(function () {
  const source = document.getElementById("x-data"), number = pictures.number;
  if (!source) return;  // a report whose numbers were not made has none
  const data = JSON.parse(source.textContent);
  const find = (id) => document.getElementById("x-" + id);
  const [first, second, order, filter, body, head] = [
    find("first"), find("second"), find("order"), find("filter"),
    document.querySelector("#x-table tbody"), document.querySelector("#x-table thead"),
  ];
  const STEP = 100, BARS = 20;
  let shown = STEP, lines = [], names = [], sizes = [], parts = null;

  function add(parent, tag, text, kind) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    parent.appendChild(made);
    return made;
  }
  function chosen() {
    const a = Number(first.value), b = second.value === "" ? null : Number(second.value);
    if (b === null) return { places: [a], table: data.one[a] };
    return { places: [Math.min(a, b), Math.max(a, b)], table: data.pairs[Math.min(a, b) + "," + Math.max(a, b)] };
  }
  function fillSecond() {
    const a = Number(first.value), before = second.value;
    second.textContent = "";
    add(second, "option", "(no second column)").value = "";
    data.columns.forEach((column, b) => {
      if (b === a || !data.pairs[Math.min(a, b) + "," + Math.max(a, b)]) return;
      add(second, "option", column.name).value = String(b);
    });
    second.value = [...second.options].some((option) => option.value === before) ? before : "";
  }
  function read() {
    const { places, table } = chosen();
    const values = places.map((place) => data.columns[place].values);
    names = places.map((place) => data.columns[place].name);
    lines = table.count.map((count, cell) => {
      const codes = places.length === 1 ? [cell]
        : [Math.floor(cell / values[1].length), cell % values[1].length];
      const half = Array.isArray(table.half) ? table.half[cell] : table.half;
      const noisy = table.noisy === null ? null : table.noisy[cell];
      return { words: codes.map((code, k) => values[k][code]), codes, count, noisy, half };
    });
    sizes = values.map((each) => each.length);
    parts = table.parts;
    const wanted = filter.value.trim().toLowerCase();
    if (wanted) lines = lines.filter((line) => line.words.some((word) => word.toLowerCase().includes(wanted)));
    if (order.value === "count") lines.sort((x, y) => y.count - x.count);
  }
  function ends(line) {  // as release/accuracy.py: more than 0 is left of a count below 0, and the count is inside
    const low = Math.max(0, line.noisy - line.half), high = Math.max(0, line.noisy) + line.half;
    return [Math.min(low, line.count), Math.max(high, line.count)];
  }
  function interval(line) {
    if (line.noisy === null) return "not measured: the model alone";
    return ends(line).map(number).join(" to ");
  }
  function shares(line) {  // Fieller's interval: see release/shares.py
    if (line.noisy === null) return "the model alone";
    if (data.records === null || parts === null) return "unknown";
    const [total, variance, width] = data.records, square = width * width;
    const cells = sizes.reduce((all, size) => all * size, 1), spread = line.half * line.half / square;
    const lead = total * total - square * variance;
    if (total <= 0 || lead <= 0) return "0 to 100 %";
    const middle = line.noisy * total - square * variance / cells;
    const root = Math.sqrt(Math.max(0, middle * middle - lead * (line.noisy * line.noisy - square * spread)));
    const low = (middle - root) / lead, high = Math.max((middle + root) / lead, line.half / total);
    return [low, high].map((end) => (100 * Math.min(1, Math.max(0, end))).toFixed(2)).join(" to ") + " %";
  }
  function halfOfSum() {
    // the noise of cells is shared; that of the parts of their sum on each set of columns is not
    if (parts === null) return lines.reduce((all, line) => all + line.half, 0);
    const squares = (k) => {  // of the number of lines with each value of column k
      const found = new Array(sizes[k]).fill(0);
      lines.forEach((line) => { found[line.codes[k]] += 1; });
      return found.reduce((all, n) => all + n * n, 0);
    };
    const n = lines.length, cells = sizes.reduce((all, size) => all * size, 1), mean = n * n / cells;
    let lengths;
    if (sizes.length === 1) lengths = [mean / cells, n - mean];
    else {
      const [a, b] = [squares(0) / sizes[1], squares(1) / sizes[0]];
      lengths = [mean / cells, (a - mean) / sizes[1], (b - mean) / sizes[0], n - a - b + mean];
    }
    return Math.sqrt(lengths.reduce((all, length, k) => all + Math.max(0, length) * parts[k], 0));
  }
  function sum() {
    const counted = lines.reduce((all, line) => all + line.count, 0);
    let said = number(lines.length) + (lines.length === 1 ? " line, " : " lines, ") + "in total " +
      number(counted) + " of " + number(data.total);
    if (lines.length && lines[0].noisy !== null) {
      const noisy = lines.reduce((all, line) => all + line.noisy, 0);
      const half = halfOfSum();
      said += "; 95 % interval of their sum: " + interval({ noisy, half, count: counted });
    }
    find("sum").textContent = said + ".";
  }
  function draw() {
    const top = lines.slice(0, BARS), told = top.length && top[0].noisy !== null;
    pictures.draw(find("chart"), {
      kind: "rows", label: names.join(" by ") + ": counts as bars, 95 % intervals as lines",
      names: top.map((line) => line.words.join(" · ")), counts: top.map((line) => line.count),
      noisy: told ? top.map((line) => line.noisy) : null,
      low: told ? top.map((line) => ends(line)[0]) : null, high: told ? top.map((line) => ends(line)[1]) : null,
    });
    const rest = lines.slice(BARS).reduce((all, line) => all + line.count, 0), more = lines.length - BARS;
    find("rest").textContent = more > 0 ? "The other " + number(more) + " lines in total: " + number(rest) + "." : "";
  }
  function write() {
    head.textContent = body.textContent = "";
    const titles = add(head, "tr");
    names.forEach((name) => add(titles, "th", name));
    const heads = ["count", "95 % interval", "share", "95 % interval of it"];
    heads.forEach((name) => add(titles, "th", name, "n"));
    lines.slice(0, shown).forEach((line) => {
      const row = add(body, "tr");
      line.words.forEach((word, k) => { add(row, "td", word).dataset.title = names[k]; });
      const share = (100 * line.count / data.total).toFixed(2) + " %";
      [number(line.count), interval(line), share, shares(line)].forEach((text, k) => {
        add(row, "td", text, "n").dataset.title = heads[k];
      });
    });
    find("more").hidden = lines.length <= shown;
  }
  function update() {
    read(); sum(); draw(); write();
    find("done").textContent = "";
  }
  function copy(text, what) {
    const said = () => { find("done").textContent = what + " copied."; };
    const otherwise = () => {
      const area = add(document.body, "textarea", text);
      area.select();
      if (document.execCommand("copy")) said();
      else find("done").textContent = "The browser does not allow copying.";
      area.remove();
    };
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(said, otherwise);
    else otherwise();
  }
  function asText() {
    const cells = [[...names, "count", "low", "high"]];
    lines.forEach((line) => {
      const both = line.noisy === null ? ["", ""] : ends(line).map((end) => end.toFixed(1));
      cells.push([...line.words, line.count, ...both]);
    });
    return cells.map((row) => row.join("\t")).join("\n");
  }
  data.columns.forEach((column, k) => { add(first, "option", column.name).value = String(k); });
  first.addEventListener("change", () => { fillSecond(); shown = STEP; update(); });
  for (const part of [second, order]) part.addEventListener("change", () => { shown = STEP; update(); });
  filter.addEventListener("input", () => { shown = STEP; update(); });
  find("more").addEventListener("click", () => { shown += STEP; write(); });
  find("copy").addEventListener("click", () => copy(asText(), "Table"));
  find("picture").addEventListener("click", () => { if (lines.length) copy(pictures.asText(find("chart").querySelector("svg")), "Picture"); });
  fillSecond();
  update();
})();
