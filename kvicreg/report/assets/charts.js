"use strict";
// Line charts as inline SVG: drawn to the width at hand, read by mouse, keyboard or as a table.

const SVG = "http://www.w3.org/2000/svg";
let drawn = 0; // charts on the page, to name their parts apart

function element(name, attributes = {}, text = null) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== null) node.textContent = text;
  return node;
}

function shape(parent, name, attributes = {}, text = null) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== null) node.textContent = text;
  parent.appendChild(node);
  return node;
}

function format(value, percent) {
  if (value === null || value === undefined) return "–";
  if (percent) return (100 * value).toFixed(1) + " %";
  if (value !== 0 && (Math.abs(value) < 0.001 || Math.abs(value) >= 1e5)) return value.toExponential(1).replace(".0e", "e");
  return String(Number(value.toPrecision(4)));
}

function linearTicks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const ticks = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step) ticks.push(Number(v.toPrecision(10)));
  return ticks;
}

function logTicks(low, high) {
  const ticks = [], steps = high / low < 1000 ? [1, 2, 5] : [1];
  for (let p = Math.floor(Math.log10(low)); p <= Math.log10(high); p++) for (const m of steps) ticks.push(Number((m * 10 ** p).toPrecision(1)));
  const inside = ticks.filter((v) => v >= low * 0.999 && v <= high * 1.001);
  const skip = Math.ceil(inside.length / 6);
  return inside.length > 1 ? inside.filter((_, i) => i % skip === 0) : [low, high];
}

// A scale maps values to pixels; logarithmic where asked.
function scale(low, high, from, to, log) {
  const f = log ? Math.log10 : (v) => v;
  const a = f(low), b = f(high);
  return (v) => from + ((f(v) - a) / (b - a || 1)) * (to - from);
}

function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const v of values) { if (v < low) low = v; if (v > high) high = v; }
  return [low, high];
}

// spec: {title, x, y, series: [{name, colour, dash, points: [[x, y, low, high], ...]}], logX, logY, percent, xTicks, yRange}
function lineChart(figure, spec) {
  figure.classList.add("chart");
  const holder = element("div", { class: "plot" });
  const tip = element("div", { class: "tip", role: "status" });
  tip.hidden = true;
  figure.append(holder);
  holder.append(tip);
  const clip = `inside-${++drawn}`;
  let current = spec, cursor = null;

  function usable(p) {
    return p[1] !== null && Number.isFinite(p[1]) && (!current.logY || p[1] > 0) && (!current.logX || p[0] > 0);
  }

  function draw() {
    const old = holder.querySelector("svg");
    const focused = old && document.activeElement === old;
    if (old) old.remove();
    const width = Math.max(240, holder.clientWidth), height = current.height || 230;
    const svg = document.createElementNS(SVG, "svg");
    const last = current.series.map((s) => s.points.filter(usable).at(-1)).map((p, i) => p && `${current.series[i].name} ends at ${format(p[1], current.percent)}`);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    svg.setAttribute("role", "img");
    svg.setAttribute("tabindex", "0");
    svg.setAttribute("aria-label", `${current.title}: ${current.y} against ${current.x}. ${last.filter(Boolean).join("; ")}. Arrow keys read the values.`);
    const points = current.series.flatMap((s) => s.points.filter(usable));
    if (!points.length) {
      shape(svg, "text", { x: width / 2, y: height / 2, "text-anchor": "middle", class: "label" }, "no values recorded");
      holder.prepend(svg);
      return;
    }
    let [x0, x1] = current.xRange || extent(points.map((p) => p[0]));
    let [y0, y1] = current.yRange || extent(points.flatMap((p) => [p[1], p[2] ?? p[1], p[3] ?? p[1]]));
    if (x0 === x1) { x0 -= 0.5; x1 += 0.5; }
    if (current.logY) { y0 = Math.max(y0, y1 * 1e-8); if (y0 === y1) { y0 /= 2; y1 *= 2; } }
    else if (!current.yRange) { const pad = (y1 - y0 || Math.abs(y1) || 1) * 0.08; y0 -= pad; y1 += pad; }
    const left = 56, right = width - 14, top = 10, bottom = height - 40;
    const sx = scale(x0, x1, left, right, current.logX), sy = scale(y0, y1, bottom, top, current.logY);
    const xTicks = current.xTicks || (current.logX ? logTicks(x0, x1) : linearTicks(x0, x1, Math.max(2, width / 110))).filter((v) => !current.wholeX || Number.isInteger(v)).map((v) => [v, format(v)]);
    const yTicks = current.logY ? logTicks(y0, y1) : linearTicks(y0, y1, 5);
    for (const v of yTicks) {
      shape(svg, "line", { x1: left, x2: right, y1: sy(v), y2: sy(v), class: "grid" });
      shape(svg, "text", { x: left - 8, y: sy(v) + 4, "text-anchor": "end", class: "tick" }, current.percent ? `${Math.round(1000 * v) / 10} %` : format(v));
    }
    for (const [v, label] of xTicks) shape(svg, "text", { x: sx(v), y: bottom + 16, "text-anchor": "middle", class: "tick" }, label);
    shape(svg, "line", { x1: left, x2: right, y1: bottom, y2: bottom, class: "axis" });
    shape(svg, "text", { x: (left + right) / 2, y: height - 4, "text-anchor": "middle", class: "label" }, current.x);
    shape(shape(svg, "clipPath", { id: clip }), "rect", { x: left - 3, y: 0, width: right - left + 6, height: bottom });
    for (const s of current.series) {
      const kept = s.points.filter(usable);
      if (kept.length && kept[0].length > 3) {
        const ring = kept.map((p) => `${sx(p[0])},${sy(p[3])}`).concat(kept.slice().reverse().map((p) => `${sx(p[0])},${sy(p[2])}`));
        shape(svg, "polygon", { points: ring.join(" "), class: `band s${s.colour}` });
      }
      shape(svg, "polyline", { points: kept.map((p) => `${sx(p[0]).toFixed(1)},${sy(p[1]).toFixed(1)}`).join(" "), class: `line s${s.colour} ${s.faint ? "faint" : ""}`, "clip-path": `url(#${clip})`, "stroke-dasharray": s.dash || "none" });
      if (kept.length === 1) shape(svg, "circle", { cx: sx(kept[0][0]), cy: sy(kept[0][1]), r: 4, class: `dot s${s.colour}` });
    }
    const rule = shape(svg, "line", { y1: top, y2: bottom, class: "rule", visibility: "hidden" });
    const xs = [...new Set(points.map((p) => p[0]))].sort((a, b) => a - b);

    function read(index) {
      cursor = index;
      const x = xs[index];
      rule.setAttribute("visibility", "visible");
      rule.setAttribute("x1", sx(x));
      rule.setAttribute("x2", sx(x));
      const named = current.xTicks && current.xTicks.find((t) => t[0] === x);
      tip.replaceChildren(element("strong", {}, `${current.x} ${named ? named[1] : format(x)}`));
      for (const s of current.series) {
        const p = s.points.find((q) => q[0] === x);
        if (!p || s.faint) continue;
        const row = element("span", { class: "row" });
        const value = format(p[1], current.percent) + (p.length > 3 ? ` (${format(p[2], current.percent)} to ${format(p[3], current.percent)})` : "");
        row.append(element("i", { class: `key s${s.colour}` }), `${s.name}: ${value}`);
        tip.append(row);
      }
      tip.hidden = false;
      const room = holder.clientWidth - tip.offsetWidth - 4;
      tip.style.left = Math.max(0, Math.min(room, sx(x) + 10)) + "px";
      tip.style.top = "4px";
    }
    function leave() { cursor = null; tip.hidden = true; rule.setAttribute("visibility", "hidden"); }
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const at = ((event.clientX - box.left) * width) / box.width;
      let best = 0;
      xs.forEach((x, i) => { if (Math.abs(sx(x) - at) < Math.abs(sx(xs[best]) - at)) best = i; });
      read(best);
    });
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (event.key === "Escape") leave();
      if (!step) return;
      event.preventDefault();
      read(Math.max(0, Math.min(xs.length - 1, cursor === null ? (step > 0 ? 0 : xs.length - 1) : cursor + step)));
    });
    holder.prepend(svg);
    if (focused) svg.focus();
  }

  if (spec.table !== false) figure.append(numbers(spec));
  let seen = 0;
  new ResizeObserver(() => { if (holder.clientWidth !== seen) { seen = holder.clientWidth; draw(); } }).observe(holder);
  return { update(next) { current = { ...current, ...next }; draw(); } };
}

// The same values as a table, for those who can't or would rather not see the chart.
function numbers(spec) {
  const details = element("details", { class: "numbers" });
  details.append(element("summary", {}, "Numbers"));
  details.addEventListener("toggle", () => {
    if (!details.open || details.querySelector("table")) return;
    const table = element("table"), head = element("tr"), scroll = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${spec.title}, as numbers` });
    table.append(element("caption", {}, `${spec.title}: ${spec.y}`));
    head.append(element("th", { scope: "col" }, spec.x), ...spec.series.map((s) => element("th", { scope: "col" }, s.name)));
    table.append(head);
    const xs = [...new Set(spec.series.flatMap((s) => s.points.map((p) => p[0])))].sort((a, b) => a - b);
    for (const x of xs) {
      const row = element("tr"), named = spec.xTicks && spec.xTicks.find((t) => t[0] === x);
      row.append(element("th", { scope: "row" }, named ? named[1] : format(x)));
      for (const s of spec.series) {
        const p = s.points.find((q) => q[0] === x);
        row.append(element("td", {}, p ? format(p[1], spec.percent) : "–"));
      }
      table.append(row);
    }
    scroll.append(table);
    details.append(scroll);
  });
  return details;
}

function legend(parent, entries) {
  const list = element("ul", { class: "legend" });
  for (const entry of entries) {
    const item = element("li"), key = document.createElementNS(SVG, "svg");
    key.setAttribute("width", 26); key.setAttribute("height", 10); key.setAttribute("aria-hidden", "true");
    shape(key, "line", { x1: 1, x2: 25, y1: 5, y2: 5, class: `line s${entry.colour}`, "stroke-dasharray": entry.dash || "none" });
    item.append(key, entry.name);
    list.append(item);
  }
  parent.append(list);
}
