"use strict";
// The pictures of a page, drawn from the numbers that lie beside each as JSON:
//   rows, columns: {names, counts, noisy, low, high}  bars, noisy counts as points, intervals as lines
//   map: {rows, columns, axes, panels: [{title, values}]}  tables of counts [rows][columns] in one scale
//   points: {axes, series: [{name, colour, points: [{label, at, up}]}]}  quartiles on logarithmic axes
// Each is drawn anew when its width changes. It is one stop of the Tab key; arrow keys, a tap or a pointer choose
// a mark of it, whose numbers then stand below it. Colours are variables of the style sheet.
const pictures = (() => {
  const SIZE = 12, ROW = 20;
  const ruler = document.createElement("canvas").getContext("2d");
  ruler.font = SIZE + "px " + getComputedStyle(document.body).fontFamily;
  const frame = document.createElement("div");
  frame.innerHTML = "<svg></svg>";
  const space = frame.firstChild.namespaceURI;
  const drawings = new Map(), widths = new Map();
  let keeps = () => true;

  function number(value) {
    const digits = Math.abs(value) < 100 && value !== Math.round(value) ? 1 : 0;
    const rounded = Math.round(value * 10 ** digits) / 10 ** digits + 0;  // no -0
    return rounded.toLocaleString("en-US", { maximumFractionDigits: digits });
  }
  const tick = (value) => (Math.abs(value) < 1e-3 && value ? String(value)
    : value.toLocaleString("en-US", { maximumSignificantDigits: 10 }));
  const length = (text) => ruler.measureText(text).width;
  const longest = (texts) => Math.max(0, ...texts.map(length));

  function shortened(text, room) {
    if (length(text) <= room) return text;
    const letters = [...text];
    let kept = Math.min(letters.length - 1, 100), found;
    do {  // names often differ at their ends
      const half = Math.ceil(kept / 2);
      found = letters.slice(0, half).join("") + "…" + letters.slice(letters.length - (kept - half)).join("");
      kept -= 1;
    } while (kept > 0 && length(found) > room);
    return found;
  }
  function distinct(names, room) {  // names that differ stay different
    const found = names.map((name) => shortened(name, room));
    if (new Set(found).size === new Set(names).size) return found;
    return names.map((name, k) => shortened(name, room - length(" " + (k + 1))) + " " + (k + 1));
  }
  function ticks(low, high, most) {
    const rough = (high - low) / Math.max(1, most), size = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((unit) => size * unit).find((each) => each >= rough);
    const found = [];
    for (let k = Math.ceil(low / step); k <= Math.floor(high / step); k += 1) found.push(+(k * step).toPrecision(12));
    return found;
  }
  function logTicks(low, high) {
    let found = [];
    for (const factors of [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 8]]) {
      found = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
        found.push(...factors.map((factor) => Number(factor + "e" + power)));
      }
      found = found.filter((value) => value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9));
      if (found.length >= 3) break;
    }
    if (found.length < 2) found = [...new Set([low, high].map((value) => +value.toPrecision(2)))];
    return found.filter((_, k) => k % Math.ceil(found.length / 6) === 0);
  }

  function put(parent, tag, attributes, text) {
    const made = document.createElementNS(space, tag);
    for (const [name, value] of Object.entries(attributes)) {
      made.setAttribute(name, typeof value === "number" ? +value.toFixed(2) : value);
    }
    if (text !== undefined) made.textContent = text;
    return parent.appendChild(made);
  }
  const write = (parent, x, y, text, anchor, colour) =>
    put(parent, "text", { x, y, "text-anchor": anchor, fill: "var(--" + colour + ")" }, text);
  const rule = (parent, x1, y1, x2, y2, colour, width = 1) =>
    put(parent, "line", { x1, y1, x2, y2, stroke: "var(--" + colour + ")", "stroke-width": width });
  const box = (parent, x, y, width, height, more) =>
    put(parent, "rect", { x, y, width: Math.max(0, width), height: Math.max(0, height), ...more });
  function mark(svg, words) {
    const made = put(svg, "g", { class: "mark", role: "img", tabindex: svg.querySelector(".mark") ? -1 : 0 });
    put(made, "title", {}, words);
    return made;
  }

  // bars

  function words(bars, k) {
    const said = bars.names[k] + ": " + number(bars.counts[k]);
    if (!bars.noisy) return said;
    return said + "; noisy " + number(bars.noisy[k]) + "; 95 % interval " + number(bars.low[k]) + " to " + number(bars.high[k]);
  }
  function ends(bars) {
    const all = [0, ...bars.counts, ...(bars.noisy || []), ...(bars.low || []), ...(bars.high || [])];
    return [Math.min(...all), Math.max(...all, 1e-9)];
  }
  function rows(svg, wide, bars) {
    const right = longest(bars.counts.map(number)) + 10, most = longest(bars.names);
    const above = most > 0.42 * wide, high = above ? ROW + 14 : ROW;
    const left = above ? 4 : most + 10, [low, top] = ends(bars);
    const names = distinct(bars.names, (above ? wide : left) - 8);
    const across = (value) => left + (wide - right - left) * (value - low) / (top - low);
    names.forEach((name, k) => {
      const y = k * high + high - ROW + 3, part = mark(svg, words(bars, k)), middle = y + (ROW - 6) / 2;
      box(part, 0, k * high, wide, high, { class: "hit", fill: "transparent" });
      write(part, above ? left : left - 6, above ? y - 4 : y + 11, name, above ? "start" : "end", "ink");
      box(part, across(Math.min(0, bars.counts[k])), y, Math.abs(across(bars.counts[k]) - across(0)), ROW - 6, { fill: "var(--fit)" });
      if (bars.noisy) {
        rule(part, across(bars.low[k]), middle, across(bars.high[k]), middle, "noisy", 2);
        put(part, "circle", { cx: across(bars.noisy[k]), cy: middle, r: 2.6, fill: "var(--noisy)" });
      }
      write(part, wide - 2, y + 11, number(bars.counts[k]), "end", "muted");
    });
    rule(svg, across(0), 0, across(0), high * names.length, "muted");
    return high * names.length + 2;
  }
  function columns(svg, wide, bars) {
    const tall = 220, floor = tall - 24, [low, top] = ends(bars), marks = ticks(low, top, 5);
    const left = longest(marks.map(tick)) + 10, slot = (wide - left) / bars.names.length;
    const up = (value) => 8 + (floor - 8) * (top - value) / (top - low);
    for (const value of marks) {
      rule(svg, left, up(value), wide, up(value), "grid");
      write(svg, left - 6, up(value) + 4, tick(value), "end", "muted");
    }
    bars.names.forEach((_, k) => {
      const x = left + k * slot, part = mark(svg, words(bars, k)), middle = x + slot / 2;
      box(part, x, 0, slot, floor, { class: "hit", fill: "transparent" });
      box(part, x + 0.07 * slot, Math.min(up(0), up(bars.counts[k])), 0.86 * slot, Math.abs(up(bars.counts[k]) - up(0)), { fill: "var(--fit)" });
      if (bars.noisy) {
        rule(part, middle, up(bars.low[k]), middle, up(bars.high[k]), "noisy", slot > 6 ? 1.5 : 1);
        put(part, "circle", { cx: middle, cy: up(bars.noisy[k]), r: slot > 6 ? 2.4 : 1.4, fill: "var(--noisy)" });
      }
    });
    rule(svg, left, up(0), wide, up(0), "muted");
    namesBelow(svg, bars.names, left, slot, wide, floor);
    return tall;
  }
  function namesBelow(svg, all, left, slot, wide, floor) {
    const room = Math.max(slot - 8, Math.min(120, (wide - left) / 3));
    const step = Math.ceil((Math.min(longest(all), room) + 10) / slot);
    const places = all.map((_, k) => k).filter((k) => k % step === 0);
    distinct(places.map((k) => all[k]), room).forEach((name, n) => {
      const at = left + (places[n] + 0.5) * slot, half = length(name) / 2;
      if (step === 1) return write(svg, Math.min(at, wide - half), floor + 15, name, "middle", "muted");
      if (places[n] && left + places[n] * slot + 2 * half > wide) return undefined;
      rule(svg, at, floor, at, floor + 4, "muted");
      return write(svg, left + places[n] * slot, floor + 17, name, "start", "muted");
    });
  }

  // maps

  function map(svg, wide, { rows: down, columns: across, axes, panels }) {
    const side = panels.length > 1 && wide >= 460, each = side ? (wide - 16) / 2 : wide;
    const cell = Math.max(13, Math.min(26, 300 / down.length)), high = cell * down.length;
    const top = Math.max(1, ...panels.flatMap((panel) => panel.values.flat()));
    const room = Math.min(longest(down) + 1, 0.32 * each), left = room + 8, slot = (each - left) / across.length;
    const shown = distinct(down, room), tall = high + 70;
    panels.forEach((panel, n) => {
      const g = put(svg, "g", { transform: side ? `translate(${n * (each + 16)} 0)` : `translate(0 ${n * tall})` });
      write(g, 0, 12, panel.title, "start", "ink");
      write(g, each, 12, shortened(axes[0] + " ↓", each - length(panel.title) - 10), "end", "muted");
      box(g, left, 22, each - left, high, { fill: "var(--map-low)" });
      shown.forEach((name, k) => write(g, left - 6, 26 + (k + 0.5) * cell, name, "end", "muted"));
      panel.values.forEach((row, i) => row.forEach((value, j) => {
        const said = panels.map((other) => other.title + " " + number(other.values[i][j])).join("; ");
        const part = mark(svg, axes[0] + " " + down[i] + ", " + axes[1] + " " + across[j] + ": " + said);
        g.appendChild(part);
        box(part, left + j * slot, 22 + i * cell, slot, cell,
          { class: "hit", fill: "var(--map)", "fill-opacity": Math.sqrt(Math.max(0, value) / top) });
      }));
      namesBelow(g, across, left, slot, each, 22 + high);
      write(g, left + (each - left) / 2, 22 + high + 34, shortened(axes[1] + " →", each - left), "middle", "muted");
    });
    let x = 0, end = side ? tall : tall * panels.length;
    [0, 0.25, 0.5, 0.75, 1].forEach((share) => {  // equal steps of the square root
      const text = number(top * share * share);
      if (x + 19 + length(text) > wide) [x, end] = [0, end + ROW];
      box(svg, x + 0.5, end - 8, 14, 12, { fill: "var(--map-low)", stroke: "var(--muted)", "stroke-width": 0.5 });
      box(svg, x + 0.5, end - 8, 14, 12, { fill: "var(--map)", "fill-opacity": share });
      write(svg, x + 19, end + 2, text, "start", "muted");
      x += 19 + length(text) + 12;
    });
    return end + 8;
  }

  // points on logarithmic axes

  const SHAPES = [
    (x, y) => `M${x - 4},${y}a4,4 0 1 0 8,0a4,4 0 1 0 -8,0z`, (x, y) => `M${x - 3.5},${y - 3.5}h7v7h-7z`,
    (x, y) => `M${x},${y - 5}l5,5l-5,5l-5,-5z`, (x, y) => `M${x},${y - 5}l5,8.6h-10z`,
    (x, y) => `M${x},${y + 5}l-5,-8.6h10z`,
  ];
  const marker = (parent, kind, x, y) => put(parent, "path", {
    d: SHAPES[kind % SHAPES.length](+x.toFixed(1), +y.toFixed(1)), fill: `var(--s${kind % 9})`,
  });
  function scale(values, start, end) {
    let [low, high] = [Math.log(Math.min(...values)), Math.log(Math.max(...values))];
    if (high - low < 1e-9) [low, high] = [low - 0.5, high + 0.5];
    return (value) => start + (Math.log(value) - low) / (high - low) * (end - start);
  }
  const quartiles = (three) => "median " + three[1].toPrecision(3) + ", quartiles " + three[0].toPrecision(3) + " to " + three[2].toPrecision(3);
  function points(svg, wide, { axes, series }) {
    const side = wide >= 620, each = side ? (wide - 24) / 2 : wide, tall = 330;
    const own = series.map((one) => ({ ...one, points: one.points.filter((point) => keeps(one.name, point.label)) }));
    axes.forEach((axis, n) => {
      const g = put(svg, "g", { transform: side ? `translate(${n * (each + 24)} 0)` : `translate(0 ${n * tall})` });
      const there = own.map((one) => ({ ...one, points: one.points.filter((point) => point.at[n]) }))
        .filter((one) => one.points.length);
      const all = there.flatMap((one) => one.points);
      if (!all.length) return write(g, 10, 30, "Nothing above 0 to draw.", "start", "muted");
      panel(svg, g, each, tall, axis, n, there, all);
      return undefined;
    });
    return side ? tall : tall * axes.length;
  }
  function panel(svg, g, wide, tall, axis, n, series, all) {
    const ups = all.flatMap((point) => point.up), ats = all.flatMap((point) => point.at[n]);
    const exact = all.every((point) => point.at[n][0] === point.at[n][2]), margin = exact ? 22 : 8;
    const marks = logTicks(Math.min(...ups), Math.max(...ups)), left = longest(marks.map(tick)) + 12, floor = tall - 46;
    const x = scale(ats, left + margin, wide - 10 - margin), y = scale(ups, floor - 8, 18);
    const values = exact ? [...new Set(ats)].sort((a, b) => a - b) : logTicks(Math.min(...ats), Math.max(...ats));
    for (const value of marks) {
      rule(g, left, y(value), wide - 10, y(value), "grid");
      write(g, left - 7, y(value) + 4, tick(value), "end", "muted");
    }
    let last = -Infinity;
    for (const value of values) {
      const half = length(tick(value)) / 2;
      rule(g, x(value), 10, x(value), floor, "grid");
      if (x(value) - half < last + 8) continue;
      write(g, x(value), floor + 16, tick(value), "middle", "muted");
      last = x(value) + half;
    }
    write(g, (left + wide) / 2, tall - 10, axis, "middle", "ink");
    series.forEach((one, k) => {
      // beside each other, so that they do not overlap at one place
      const shift = exact ? (k - (series.length - 1) / 2) * Math.min(3.5, 30 / series.length) : 0;
      const places = one.points.map((point) => [x(point.at[n][1]) + shift, y(point.up[1])]);
      const colour = `var(--s${one.colour % 9})`;
      put(g, "polyline", { points: places.map((place) => place.map((v) => v.toFixed(1)).join(",")).join(" "),
        fill: "none", stroke: colour, "stroke-width": 1.4, "stroke-opacity": 0.7 });
      one.points.forEach((point, i) => {
        const [px, py] = places[i], part = mark(svg, one.name + ", epsilon " + point.label + ": " + quartiles(point.up) +
          (point.at[1] ? "; seconds a trial " + point.at[1][1].toPrecision(3) : ""));
        g.appendChild(part);
        let bars = `M${px.toFixed(1)},${y(point.up[0]).toFixed(1)}V${y(point.up[2]).toFixed(1)}`;
        if (!exact) bars += `M${x(point.at[n][0]).toFixed(1)},${py.toFixed(1)}H${x(point.at[n][2]).toFixed(1)}`;
        put(part, "circle", { cx: px, cy: py, r: 11, class: "hit", fill: "transparent" });
        put(part, "path", { d: bars, stroke: colour, "stroke-width": 1.6, fill: "none" });
        marker(part, one.colour, px, py);
      });
    });
  }

  // the page

  const KINDS = { rows, columns, map, points };
  const STEPS = { ArrowLeft: () => -1, ArrowRight: () => 1, ArrowUp: (row) => -row, ArrowDown: (row) => row };

  function paint(place) {
    const drawing = drawings.get(place), wide = Math.floor(place.clientWidth);
    widths.set(place, wide);
    if (!wide) return;  // hidden: drawn when it is shown
    place.textContent = "";
    const svg = put(place, "svg", { role: "group", "font-size": SIZE, "aria-label": drawing.label, "font-family": "system-ui, sans-serif" });
    const high = KINDS[drawing.kind](svg, wide, drawing);
    svg.setAttribute("viewBox", `0 0 ${wide} ${Math.ceil(high)}`);
    const said = place.appendChild(document.createElement("p"));
    said.className = "said";
    said.setAttribute("role", "status");
    const marks = [...svg.querySelectorAll(".mark")], row = drawing.kind === "map" ? drawing.columns.length : 1;
    const say = (event) => {
      const chosen = event.target.closest(".mark");
      if (chosen) said.textContent = chosen.firstChild.textContent;
      return chosen;
    };
    svg.addEventListener("pointerover", say);
    svg.addEventListener("click", (event) => { const chosen = say(event); if (chosen) chosen.focus(); });
    svg.addEventListener("focusin", (event) => {
      const chosen = say(event);
      for (const each of marks) each.setAttribute("tabindex", each === chosen ? 0 : -1);
    });
    svg.addEventListener("keydown", (event) => {
      const at = marks.indexOf(event.target.closest(".mark"));
      const to = { Home: 0, End: marks.length - 1 }[event.key] ?? at + (STEPS[event.key]?.(row) ?? NaN);
      if (at < 0 || Number.isNaN(to)) return;
      event.preventDefault();
      marks[to]?.focus();
    });
  }
  const watch = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (Math.floor(target.clientWidth) !== widths.get(target)) paint(target);
    }
  });
  function draw(place, drawing) {
    drawings.set(place, drawing);
    paint(place);
    watch.observe(place);
  }
  function choose(keep) {  // which points are drawn, by the name of their series and their label
    keeps = keep;
    for (const place of drawings.keys()) paint(place);
  }
  function asText(svg) {  // for use elsewhere: colours instead of variables
    const style = getComputedStyle(document.documentElement);
    return new XMLSerializer().serializeToString(svg)
      .replace(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
  }
  for (const place of document.querySelectorAll("figure .picture")) {
    const figure = place.closest("figure");
    draw(place, JSON.parse(figure.querySelector("script").textContent));
    figure.querySelector("details").open = false;
  }
  return { draw, choose, marker, number, asText, put };
})();
