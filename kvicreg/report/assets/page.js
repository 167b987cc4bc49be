"use strict";
// Puts the charts and maps into the page from the data embedded in it.

const data = JSON.parse(document.getElementById("data").textContent);
const runs = data.runs;
const DASHES = ["none", "7 4", "2 3", "9 3 2 3"];
const looks = (i) => ({ colour: i % 7, dash: DASHES[Math.floor(i / 7) % 4] });
const place = (id) => document.getElementById(id);

function column(run, key) {
  const { epoch } = run.metrics;
  return (run.metrics[key] || []).map((v, i) => [epoch[i], v]);
}

function trainingCurves() {
  const home = place("training-charts");
  if (!home) return;
  const charts = [
    ["invariance", "Invariance term", "how far two views of an image are apart"],
    ["variance", "Variance term", "how far the spectrum is from spread"],
    ["covariance", "Covariance term", "how unevenly the variance lies"],
    ["effective_rank", "Effective rank", "directions the embeddings use"],
    ["probe_accuracy", "Online probe", "accuracy during training"],
    ["loss", "Loss", "weighted sum of the terms"],
  ];
  for (const [key, title, y] of charts) {
    const series = runs.map((run, i) => ({ name: run.name, ...looks(i), points: column(run, key) })).filter((s) => s.points.some((p) => p[1] !== null));
    if (!series.length) continue;
    const figure = element("figure");
    figure.append(element("figcaption", {}, title), element("p", { class: "note" }, y));
    home.append(figure);
    lineChart(figure, { title, x: "epoch", y, series, percent: key === "probe_accuracy", wholeX: true, height: 190 });
  }
  if (runs.length > 1) legend(place("training-legend"), runs.map((run, i) => ({ name: run.name, ...looks(i) })));
}

function spectrum() {
  const home = place("spectrum-chart"), shown = runs.filter((run) => run.spectrum);
  if (!home || !shown.length) return;
  const slider = place("spectrum-slider"), output = place("spectrum-epoch"), play = place("spectrum-play");
  const frames = Math.max(...shown.map((run) => run.spectrum.epochs.length));
  const all = shown.flatMap((run) => run.spectrum.values.flat()).filter((v) => v > 0);
  const high = extent(all)[1], yRange = [Math.max(extent(all)[0], high * 1e-6), high * 1.5];
  const line = (run, frame) => run.spectrum.values[Math.min(frame, run.spectrum.values.length - 1)].map((v, k) => [k + 1, v]);
  const series = (frame) => shown.flatMap((run) => {
    const look = looks(runs.indexOf(run));
    const first = { name: `${run.name}, start`, colour: look.colour, dash: "2 4", faint: true, points: line(run, 0) };
    return [first, { name: run.name, ...look, points: line(run, frame) }];
  });
  slider.max = frames - 1;
  slider.value = frames - 1;
  const chart = lineChart(home, { title: "Spectrum", x: "direction", y: "eigenvalue", series: series(frames - 1), logX: true, logY: true, yRange, height: 320, table: false });
  function move() {
    const frame = Number(slider.value), epochs = shown.map((run) => run.spectrum.epochs[Math.min(frame, run.spectrum.epochs.length - 1)]);
    output.textContent = `epoch ${Math.max(...epochs)}`;
    slider.setAttribute("aria-valuetext", output.textContent);
    chart.update({ series: series(frame) });
  }
  slider.addEventListener("input", move);
  let timer = null;
  const stop = () => { clearInterval(timer); timer = null; play.textContent = "Play"; };
  play.addEventListener("click", () => {
    if (timer) return stop();
    if (Number(slider.value) >= frames - 1) slider.value = 0;
    play.textContent = "Stop";
    timer = setInterval(() => {
      slider.value = Number(slider.value) + 1;
      move();
      if (Number(slider.value) >= frames - 1) stop();
    }, Math.max(60, 3000 / frames));
    return move();
  });
  if (runs.length > 1) legend(place("spectrum-legend"), shown.map((run) => ({ name: run.name, ...looks(runs.indexOf(run)) })));
  move();
}

function topEigenvalues() {
  const home = place("top-charts");
  if (!home) return;
  for (const run of runs.filter((r) => r.spectrum)) {
    const figure = element("figure"), { epochs, values } = run.spectrum;
    figure.append(element("figcaption", {}, run.name));
    home.append(figure);
    const series = [...Array(Math.min(6, values[0].length)).keys()].map((k) => ({ name: `eigenvalue ${k + 1}`, colour: k, points: values.map((row, e) => [epochs[e], row[k]]) }));
    lineChart(figure, { title: `Top eigenvalues of ${run.name}`, x: "epoch", y: "eigenvalue", series, logY: true, wholeX: true, height: 230 });
  }
  legend(place("top-legend"), [...Array(6).keys()].map((k) => ({ name: `eigenvalue ${k + 1}`, colour: k })));
}

function robustnessCurves() {
  const home = place("robustness-charts");
  if (!home) return;
  const subjects = runs.filter((run) => run.robustness).map((run) => [run.name, run.robustness.encoder, looks(runs.indexOf(run))]);
  const first = runs.find((run) => run.robustness);
  const controls = { "raw pixels": { colour: 7, dash: "2 3" }, "random encoder": { colour: 7, dash: "7 4" },
    "starting encoder": { colour: 7, dash: "9 3 2 3" } };
  for (const [name, look] of Object.entries(controls)) if (first.robustness[name]) subjects.push([name, first.robustness[name], look]);
  const all = subjects.flatMap(([, curves]) => curves.flatMap((c) => c.accuracy.flatMap((a) => [a.low, a.high])));
  const [low, high] = extent(all);
  first.robustness.encoder.forEach((curve, index) => {
    const figure = element("figure");
    figure.append(element("figcaption", {}, curve.shift[0].toUpperCase() + curve.shift.slice(1)));
    home.append(figure);
    const series = subjects.map(([name, curves, look]) => ({ name, ...look, points: curves[index].accuracy.map((a, s) => [s, a.value, a.low, a.high]) }));
    lineChart(figure, { title: curve.shift, x: curve.unit, y: "accuracy", series, percent: true, xTicks: curve.amounts.map((a, s) => [s, format(a)]), yRange: [Math.max(0, low - 0.02), Math.min(1, high + 0.02)], height: 200 });
  });
  legend(place("robustness-legend"), subjects.map(([name, , look]) => ({ name, ...look })));
}

let groups = [];
function maps() {
  const home = place("maps");
  if (!home) return;
  groups = Object.entries(data.pictures).map(([print, pictures]) => new MapGroup(home, pictures, runs.filter((run) => run.map && run.map.pictures === print)));
}

function heat() {
  for (const cell of document.querySelectorAll("td[data-share]")) {
    const share = Number(cell.dataset.share);
    cell.style.setProperty("--share", `${Math.round(100 * Math.min(1, Math.sqrt(share)))}%`);
    if (share > 0.45) cell.classList.add("strong");
  }
}

function theme() {
  const button = place("theme"), root = document.documentElement;
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const show = () => { button.textContent = dark() ? "Light" : "Dark"; for (const group of groups) group.redraw(); };
  button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; show(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
}

trainingCurves();
spectrum();
topEigenvalues();
robustnessCurves();
maps();
heat();
theme();
document.documentElement.dataset.ready = "yes";
