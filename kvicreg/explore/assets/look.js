// The chosen image with its neighbours, the selection of the lasso, and search by example or by a dropped image.
import { download, post, tellError, upload } from "./api.js";
import { element, fill, grid, hint, picture } from "./pictures.js";

const similarity = (item) => item.similarity.toFixed(3);

export function showItem(app, item) {
  const words = element("dl");
  for (const [name, value] of Object.entries(item.values)) words.append(element("dt", {}, name), element("dd", {}, value));
  const about = element("div", {}, element("p", {}, element("strong", {}, item.name)), words, ...item.problems.map(hint));
  const actions = element("div", { class: "actions" },
    element("button", { type: "button", onclick: () => app.example(item.index, true) }, "More like this (P)"),
    element("button", { type: "button", onclick: () => app.example(item.index, false) }, "Less like this (N)"));
  const nodes = [element("div", { class: "chosen" }, picture(item.index, item.name, 320), about), actions];
  nodes.push(element("h3", {}, "Nearest by the encoder"), grid(item.neighbours, app.choose, similarity));
  nodes.push(element("h3", {}, "Nearest by pixels"), grid(item.pixels, app.choose, similarity));
  fill("chosen", ...nodes);
}

export function showSelection(app) {
  const node = document.getElementById("selection"), chosen = [...app.selection];
  node.hidden = chosen.length === 0;
  if (node.hidden) return;
  const field = element("input", { placeholder: "label", "aria-label": "Label of the selection", maxlength: 200, list: "class-list" });
  node.replaceChildren(
    element("h2", {}, `${chosen.length.toLocaleString("en")} selected`),
    element("div", { class: "actions" },
      element("button", { type: "button", onclick: () => download("list", { images: chosen }, "list.csv").catch(tellError) }, "Save as list"),
      field, element("button", { type: "button", onclick: () => { if (field.value.trim()) app.label(chosen, field.value); } }, "Label all"),
      element("button", { type: "button", onclick: () => app.select([]) }, "Clear")),
    grid(chosen.slice(0, 24).map((index) => ({ index, name: `image ${index}` })), app.choose));
}

function showExamples(app) {
  const parts = [["More like", app.positive, "positive"], ["Less like", app.negative, "negative"]].filter(([, set]) => set.size);
  const nodes = parts.flatMap(([title, set]) => [element("h3", {}, `${title} (click to take away)`),
    grid([...set].map((index) => ({ index, name: `image ${index}` })), (index) => { set.delete(index); search(app); })]);
  fill("examples", ...nodes);
}

export async function search(app) {
  showExamples(app);
  if (!app.positive.size) { fill("matches"); return; }
  try {
    showMatches(app, await post("search", { positive: [...app.positive], negative: [...app.negative] }), "Most alike");
  } catch (error) { tellError(error); }
}

function showMatches(app, matches, title) {
  fill("matches", element("h3", {}, title), grid(matches, app.choose, similarity));
  app.map.ring = new Set(matches.map((match) => match.index));
  app.map.draw();
}

async function searchFile(app, file) {
  if (!file) return;
  fill("matches", hint(`Looking for images like ${file.name} ...`));
  try {
    showMatches(app, await upload("search-image", file), `Most like ${file.name}`);
  } catch (error) { fill("matches"); tellError(error); }
}

export function listenForFiles(app) {
  const drop = document.getElementById("drop"), input = document.getElementById("file");
  const over = (on) => (event) => { event.preventDefault(); drop.classList.toggle("over", on); };
  document.addEventListener("dragover", over(true));
  document.addEventListener("dragleave", over(false));
  document.addEventListener("drop", (event) => {
    over(false)(event);
    if (event.dataTransfer.files.length) { app.open("search"); searchFile(app, event.dataTransfer.files[0]); }
  });
  drop.addEventListener("click", () => input.click());
  drop.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); input.click(); } });
  input.addEventListener("change", () => { searchFile(app, input.files[0]); input.value = ""; });
  input.addEventListener("click", (event) => event.stopPropagation());
}

