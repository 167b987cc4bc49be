// Labelling: the image that would teach the probe most, a button (and a key) for every class, and what it thinks.
import { get, tellError } from "./api.js";
import { element, fill, grid, hint, picture } from "./pictures.js";

let asked = [];
const classes = new Set();

export function classNames(app) {
  for (const name of Object.keys(app.state.labels)) classes.add(name);
  return [...classes];
}

export function listenForLabels(app) {
  document.getElementById("new-class").addEventListener("submit", (event) => {
    event.preventDefault();
    const field = document.getElementById("class-name"), name = field.value.trim().replace(/\s+/g, " ");
    if (!name) return;
    classes.add(name);
    field.value = "";
    showLabels(app);
  });
}

// A digit gives the image that is asked about the class of that number; S skips it.
export function labelKey(app, key) {
  const name = /^[1-9]$/.test(key) ? classNames(app)[Number(key) - 1] : undefined;
  if (name !== undefined && asked.length) answer(app, name);
  if (key === "s" && asked.length > 1) { asked.push(asked.shift()); showQuestion(app); }
}

async function answer(app, name) {
  const item = asked.shift();
  showQuestion(app); // the next one at once; better ones come with the answer
  await app.label([item.index], name);
}

function showQuestion(app) {
  const names = classNames(app);
  fill("classes", ...names.map((name, k) => element("button", { type: "button", "data-class": name, onclick: () => { if (asked.length) answer(app, name); } },
    `${name}${k < 9 ? ` (${k + 1})` : ""}${app.state.labels[name] ? ` · ${app.state.labels[name]}` : ""}`)));
  const item = asked[0];
  if (!item) { fill("question", hint(app.state.parts.clusters === "ready" ? "Nothing is left to ask." : "The first question is being prepared ...")); return; }
  const words = !names.length ? "Add a class, then say which this is." : item.guess ? `Is this ${item.guess}?` : "Which is this?";
  fill("question", element("div", { class: "chosen" }, picture(item.index, item.name, 320), element("div", {}, element("p", {}, element("strong", {}, words)), element("p", {}, item.name), hint("Keys 1 to 9 answer, S skips."))));
  app.map.chosen = item.index;
  app.map.draw();
}

export async function showLabels(app) {
  try {
    const { asked: next, given } = await get("questions");
    asked = next;
    showQuestion(app);
    const rows = Object.entries(given), counted = rows.length;
    document.getElementById("label-count").textContent = `${counted} labelled, saved in ${app.state.label_file}`;
    const recent = rows.slice(-24).map(([index, label]) => ({ index: Number(index), name: label }));
    fill("opinions", ...(counted ? [element("h3", {}, "Labelled (click to take the label away)"), grid(recent, (index) => app.label([index], null), (item) => item.name)] : []));
  } catch (error) { tellError(error); }
}
