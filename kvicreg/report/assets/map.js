"use strict";
// Maps of the embeddings: points on a canvas, linked between runs that show the same images.

function colourOf(index) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--s${index % 8}`).trim();
}

// One of four marks, so that classes beyond the eighth differ by more than colour.
function mark(context, kind, x, y, r) {
  context.beginPath();
  if (kind === 0) context.arc(x, y, r, 0, 7);
  else if (kind === 1) { context.moveTo(x, y - r * 1.3); context.lineTo(x + r * 1.2, y + r); context.lineTo(x - r * 1.2, y + r); }
  else if (kind === 2) context.rect(x - r, y - r, 2 * r, 2 * r);
  else { context.moveTo(x, y - r * 1.4); context.lineTo(x + r * 1.4, y); context.lineTo(x, y + r * 1.4); context.lineTo(x - r * 1.4, y); }
  context.closePath();
}

function className(pictures, index) {
  const label = pictures.labels[index];
  return label < 0 ? "no label" : pictures.classes[label] ?? String(label);
}

// A picture out of the sheet of all pictures, `size` pixels wide.
function thumbnail(pictures, index, size, label) {
  const node = element("span", label ? { class: "thumb", role: "img", "aria-label": label } : { class: "thumb", "aria-hidden": "true" });
  const rows = Math.ceil(pictures.labels.length / pictures.columns);
  node.style.width = node.style.height = size + "px";
  node.style.backgroundImage = `url(${pictures.sheet})`;
  node.style.backgroundSize = `${pictures.columns * size}px ${rows * size}px`;
  node.style.backgroundPosition = `${-(index % pictures.columns) * size}px ${-Math.floor(index / pictures.columns) * size}px`;
  return node;
}

class EmbeddingMap {
  // group: the maps that share pictures, and with them hover and selection
  constructor(figure, run, pictures, group) {
    Object.assign(this, { run, pictures, group, hovered: null });
    this.holder = element("div", { class: "plot square" });
    this.canvas = element("canvas", {
      tabindex: "0", role: "application", "aria-roledescription": "map of images",
      "aria-label": `UMAP of ${pictures.labels.length} test images by ${run.name}. Arrow keys move from image to image, Enter shows its neighbours.`,
    });
    this.tip = element("div", { class: "tip picture", role: "status" });
    this.tip.hidden = true;
    this.holder.append(this.canvas, this.tip);
    figure.append(this.holder);
    this.canvas.addEventListener("pointermove", (event) => this.group.hover(this.nearest(event), this));
    this.canvas.addEventListener("pointerleave", () => this.group.hover(null, this));
    this.canvas.addEventListener("click", (event) => { const at = this.nearest(event); if (at !== null) this.group.select(at); });
    this.canvas.addEventListener("blur", () => this.group.hover(null, this));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.holder);
  }

  place() {
    const size = this.holder.clientWidth, pad = 14, { points } = this.run.map;
    this.xy = points.map((v) => pad + (v / 1000) * (size - 2 * pad));
    this.size = size;
  }

  nearest(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    let best = null, distance = event.pointerType === "touch" ? 24 : 12;
    for (let i = 0; i < this.pictures.labels.length; i++) {
      if (!this.group.shows(i)) continue;
      const d = Math.hypot(this.xy[2 * i] - x, this.xy[2 * i + 1] - y);
      if (d < distance) { distance = d; best = i; }
    }
    return best;
  }

  // The image nearest in the direction of an arrow key.
  key(event) {
    const from = this.group.hovered ?? this.group.selected ?? 0;
    const direction = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); this.group.select(from); }
    if (event.key === "Escape") this.group.hover(null, this);
    if (!direction) return;
    event.preventDefault();
    let best = from, least = Infinity;
    for (let i = 0; i < this.pictures.labels.length; i++) {
      if (i === from || !this.group.shows(i)) continue;
      const dx = this.xy[2 * i] - this.xy[2 * from], dy = this.xy[2 * i + 1] - this.xy[2 * from + 1];
      const along = dx * direction[0] + dy * direction[1], across = Math.abs(dx * direction[1]) + Math.abs(dy * direction[0]);
      if (along > 0.5 && along + 3 * across < least) { least = along + 3 * across; best = i; }
    }
    this.group.hover(best, this);
  }

  draw() {
    if (!this.holder.clientWidth) return;
    this.place();
    const density = window.devicePixelRatio || 1, context = this.canvas.getContext("2d");
    this.canvas.width = this.canvas.height = this.size * density;
    context.scale(density, density);
    const colours = [...Array(8).keys()].map(colourOf), { labels } = this.pictures;
    const radius = Math.max(1.8, Math.min(4.5, 0.42 * this.size / Math.sqrt(labels.length)) * 0.55);
    for (const faint of [true, false]) {
      context.globalAlpha = faint ? 0.07 : 0.8;
      for (let i = 0; i < labels.length; i++) {
        if (this.group.shows(i) === faint) continue;
        context.fillStyle = labels[i] < 0 ? colours[7] : colours[labels[i] % 8];
        mark(context, Math.floor(Math.max(0, labels[i]) / 8) % 4, this.xy[2 * i], this.xy[2 * i + 1], radius);
        context.fill();
      }
    }
    context.globalAlpha = 1;
    const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
    const rings = [];
    if (this.group.selected !== null) {
      for (const n of this.neighbours(this.group.selected)) rings.push([n, radius + 2.5, 1.2]);
      rings.push([this.group.selected, radius + 5, 2.4]);
    }
    if (this.group.hovered !== null) rings.push([this.group.hovered, radius + 4, 2]);
    context.strokeStyle = ink;
    for (const [i, r, w] of rings) {
      context.lineWidth = w;
      context.beginPath();
      context.arc(this.xy[2 * i], this.xy[2 * i + 1], r, 0, 7);
      context.stroke();
    }
  }

  neighbours(i) {
    const { neighbours, k } = this.run.map;
    return neighbours.slice(i * k, (i + 1) * k);
  }

  // The image under the pointer, where the pointer is; on the linked maps a ring is enough.
  show(i) {
    this.tip.hidden = i === null;
    if (i === null) return;
    const name = className(this.pictures, i);
    this.tip.replaceChildren(thumbnail(this.pictures, i, 84, `an image of class ${name}`), element("span", {}, `${name}, test image ${this.pictures.indices[i]}`));
    const x = this.xy[2 * i], y = this.xy[2 * i + 1], w = this.tip.offsetWidth, h = this.tip.offsetHeight;
    this.tip.style.left = (x + w + 16 < this.size ? x + 12 : Math.max(0, x - w - 12)) + "px";
    this.tip.style.top = Math.max(0, Math.min(this.size - h, y - h / 2)) + "px";
  }
}

class MapGroup {
  constructor(section, pictures, runs) {
    Object.assign(this, { pictures, hovered: null, selected: null, only: null });
    const grid = element("div", { class: `maps n${Math.min(3, runs.length)}` });
    this.maps = runs.map((run) => {
      const figure = element("figure", { class: "map" });
      figure.append(element("figcaption", {}, run.name));
      grid.append(figure);
      return new EmbeddingMap(figure, run, pictures, this);
    });
    this.panel = element("div", { class: "neighbours", "aria-live": "polite" });
    this.panel.append(element("p", { class: "hint" }, "Point at an image to see it; click it (or press Enter) for its nearest neighbours."));
    const home = element("div", { class: runs.length === 1 ? "beside" : "below" }), left = element("div");
    left.append(grid, this.classes());
    home.append(left, this.panel);
    section.append(home);
  }

  shows(i) { return this.only === null || this.pictures.labels[i] === this.only; }
  redraw() { for (const map of this.maps) map.draw(); }

  classes() {
    const list = element("div", { class: "classes", role: "group", "aria-label": "Show one class only" });
    const count = Math.max(...this.pictures.labels) + 1;
    for (let c = 0; c < Math.min(count, 32); c++) {
      const button = element("button", { type: "button", "aria-pressed": "false" }), key = document.createElementNS(SVG, "svg");
      key.setAttribute("viewBox", "0 0 12 12"); key.setAttribute("width", 12); key.setAttribute("height", 12); key.setAttribute("aria-hidden", "true");
      const path = ["M6 2a4 4 0 1 0 .01 0z", "M6 1L11 10H1z", "M2 2H10V10H2z", "M6 0L12 6L6 12L0 6z"][Math.floor(c / 8) % 4];
      shape(key, "path", { d: path, class: `fill s${c % 8}` });
      button.append(key, this.pictures.classes[c] ?? String(c));
      button.addEventListener("click", () => {
        this.only = this.only === c ? null : c;
        for (const other of list.children) other.setAttribute("aria-pressed", String(other === button && this.only !== null));
        this.redraw();
      });
      list.append(button);
    }
    return list;
  }

  hover(i, where) {
    this.hovered = i;
    for (const map of this.maps) map.show(map === where ? i : null);
    this.redraw();
  }

  select(i) {
    this.selected = i;
    const { pixelNeighbours, k, labels } = this.pictures;
    const rows = this.maps.map((map) => [this.maps.length > 1 ? `Nearest by ${map.run.name}` : "Nearest by the encoder", map.neighbours(i)]);
    rows.push(["Nearest by raw pixels", pixelNeighbours.slice(i * k, (i + 1) * k)]);
    const chosen = element("div", { class: "chosen" });
    chosen.append(thumbnail(this.pictures, i, 96, `the chosen image, class ${className(this.pictures, i)}`), element("p", {}, `${className(this.pictures, i)}, test image ${this.pictures.indices[i]}`));
    const lists = element("div", { class: "lists" });
    for (const [title, found] of rows) {
      const same = found.filter((n) => labels[n] === labels[i]).length;
      const block = element("section"), list = element("ul", { class: "row-of-images" });
      block.append(element("h4", {}, labels[i] < 0 ? title : `${title}: ${same} of ${found.length} of the same class`), list);
      for (const n of found) {
        const item = element("li", { class: labels[n] === labels[i] ? "same" : "other" });
        item.append(thumbnail(this.pictures, n, 56, `neighbour of class ${className(this.pictures, n)}`), element("span", {}, className(this.pictures, n)));
        list.append(item);
      }
      lists.append(block);
    }
    this.panel.replaceChildren(chosen, lists);
    this.redraw();
  }
}
