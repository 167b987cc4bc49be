// Points drawn by WebGL: one buffer of positions, one of colours, one draw call. In random order, so that the first
// few stand for all: while the map moves, only as many are drawn as keep it fluid.

const VERTEX = `
attribute vec2 place; attribute vec4 colour; uniform vec2 scale, shift; uniform float size; varying vec4 tint;
void main() { gl_Position = vec4(place * scale + shift, 0.0, 1.0); gl_PointSize = colour.a > 0.5 ? size : size * 0.6; tint = colour; }`;
const FRAGMENT = `
precision mediump float; varying vec4 tint; uniform float faint;
void main() { vec2 d = gl_PointCoord - 0.5; if (dot(d, d) > 0.25) discard; gl_FragColor = vec4(tint.rgb, 1.0) * (tint.a > 0.5 ? 0.85 : faint); }`;
const SLOW = 34, FAST = 20;

function shuffled(count) {
  const order = new Uint32Array(count);
  let seed = 12345;
  for (let i = 0; i < count; i++) {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    const j = seed % (i + 1);
    order[i] = order[j];
    order[j] = i;
  }
  return order;
}

export class Points {
  constructor(canvas, count) {
    this.canvas = canvas;
    this.count = this.budget = count;
    this.order = shuffled(count);
    this.gl = canvas.getContext("webgl", { antialias: false, alpha: false, desynchronized: true });
    if (this.gl) this.prepare();
  }

  prepare() {
    const gl = this.gl, program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    gl.useProgram(program);
    this.uniforms = Object.fromEntries(["scale", "shift", "size", "faint"].map((name) => [name, gl.getUniformLocation(program, name)]));
    this.buffers = ["place", "colour"].map((name) => {
      const buffer = gl.createBuffer(), at = gl.getAttribLocation(program, name);
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.enableVertexAttribArray(at);
      if (name === "place") gl.vertexAttribPointer(at, 2, gl.FLOAT, false, 0, 0);
      else gl.vertexAttribPointer(at, 4, gl.UNSIGNED_BYTE, true, 0, 0);
      return buffer;
    });
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  upload(which, values) {
    this.gl.bindBuffer(this.gl.ARRAY_BUFFER, this.buffers[which]);
    this.gl.bufferData(this.gl.ARRAY_BUFFER, values, this.gl.STATIC_DRAW);
  }

  // xy: two numbers for each image.
  place(xy) {
    if (!this.gl) return;
    const permuted = new Float32Array(2 * this.count);
    for (let k = 0; k < this.count; k++) { permuted[2 * k] = xy[2 * this.order[k]]; permuted[2 * k + 1] = xy[2 * this.order[k] + 1]; }
    this.upload(0, permuted);
  }

  // colours: red, green, blue for each image; shown: whether it passes the filters.
  paint(colours, shown) {
    if (!this.gl) return;
    const permuted = new Uint8Array(4 * this.count);
    for (let k = 0; k < this.count; k++) {
      const i = this.order[k];
      permuted[4 * k] = colours[3 * i]; permuted[4 * k + 1] = colours[3 * i + 1]; permuted[4 * k + 2] = colours[3 * i + 2];
      permuted[4 * k + 3] = shown[i] ? 255 : 0;
    }
    this.upload(1, permuted);
  }

  // How long the last frame took decides how many points the next one has while the map moves.
  adapt(milliseconds) {
    if (milliseconds > SLOW) this.budget = Math.max(2000, Math.floor(this.budget * Math.max(0.4, SLOW / milliseconds)));
    else if (milliseconds < FAST) this.budget = Math.min(this.count, Math.floor(this.budget * 1.15) + 1);
  }

  draw(camera, width, height, density, moving) {
    const gl = this.gl;
    if (!gl) return;
    const w = Math.round(width * density), h = Math.round(height * density);
    if (this.canvas.width !== w || this.canvas.height !== h) { this.canvas.width = w; this.canvas.height = h; }
    gl.viewport(0, 0, w, h);
    // opaque, since blending a whole canvas with the page is what takes longest without a graphics card
    const [red, green, blue] = getComputedStyle(this.canvas.parentNode).backgroundColor.match(/[\d.]+/g).map((value) => value / 255);
    gl.clearColor(red, green, blue, 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
    const half = Math.min(width, height) / 2 * camera.zoom;
    gl.uniform2f(this.uniforms.scale, half / (width / 2), half / (height / 2));
    gl.uniform2f(this.uniforms.shift, -camera.x * half / (width / 2), -camera.y * half / (height / 2));
    const size = Math.max(1.5, Math.min(12, 220 / Math.sqrt(this.count) * Math.sqrt(camera.zoom)));
    gl.uniform1f(this.uniforms.size, size * density);
    gl.uniform1f(this.uniforms.faint, 0.06);
    this.drawn = moving ? Math.min(this.budget, this.count) : this.count;
    gl.drawArrays(gl.POINTS, 0, this.drawn);
  }
}
