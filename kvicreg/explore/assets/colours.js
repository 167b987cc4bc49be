// From a column to a colour for every point and to the legend, which is the filter too.
import { element } from "./pictures.js";

const SERIES = [[31, 119, 180], [255, 127, 14], [44, 160, 44], [214, 39, 40], [148, 103, 189], [140, 86, 75], [227, 119, 194], [188, 189, 34], [23, 190, 207], [87, 117, 255], [0, 128, 96], [230, 171, 2]];
const RAMP = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 200, 37]];
const NONE = [140, 144, 152], MOST = 40;

function ramp(share) {
  const place = Math.max(0, Math.min(0.9999, share)) * (RAMP.length - 1), k = Math.floor(place), t = place - k;
  return RAMP[k].map((value, c) => Math.round(value + t * (RAMP[k + 1][c] - value)));
}

// A colour of its own for every category; beyond the twelfth, lighter and darker ones.
function series(k) {
  const shade = [0, 0.35, -0.3, 0.6][Math.floor(k / SERIES.length) % 4];
  return SERIES[k % SERIES.length].map((value) => Math.round(shade > 0 ? value + shade * (255 - value) : value * (1 + shade)));
}

function range(values) {
  const finite = values.filter(Number.isFinite).sort();
  return finite.length ? [finite[Math.floor(finite.length * 0.01)], finite[Math.floor(finite.length * 0.99)]] : [0, 1];
}

function dot([r, g, b]) {
  const node = element("span", { class: "dot" });
  node.style.background = `rgb(${r} ${g} ${b})`;
  return node;
}

export function colouring(column, values, app, changed) {
  const colours = new Uint8Array(3 * app.state.count);
  const [low, high] = column && !column.names ? range(values) : [0, 1];
  for (let i = 0; i < app.state.count; i++) {
    const value = values ? values[i] : NaN;
    colours.set(!Number.isFinite(value) ? NONE : column.names ? series(value) : ramp((value - low) / (high - low || 1)), 3 * i);
  }
  if (!column) return { colours, legend: [] };
  return { colours, legend: column.names ? categoryLegend(column, app, changed) : numberLegend(low, high, app, changed) };
}

function categoryLegend(column, app, changed) {
  const chosen = app.filter.categories;
  return column.names.slice(0, MOST).map((name, k) => element("button", {
    type: "button", "aria-pressed": String(chosen.has(k)), class: chosen.size && !chosen.has(k) ? "off" : "", title: name,
    onclick: () => { if (!chosen.delete(k)) chosen.add(k); changed(); },
  }, dot(series(k)), name));
}

function numberLegend(low, high, app, changed) {
  const field = (bound, fallback, words) => {
    const value = Number.isFinite(app.filter[bound]) ? app.filter[bound] : "";
    const input = element("input", { type: "number", step: "any", value, placeholder: fallback.toPrecision(3), "aria-label": words });
    input.addEventListener("change", () => { app.filter[bound] = input.value === "" ? (bound === "low" ? -Infinity : Infinity) : Number(input.value); changed(); });
    return input;
  };
  return [element("label", {}, dot(ramp(0)), " from ", field("low", low, "Show from"), " to ", field("high", high, "Show up to"), dot(ramp(1)))];
}
