// The map: a camera over the points, a pointer, a keyboard, a lasso, and pictures where there is room for them.
import { Points } from "./points.js";
import { address } from "./pictures.js";

const CELLS = 128, PICTURE = 44, MOST_IN_VIEW = 3000, SLOW = 50;

export class ImageMap {
  // on: hover(index | null, x, y), choose(index), select(indices)
  constructor(holder, count, on) {
    Object.assign(this, { holder, count, on, camera: { x: 0, y: 0, zoom: 1 }, pointers: new Map(), ring: new Set(), chosen: null, hovered: null });
    this.overlay = holder.querySelector("#overlay");
    this.points = new Points(holder.querySelector("#points"), count);
    this.xy = new Float32Array(2 * count);
    this.shown = new Uint8Array(count).fill(1);
    this.images = new Map();
    this.listen();
    this.measure();
    new ResizeObserver(() => { this.measure(); this.draw(); }).observe(holder);
  }

  place(xy) {
    this.xy = xy;
    this.points.place(xy);
    const cell = (v) => Math.max(0, Math.min(CELLS - 1, Math.floor((v + 1) / 2 * CELLS)));
    this.cell = cell;
    this.cells = Array.from({ length: CELLS * CELLS }, () => []);
    for (let i = 0; i < this.count; i++) this.cells[cell(xy[2 * i + 1]) * CELLS + cell(xy[2 * i])].push(i);
    this.draw();
  }

  paint(colours, shown) {
    this.shown = shown;
    this.points.paint(colours, shown);
    this.draw();
  }

  measure() { this.size = [this.holder.clientWidth, this.holder.clientHeight]; } // asked of the page once, not for every image
  get half() { return Math.min(this.size[0], this.size[1]) / 2 * this.camera.zoom; }
  screen(i) { return [this.size[0] / 2 + (this.xy[2 * i] - this.camera.x) * this.half, this.size[1] / 2 - (this.xy[2 * i + 1] - this.camera.y) * this.half]; }
  world(x, y) { return [(x - this.size[0] / 2) / this.half + this.camera.x, -(y - this.size[1] / 2) / this.half + this.camera.y]; }

  // Images whose place is in a rectangle of the screen.
  inside(left, top, right, bottom, most = Infinity) {
    const [x0, y1] = this.world(left, top), [x1, y0] = this.world(right, bottom), result = [];
    for (let row = this.cell(y0); row <= this.cell(y1); row++) {
      for (let column = this.cell(x0); column <= this.cell(x1); column++) {
        for (const i of this.cells[row * CELLS + column]) {
          const x = this.xy[2 * i], y = this.xy[2 * i + 1];
          if (this.shown[i] && x >= x0 && x <= x1 && y >= y0 && y <= y1) result.push(i);
          if (result.length > most) return null;
        }
      }
    }
    return result;
  }

  nearest(x, y, radius) {
    let best = null, least = radius * radius;
    for (const i of this.inside(x - radius, y - radius, x + radius, y + radius)) {
      const [px, py] = this.screen(i), d = (px - x) ** 2 + (py - y) ** 2;
      if (d < least) { least = d; best = i; }
    }
    return best;
  }

  // -- drawing ------------------------------------------------------------------------------------------------

  // A frame soon; `moving` for one of many.
  draw(moving = false) {
    this.moving = moving || Boolean(this.pending && this.moving);
    if (!this.pending) this.pending = requestAnimationFrame((now) => this.frame(now));
  }

  frame(now) {
    this.pending = 0;
    const [width, height] = this.size, density = Math.min(2, window.devicePixelRatio || 1);
    if (!width || !height || !this.cells) return;
    this.took = this.moving && this.wasMoving ? Math.min(2000, now - this.last) : 0;
    if (this.took) this.points.adapt(this.took);
    [this.last, this.wasMoving] = [now, this.moving];
    clearTimeout(this.settling);
    if (this.moving) this.settling = setTimeout(() => this.draw(), Math.max(160, 3 * this.took)); // all points, at rest
    this.points.draw(this.camera, width, height, density, this.moving);
    this.bare = this.moving && !this.lasso && (this.bare || this.took > SLOW); // pictures and marks wait until it rests
    this.overlay.style.opacity = this.bare ? 0 : 1;
    if (this.bare) return;
    const context = this.overlay.getContext("2d");
    if (this.overlay.width !== width * density || this.overlay.height !== height * density) { this.overlay.width = width * density; this.overlay.height = height * density; }
    context.setTransform(density, 0, 0, density, 0, 0);
    context.clearRect(0, 0, width, height);
    this.pictures(context, width, height);
    this.marks(context);
  }

  // Pictures, each where no other is, once few enough images are in view.
  pictures(context, width, height) {
    const visible = this.inside(0, 0, width, height, MOST_IN_VIEW);
    this.pictured = 0;
    if (visible === null) return;
    const taken = new Set();
    for (const i of visible) {
      const [x, y] = this.screen(i), column = Math.round(x / (PICTURE + 4)), row = Math.round(y / (PICTURE + 4)), key = row * 4096 + column;
      if (taken.has(key)) continue;
      taken.add(key);
      const image = this.image(i);
      if (!image.complete || !image.naturalWidth) continue;
      context.drawImage(image, x - PICTURE / 2, y - PICTURE / 2, PICTURE, PICTURE);
      this.pictured++;
    }
  }

  image(i) {
    let image = this.images.get(i);
    if (!image) {
      image = new Image();
      image.onload = () => { if (!this.moving) this.draw(); };
      image.src = address(i, 48);
      this.images.set(i, image);
      if (this.images.size > 4000) this.images.delete(this.images.keys().next().value);
    }
    return image;
  }

  marks(context) {
    context.strokeStyle = context.fillStyle = getComputedStyle(this.holder).color;
    const circle = (i, radius, line) => { context.lineWidth = line; context.beginPath(); context.arc(...this.screen(i), radius, 0, 7); context.stroke(); };
    for (const i of this.ring) this.ring.size > 200 ? circle(i, 3.5, 1) : circle(i, 7, 1.5);
    if (this.chosen !== null) circle(this.chosen, 11, 3);
    if (this.hovered !== null) circle(this.hovered, 9, 2);
    if (this.lasso?.length) {
      context.lineWidth = 1.5;
      context.beginPath();
      this.lasso.forEach(([x, y], k) => (k ? context.lineTo(x, y) : context.moveTo(x, y)));
      context.closePath();
      context.stroke();
      context.globalAlpha = 0.08;
      context.fill();
      context.globalAlpha = 1;
    }
  }

  // -- moving -------------------------------------------------------------------------------------------------

  zoom(factor, x = this.size[0] / 2, y = this.size[1] / 2) {
    const [wx, wy] = this.world(x, y);
    this.camera.zoom = Math.max(0.5, Math.min(4000, this.camera.zoom * factor));
    const [vx, vy] = this.world(x, y);
    this.camera.x += wx - vx;
    this.camera.y += wy - vy;
    this.draw(true);
  }

  pan(dx, dy) { this.camera.x -= dx / this.half; this.camera.y += dy / this.half; this.draw(true); }
  whole() { this.camera = { x: 0, y: 0, zoom: 1 }; this.draw(); }

  // Bring an image into view.
  show(i) {
    const [x, y] = this.screen(i), [width, height] = this.size;
    if (x < 20 || y < 20 || x > width - 20 || y > height - 20) { this.camera.x = this.xy[2 * i]; this.camera.y = this.xy[2 * i + 1]; }
    this.draw();
  }

  setLasso(on) {
    this.lassoing = on;
    this.overlay.classList.toggle("lasso", on);
    document.getElementById("lasso").setAttribute("aria-pressed", String(on));
  }

  listen() {
    const node = this.overlay, at = (event) => { const box = node.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    node.addEventListener("wheel", (event) => { event.preventDefault(); this.zoom(Math.exp(-event.deltaY / 400), ...at(event)); }, { passive: false });
    node.addEventListener("pointerdown", (event) => {
      node.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, at(event));
      this.start = at(event);
      this.moved = false;
      if ((this.lassoing || event.shiftKey) && this.pointers.size === 1) this.lasso = [at(event)];
    });
    node.addEventListener("pointermove", (event) => this.move(event, at(event)));
    const up = (event) => this.release(event, at(event));
    node.addEventListener("pointerup", up);
    node.addEventListener("pointercancel", up);
    node.addEventListener("pointerleave", () => { if (!this.pointers.size) this.hover(null); });
    node.addEventListener("keydown", (event) => this.key(event));
  }

  move(event, [x, y]) {
    const before = this.pointers.get(event.pointerId);
    if (!before) { this.hover(this.nearest(x, y, 14)); return; }
    if (Math.hypot(x - this.start[0], y - this.start[1]) > 4) this.moved = true;
    if (this.lasso) { this.lasso.push([x, y]); this.draw(true); }
    else if (this.pointers.size === 2) {
      const other = [...this.pointers].find(([id]) => id !== event.pointerId)[1];
      this.zoom(Math.hypot(x - other[0], y - other[1]) / Math.max(1, Math.hypot(before[0] - other[0], before[1] - other[1])), ...other);
    } else this.pan(x - before[0], y - before[1]);
    this.pointers.set(event.pointerId, [x, y]);
  }

  release(event, [x, y]) {
    if (!this.pointers.delete(event.pointerId)) return;
    if (this.lasso) {
      const polygon = this.lasso;
      this.lasso = null;
      this.setLasso(false);
      if (polygon.length > 2) this.on.select(this.within(polygon));
      this.draw();
    } else if (!this.moved) {
      const i = this.nearest(x, y, event.pointerType === "touch" ? 26 : 16);
      if (i !== null) this.on.choose(i);
    }
  }

  // Images inside a polygon on the screen, by the number of its edges to their right.
  within(polygon) {
    const xs = polygon.map((p) => p[0]), ys = polygon.map((p) => p[1]);
    return this.inside(Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)).filter((i) => {
      const [x, y] = this.screen(i);
      let odd = false;
      for (let a = 0, b = polygon.length - 1; a < polygon.length; b = a++) {
        const [ax, ay] = polygon[a], [bx, by] = polygon[b];
        if (ay > y !== by > y && x < (bx - ax) * (y - ay) / (by - ay) + ax) odd = !odd;
      }
      return odd;
    });
  }

  hover(i) {
    if (i === this.hovered) return;
    this.hovered = i;
    this.on.hover(i, ...(i === null ? [0, 0] : this.screen(i)));
    this.draw();
  }

  key(event) {
    const direction = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    if (direction) { event.preventDefault(); this.step(direction); }
    else if (event.key === "Enter" && this.hovered !== null) this.on.choose(this.hovered);
    else if (event.key === "+" || event.key === "=") this.zoom(1.4);
    else if (event.key === "-") this.zoom(1 / 1.4);
  }

  // The image nearest in the direction of an arrow key.
  step([dx, dy]) {
    const from = this.hovered ?? this.chosen ?? this.shown.indexOf(1), [x, y] = this.screen(from), reach = 260;
    let best = from, least = Infinity;
    for (const i of this.inside(x - reach, y - reach, x + reach, y + reach)) {
      const [px, py] = this.screen(i), along = (px - x) * dx + (py - y) * dy, across = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
      if (i !== from && along > 0.5 && along + 3 * across < least) { least = along + 3 * across; best = i; }
    }
    this.hover(best);
    this.show(best);
  }
}
