// Duplicates as groups with a threshold to drag, outliers, and files that have problems. Lists are saved, never files.
import { download, get, tellError } from "./api.js";
import { element, fill, grid, hint, picture } from "./pictures.js";

let waiting = 0;

export async function showDuplicates(app) {
  const threshold = Number(document.getElementById("threshold").value);
  document.getElementById("threshold-value").textContent = threshold.toFixed(3);
  const part = app.state.parts.neighbours;
  if (part !== "ready") { fill("duplicates"); fill("duplicates-count", `Neighbours are being looked up: ${app.progress(part)}`); return; }
  const turn = ++waiting, answer = await get(`duplicates?threshold=${threshold}`);
  if (turn !== waiting) return; // dragged on
  const mirror = app.state.parts.mirrored === "ready" ? "mirror images counted" : "mirror images not counted yet";
  fill("duplicates-count", `${answer.images.toLocaleString("en")} images in ${answer.count.toLocaleString("en")} group${answer.count === 1 ? "" : "s"}; ${mirror}. `,
    element("button", { type: "button", onclick: () => app.select(answer.members) }, "Select them"));
  fill("duplicates", ...answer.groups.map((group) => element("div", { class: "group" }, grid(group, app.choose, (item) => item.name))));
}

export async function showOutliers(app) {
  if (app.state.parts.outliers !== "ready") { fill("outliers", hint("Not ready yet.")); return; }
  const items = await get("outliers");
  const save = () => download("list", { images: items.map((item) => item.index) }, "outliers.csv").catch(tellError);
  fill("outliers", element("div", { class: "actions" }, element("button", { type: "button", onclick: save }, "Save these as list")),
    grid(items.slice(0, 36), app.choose, (item) => item.similarity.toFixed(3)));
}

export async function showProblems(app) {
  const part = app.state.parts.files;
  if (part !== "ready") { fill("problems", hint(`Files are being looked at: ${app.progress(part)}`)); return; }
  const items = await get("problems");
  if (!items.length) { fill("problems", hint("No unreadable, tiny, blank or blurred files, and no copies.")); return; }
  const table = element("table");
  for (const item of items.slice(0, 300)) {
    const button = element("button", { type: "button", title: item.name, onclick: () => app.choose(item.index) }, picture(item.index, item.name));
    table.append(element("tr", {}, element("td", {}, button), element("td", {}, item.kind), element("td", {}, item.detail), element("td", {}, item.name)));
  }
  const save = () => download("list", { images: [...new Set(items.map((item) => item.index))] }, "problems.csv").catch(tellError);
  fill("problems", element("div", { class: "actions" }, element("button", { type: "button", onclick: save }, "Save as list")), table);
}

export async function showClean(app) {
  try {
    await Promise.all([showDuplicates(app), showOutliers(app), showProblems(app)]);
  } catch (error) { tellError(error); }
}
