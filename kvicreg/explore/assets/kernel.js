// A look into the kernel: its values between the chosen image and its neighbours, and the leading directions of its
// feature space as galleries.
import { get, tellError } from "./api.js";
import { element, fill, grid, hint, percent, picture } from "./pictures.js";

let shown = 0;

function bar(label, value, low, high, words) {
  return element("div", { class: "bar" }, label, element("meter", { min: low, max: high, value, "aria-label": words }), words);
}

export async function showKernel(app) {
  if (app.state.parts.kernel !== "ready") { fill("values", hint("The kernel is being looked into ...")); fill("components"); return; }
  const item = app.item;
  if (!item?.kernel) fill("values", hint("Choose an image to see the kernel's values to its neighbours, and its weights in the directions below."));
  else {
    const rows = item.neighbours.map((near, k) => bar(picture(near.index, near.name), item.kernel[k], 0, 1, item.kernel[k].toFixed(3)));
    fill("values", element("h2", {}, `k(x, y) / k(x, x) to the neighbours of ${item.name}`), ...rows);
  }
  const count = item?.components?.length ?? 8;
  const buttons = Array.from({ length: count }, (_, k) => element("button", { type: "button", "aria-pressed": String(k === shown), onclick: () => { shown = k; showKernel(app); } },
    `${k + 1}${item?.shares ? ` · ${percent(item.shares[k])}` : ""}${item?.components ? ` · ${item.components[k].toFixed(1)}` : ""}`));
  try {
    const { high, low } = await get(`gallery/${shown}`);
    fill("components", element("h2", {}, "Directions of feature space"),
      hint("The principal directions of the images under the kernel: what the variance term keeps apart. Each with its share of the variance, and the chosen image's weight in deviations."),
      element("div", { class: "actions", id: "directions" }, ...buttons), element("h3", {}, "Most positive"), grid(high, app.choose), element("h3", {}, "Most negative"), grid(low, app.choose));
  } catch (error) { tellError(error); }
}
