// The page: what is chosen, selected and filtered, and which panel shows it.
import { floats, get, post, tellError } from "./api.js";
import { ImageMap } from "./map.js";
import { address, element, fill } from "./pictures.js";
import { listenForFiles, search, showItem, showSelection } from "./look.js";
import { showClean, showDuplicates } from "./clean.js";
import { labelKey, listenForLabels, showLabels } from "./label.js";
import { showKernel } from "./kernel.js";
import { colouring } from "./colours.js";

const byId = (id) => document.getElementById(id);
const TABS = ["look", "search", "clean", "label", "kernel"];
const PANELS = { look: () => {}, search: () => {}, clean: () => showClean(app), label: () => showLabels(app), kernel: () => showKernel(app) };

const app = {
  state: null, map: null, item: null, tab: "look", selection: new Set(), positive: new Set(), negative: new Set(),
  filter: { names: null, categories: new Set(), low: -Infinity, high: Infinity },

  async choose(index) {
    app.map.chosen = index;
    app.map.show(index);
    try {
      app.item = await get(`item/${index}`);
    } catch (error) { tellError(error); return; }
    app.map.ring = new Set(app.item.neighbours.map((match) => match.index));
    app.map.draw();
    showItem(app, app.item);
    if (app.tab === "kernel") showKernel(app);
    else if (app.tab !== "label") app.open("look");
  },

  select(indices) {
    app.selection = new Set(indices);
    app.map.ring = app.selection.size < 5000 ? app.selection : new Set();
    showSelection(app);
    if (app.selection.size) app.open("look");
    app.map.draw();
  },

  example(index, positive) {
    (positive ? app.negative : app.positive).delete(index);
    (positive ? app.positive : app.negative).add(index);
    app.open("search");
    search(app);
  },

  async label(indices, label) {
    try {
      await post("label", { images: indices, label });
    } catch (error) { tellError(error); }
    await poll(true);
  },

  open(tab) {
    app.tab = tab;
    for (const name of TABS) {
      byId(name).hidden = name !== tab;
      byId(`tab-${name}`).setAttribute("aria-selected", String(name === tab));
      byId(`tab-${name}`).tabIndex = name === tab ? 0 : -1;
    }
    PANELS[tab]();
  },

  progress: (part) => (Array.isArray(part) ? `${part[0].toLocaleString("en")} of ${part[1].toLocaleString("en")}` : part),
};

// -- colours and filters ------------------------------------------------------------------------------------------

async function recolour() {
  const key = byId("colour").value, column = app.state.columns.find((each) => each.key === key);
  const values = column ? await floats(`column/${encodeURIComponent(key)}`) : null;
  const names = app.filter.names, shown = new Uint8Array(app.state.count).fill(1);
  const passes = (value) => (column.names ? !app.filter.categories.size || app.filter.categories.has(value) : !(value < app.filter.low || value > app.filter.high));
  for (let i = 0; i < shown.length; i++) if ((names && !names.has(i)) || (values && !passes(values[i]))) shown[i] = 0;
  const { colours, legend } = colouring(column, values, app, recolour);
  fill("legend", ...legend);
  app.map.paint(colours, shown);
}

async function filterNames() {
  const text = byId("text").value.trim();
  app.filter.names = text ? new Set(await get(`names?text=${encodeURIComponent(text)}`)) : null;
  recolour();
}

function listColumns() {
  const select = byId("colour"), keys = app.state.columns.map((column) => column.key);
  if (JSON.stringify(keys) === select.dataset.keys) return false;
  const value = select.value;
  select.replaceChildren(...app.state.columns.map((column) => element("option", { value: column.key }, column.title)), element("option", { value: "" }, "nothing"));
  select.value = keys.includes(value) ? value : keys[0] ?? "";
  select.dataset.keys = JSON.stringify(keys);
  return select.value !== value;
}

// -- the server's state -------------------------------------------------------------------------------------------

let next = 0;

async function poll(now = false) {
  clearTimeout(next);
  const before = app.state;
  try {
    app.state = await get("state");
  } catch (error) { tellError(error); next = setTimeout(poll, 4000); return; }
  const { parts } = app.state, busy = Object.entries(parts).find(([, part]) => part !== "ready" && part !== "waiting" && !String(part).startsWith("failed"));
  const failed = Object.entries(parts).filter(([, part]) => String(part).startsWith("failed")).map(([name, part]) => `${name} ${part}`);
  byId("progress").textContent = [...(busy ? [`${busy[0]} ${app.progress(busy[1])}`] : []), ...failed].join("; ");
  if (before) await changed(before, now);
  next = setTimeout(poll, busy ? 1000 : 3000);
}

async function changed(before, now) {
  const relabelled = before.version !== app.state.version;
  if (before.layout !== app.state.layout) app.map.place(await floats("points"));
  if (listColumns() || (relabelled && ["label", "prediction", "confidence"].includes(byId("colour").value))) await recolour();
  if (app.tab === "label" && (relabelled || now || before.parts.clusters !== app.state.parts.clusters)) showLabels(app);
  const ready = (state) => Object.values(state.parts).filter((part) => part === "ready").length;
  if (ready(before) !== ready(app.state) && (app.tab === "clean" || app.tab === "kernel")) PANELS[app.tab]();
}

// -- beginning ----------------------------------------------------------------------------------------------------

function tip(index, x, y) {
  const node = byId("tip");
  node.hidden = index === null;
  if (index === null) return;
  node.replaceChildren(element("img", { src: address(index), alt: "", width: 96, height: 96 }), `image ${index}`);
  const [width, height] = app.map.size;
  node.style.left = `${x + 140 < width ? x + 14 : Math.max(0, x - 130)}px`;
  node.style.top = `${Math.max(0, Math.min(height - 130, y - 60))}px`;
}

function listen() {
  byId("colour").addEventListener("change", () => { app.filter.categories.clear(); app.filter.low = -Infinity; app.filter.high = Infinity; recolour(); });
  byId("text").addEventListener("change", filterNames);
  byId("threshold").addEventListener("input", () => showDuplicates(app).catch(tellError));
  byId("lasso").addEventListener("click", () => app.map.setLasso(!app.map.lassoing));
  byId("whole").addEventListener("click", () => app.map.whole());
  byId("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  for (const tab of TABS) byId(`tab-${tab}`).addEventListener("click", () => app.open(tab));
  byId("tab-look").parentElement.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    app.open(TABS[(TABS.indexOf(app.tab) + step + TABS.length) % TABS.length]);
    byId(`tab-${app.tab}`).focus();
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.toLowerCase();
    if (key === "l") app.map.setLasso(!app.map.lassoing);
    else if (key === "0") app.map.whole();
    else if (key === "escape") { app.map.setLasso(false); app.map.lasso = null; app.select([]); }
    else if ((key === "p" || key === "n") && app.item) app.example(app.item.index, key === "p");
    else if (app.tab === "label") labelKey(app, key);
  });
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  if (app.map) app.map.draw();
}

async function begin() {
  theme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  await poll();
  document.title = `${app.state.name} · kvicreg explore`;
  byId("title").textContent = `${app.state.name}, ${app.state.count.toLocaleString("en")} images`;
  byId("threshold").min = app.state.floor;
  app.map = new ImageMap(byId("map"), app.state.count, { hover: tip, choose: app.choose, select: app.select });
  byId("no-webgl").hidden = Boolean(app.map.points.gl);
  app.map.place(await floats("points"));
  listColumns();
  await recolour();
  listen();
  listenForFiles(app);
  listenForLabels(app);
  app.open("look");
  window.kvicreg = app; // for a look from the console
  document.documentElement.dataset.ready = "yes";
}

begin().catch(tellError);
