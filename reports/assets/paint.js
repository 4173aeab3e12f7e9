// Canvases, colours and shapes that several charts use.

const LEFT = 104, RIGHT = 14; // the gutters beside the plot area, in CSS pixels
const FONT = '11px system-ui, "Segoe UI", "DejaVu Sans", sans-serif';
const MONO = '10.5px ui-monospace, Menlo, "DejaVu Sans Mono", monospace';

let colours = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue("--" + name).trim();
  colours = {};
  for (const name of ["panel", "text", "muted", "line", "accent", "ok", "fail", "info", "p50",
    "p95", "p99", "mark", "partition", "kill", "pause", "other-fault", "down",
    "epoch-light", "epoch-saturation", "epoch-text"]) colours[name] = get(name);
  colours.types = [colours.ok, colours.fail, colours.info, colours.info];
}

// Neighbouring epochs get very different hues (golden section), from yellow-green to purple: red
// and orange mean failed and unknown here.
const epochColour = (epoch) =>
  `hsl(${Math.round(85 + (epoch * 0.618034 + 0.95) % 1 * 215)} ${colours["epoch-saturation"]} ${colours["epoch-light"]})`;
const faultColour = (kind) => colours[kind] && !["ok", "text"].includes(kind)
  ? colours[kind] : colours["other-fault"];

// One chart: a canvas of fixed height and the plot area in it. `draw` paints; `hit` returns the
// item under the pointer, {title, rows, click}, or null.
class Chart {
  constructor(id, height, view) {
    this.canvas = document.getElementById(id);
    this.height = height;
    this.view = view;
    this.canvas.style.height = height + "px";
    this.context = this.canvas.getContext("2d", { alpha: false });
  }

  resize(width) {
    const ratio = window.devicePixelRatio || 1;
    this.width = width;
    this.plot = Math.max(width - LEFT - RIGHT, 50);
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  x(t) { return LEFT + (t - this.view.from) / this.view.span * this.plot; }
  time(x) { return this.view.from + (x - LEFT) / this.plot * this.view.span; }

  // Run `paint` clipped to the plot area.
  clipped(paint) {
    const c = this.context;
    c.save();
    c.beginPath();
    c.rect(LEFT, 0, this.plot, this.height);
    c.clip();
    paint(c);
    c.restore();
  }

  // Grid lines and fault bands, behind everything.
  background(shared) {
    const c = this.context;
    c.fillStyle = colours.panel;
    c.fillRect(0, 0, this.width, this.height);
    this.clipped(() => {
      for (const fault of shared.faults) {
        const x0 = this.x(fault.start), x1 = this.x(fault.end ?? this.view.end);
        if (x1 < LEFT || x0 > LEFT + this.plot) continue;
        c.fillStyle = faultColour(fault.kind);
        c.globalAlpha = 0.1;
        c.fillRect(x0, 0, Math.max(x1 - x0, 1), this.height);
        c.globalAlpha = 0.4;
        c.fillRect(x0, 0, 1, this.height);
        if (fault.end !== null) c.fillRect(x1 - 1, 0, 1, this.height);
      }
      c.globalAlpha = 1;
      c.fillStyle = colours.line;
      for (const t of shared.ticks) c.fillRect(Math.round(this.x(t)), 0, 1, this.height);
    });
  }

  name(text, y, strong = false) {
    const c = this.context;
    c.font = strong ? "600 " + FONT : FONT;
    c.fillStyle = strong ? colours.text : colours.muted;
    c.textAlign = "right";
    c.textBaseline = "middle";
    c.fillText(text, LEFT - 8, y, LEFT - 12);
    c.textAlign = "left";
  }
}

// A picture of one colour per cell, kept from frame to frame; `show` draws part of it.
class Bitmap {
  resize(width, height) {
    if (this.image?.width === width && this.image.height === height) this.image.data.fill(0);
    else {
      this.image = new ImageData(width, height);
      this.canvas = Object.assign(document.createElement("canvas"), { width, height });
    }
    return this.image.data;
  }

  finish() { this.canvas.getContext("2d").putImageData(this.image, 0, 0); }

  show(c, top, rows, x, y, width, height) {
    c.imageSmoothingEnabled = false;
    c.drawImage(this.canvas, 0, top, this.canvas.width, rows, x, y, width, height);
  }
}

// Text with a halo, so that it can be read on anything; cut to `room` pixels.
function haloText(c, text, x, y, room = Infinity, colour = colours.text) {
  if (room < 12) return;
  let shown = text;
  if (c.measureText(shown).width > room) {
    while (shown.length > 1 && c.measureText(shown + "…").width > room) shown = shown.slice(0, -1);
    if (shown.length < 2) return;
    shown += "…";
  }
  c.lineWidth = 3;
  c.lineJoin = "round";
  c.strokeStyle = colours.panel;
  c.globalAlpha = 0.85;
  c.strokeText(shown, x, y);
  c.globalAlpha = 1;
  c.fillStyle = colour;
  c.fillText(shown, x, y);
}

// Diagonal lines in a rectangle mark an abnormal state, whatever its colour.
function hatch(c, x, y, w, h, colour, gap = 5, rising = true) {
  c.save();
  c.beginPath();
  c.rect(x, y, w, h);
  c.clip();
  c.strokeStyle = colour;
  c.lineWidth = 1;
  c.beginPath();
  const first = Math.max(x, LEFT - h), last = Math.min(x + w, 8192);
  for (let at = first - h - ((first - h) % gap); at < last; at += gap) {
    c.moveTo(at, rising ? y + h : y);
    c.lineTo(at + h, rising ? y : y + h);
  }
  c.stroke();
  c.restore();
}
