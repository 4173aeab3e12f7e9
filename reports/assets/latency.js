// Latency of every operation on a logarithmic scale, and completions per second.

const POINTS = 6000; // more than these are drawn as a density picture

class LatencyChart extends Chart {
  constructor(view, ops, data, redraw) {
    super("latency-chart", 190, view);
    Object.assign(this, { ops, names: data.fs, anomalies: data.anomalies, redraw });
    this.seconds = data.seconds;
    let least = Infinity, most = 0;
    for (let i = 0; i < ops.rows; i++) {
      const l = ops.latency[i];
      if (l === NEVER) continue;
      least = Math.min(least, l);
      most = Math.max(most, l);
    }
    this.low = Math.floor(Math.log10(Math.max(least === Infinity ? 1000 : least, 10)));
    this.high = Math.max(Math.ceil(Math.log10(Math.max(most, 10)) + 0.05), this.low + 1);
  }

  y(us) {
    const part = (Math.log10(Math.max(us, 1)) - this.low) / (this.high - this.low);
    return 182 - Math.max(part, 0) * 172;
  }

  draw(shared) {
    const { ops } = this;
    this.background(shared);
    for (let power = this.low; power <= this.high; power++) {
      const y = this.y(10 ** power);
      this.context.fillStyle = colours.line;
      this.context.fillRect(LEFT, Math.round(y), this.plot, 1);
      this.name(spanText(10 ** power), y);
    }
    const low = lowerBound(ops.start, this.view.from), high = lowerBound(ops.start, this.view.to);
    const proof = shared.selected >= 0 ? this.anomalies[shared.selected].rows : [];
    this.clipped((c) => {
      c.globalAlpha = proof.length ? 0.4 : 1;
      if (high - low > POINTS) this.density(c, low, high);
      else for (let i = low; i < high; i++) if (!hidden(ops, i)) this.point(c, i);
      c.globalAlpha = 1;
      this.quantiles(c);
      for (const i of proof) {
        if (ops.latency[i] === NEVER) continue;
        this.point(c, i);
        c.strokeStyle = colours.mark;
        c.lineWidth = 2;
        c.beginPath();
        c.arc(this.x(ops.start[i]), this.y(ops.latency[i]), 6, 0, 7);
        c.stroke();
      }
    });
  }

  forget() { this.totals = null; }

  point(c, i) {
    const { ops } = this;
    if (ops.latency[i] === NEVER) return;
    const x = this.x(ops.start[i]), y = this.y(ops.latency[i]), type = ops.type[i];
    c.fillStyle = c.strokeStyle = colours.types[type];
    if (type === OK) c.fillRect(x - 1.25, y - 1.25, 2.5, 2.5);
    else if (type === FAIL) {
      c.lineWidth = 1.3;
      c.beginPath();
      c.moveTo(x - 2.5, y - 2.5); c.lineTo(x + 2.5, y + 2.5);
      c.moveTo(x - 2.5, y + 2.5); c.lineTo(x + 2.5, y - 2.5);
      c.stroke();
    } else {
      c.beginPath();
      c.moveTo(x, y - 3.5); c.lineTo(x + 3.5, y + 2.5); c.lineTo(x - 3.5, y + 2.5);
      c.fill();
    }
  }

  // Operations in cells of 2 x 2 pixels; more operations make a cell darker.
  density(c, low, high) {
    const width = Math.ceil(this.plot / 2), height = Math.ceil(this.height / 2);
    const cells = width * height;
    if (this.counts?.[0].length !== cells)
      this.counts = [0, 1, 2].map(() => new Uint32Array(cells));
    const counts = this.counts;
    for (const part of counts) part.fill(0);
    if (high - low > MANY) this.summed(counts, width, height);
    else this.counted(counts, width, height, low, high);
    let most = 1;
    this.bitmap ??= new Bitmap();
    const pixels = this.bitmap.resize(width, height);
    const rgb = colours.types.map(rgbOf);
    for (let p = 0; p < cells; p++)
      most = Math.max(most, counts[OK][p] + counts[FAIL][p] + counts[INFO][p]);
    for (let p = 0; p < cells; p++) {
      const ok = counts[OK][p], fail = counts[FAIL][p], info = counts[INFO][p];
      if (ok + fail + info === 0) continue;
      // Cells that hold several kinds mix their colours, the rarer kinds weighing more.
      const weights = [ok, fail * 1.5, info * 6], all = weights[0] + weights[1] + weights[2];
      for (let k = 0; k < 3; k++)
        pixels[p * 4 + k] =
          (rgb[0][k] * weights[0] + rgb[1][k] * weights[1] + rgb[2][k] * weights[2]) / all;
      const share = Math.log1p(ok + fail + info) / Math.log1p(most);
      pixels[p * 4 + 3] = info ? 255 : 90 + 165 * share;
    }
    this.bitmap.finish();
    this.bitmap.show(c, 0, height, LEFT, 0, width * 2, height * 2);
  }

  counted(counts, width, height, low, high) {
    const { ops } = this, scale = width / this.view.span;
    for (let i = low; i < high; i++) {
      if (ops.latency[i] === NEVER || hidden(ops, i)) continue;
      const x = Math.floor((ops.start[i] - this.view.from) * scale);
      const y = Math.floor(this.y(ops.latency[i]) / 2);
      if (x < 0 || x >= width || y < 0 || y >= height) continue;
      counts[Math.min(ops.type[i], INFO)][y * width + x]++;
    }
  }

  // The same, from running totals.
  summed(counts, width, height) {
    this.totals ??= this.count(height);
    const { totals, bins } = this.totals, row = bins + 1;
    const at = Int32Array.from(edges(this.view, width, bins), Math.round);
    counts.forEach((part, type) => {
      for (let y = 0; y < height; y++) {
        const base = (type * height + y) * row;
        if (totals[base + bins] === 0) continue;
        let before = totals[base + at[0]];
        for (let x = 0; x < width; x++) {
          const now = totals[base + at[x + 1]];
          part[y * width + x] = now - before;
          before = now;
        }
      }
    });
  }

  // A million logarithms take a while: use a table with steps finer than a pixel.
  count(height) {
    const rows = new Int16Array(65536).fill(-1);
    const bits = new Uint32Array(1), float = new Float32Array(bits.buffer);
    return counts(this.ops, height, (latency) => {
      float[0] = latency;
      const key = bits[0] >>> 15;
      if (rows[key] < 0) rows[key] = Math.floor(this.y(latency) / 2);
      return rows[key];
    });
  }

  quantiles(c) {
    const edge = LEFT + this.plot - 26, labels = [];
    const styles = [["p99", [1.5, 2.5]], ["p95", [6, 3]], ["p50", []]];
    for (const [name, dash] of styles) {
      const series = this.seconds[name];
      const first = Math.max(Math.floor(this.view.from / 1e6) - 2, 0);
      const last = Math.min(Math.ceil(this.view.to / 1e6) + 2, series.length);
      let drawing = false, before = null, after = null;
      c.beginPath();
      for (let s = first; s < last; s++) {
        if (series[s] === null) { drawing = false; continue; }
        const x = this.x((s + 0.5) * 1e6), y = this.y(series[s]);
        if (drawing) c.lineTo(x, y);
        else { c.moveTo(x - 2, y); c.lineTo(x, y); }
        drawing = true;
        if (x <= edge) before = [x, y];
        else after ??= [x, y];
      }
      c.lineJoin = "round";
      c.setLineDash([]);
      c.strokeStyle = colours.panel;
      c.globalAlpha = 0.6;
      c.lineWidth = 4;
      c.stroke();
      c.globalAlpha = 1;
      c.setLineDash(dash);
      c.strokeStyle = colours[name];
      c.lineWidth = name === "p50" ? 2 : 1.6;
      c.stroke();
      c.setLineDash([]);
      if (before && before[0] > edge - 60 && !after) labels.push([name, before[1]]);
      else if (before && after) {
        const part = (edge - before[0]) / (after[0] - before[0]);
        labels.push([name, before[1] + (after[1] - before[1]) * part]);
      }
    }
    // Names at the right edge, moved apart where the lines are close.
    c.font = "600 " + FONT;
    c.textBaseline = "middle";
    let above = -Infinity;
    for (const [name, y] of labels.sort((a, b) => a[1] - b[1])) {
      above = Math.max(y - 8, above + 13);
      haloText(c, name, edge, above, 100, colours[name]);
    }
  }

  hit(x, y) {
    const { ops } = this, slack = 7 / this.plot * this.view.span, t = this.time(x);
    let best = -1, distance = 49;
    const high = lowerBound(ops.start, t + slack);
    for (let i = lowerBound(ops.start, t - slack); i < high; i++) {
      if (ops.latency[i] === NEVER || hidden(ops, i)) continue;
      const away = (this.x(ops.start[i]) - x) ** 2 + (this.y(ops.latency[i]) - y) ** 2;
      if (away < distance) { best = i; distance = away; }
    }
    if (best >= 0) return operationHit(this, best);
    const s = Math.floor(t / 1e6);
    if (this.seconds.p50[s] == null) return null;
    return { title: `second ${s}`, rows: ["p50", "p95", "p99"].map((name) =>
      [name, spanText(this.seconds[name][s])]) };
  }
}

// The red, green and blue of any CSS colour.
function rgbOf(colour) {
  const known = (rgbOf.known ??= new Map()).get(colour);
  if (known) return known;
  const c = rgbOf.context ??= Object.assign(document.createElement("canvas"),
    { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  c.clearRect(0, 0, 1, 1);
  c.fillStyle = colour;
  c.fillRect(0, 0, 1, 1);
  const rgb = [...c.getImageData(0, 0, 1, 1).data.slice(0, 3)];
  rgbOf.known.set(colour, rgb);
  return rgb;
}

class RateChart extends Chart {
  constructor(view, seconds) {
    super("rate-chart", 110, view);
    this.seconds = seconds;
    const most = Math.max(1, ...["ok", "fail", "info"].map((n) => seconds[n].reduce((a, b) => Math.max(a, b), 0)));
    this.step = roundStep(most / 3);
    this.top = Math.ceil(most * 1.05 / this.step) * this.step;
  }

  y(n) { return 104 - n / this.top * 96; }

  draw(shared) {
    this.background(shared);
    for (let n = 0; n <= this.top; n += this.step) {
      this.context.fillStyle = colours.line;
      this.context.fillRect(LEFT, Math.round(this.y(n)), this.plot, 1);
      this.name(n.toLocaleString("en"), this.y(n));
    }
    this.clipped((c) => {
      for (const [name, dash, fill] of [["ok", [], 0.18], ["fail", [5, 3], 0], ["info", [1.5, 2.5], 0]]) {
        const series = this.seconds[name];
        const first = Math.max(Math.floor(this.view.from / 1e6) - 1, 0);
        const last = Math.min(Math.ceil(this.view.to / 1e6) + 1, series.length);
        c.beginPath();
        c.moveTo(this.x(first * 1e6), this.y(0));
        for (let s = first; s < last; s++) {
          c.lineTo(this.x(s * 1e6), this.y(series[s]));
          c.lineTo(this.x((s + 1) * 1e6), this.y(series[s]));
        }
        c.fillStyle = c.strokeStyle = colours[name];
        if (fill) {
          c.save();
          c.lineTo(this.x(last * 1e6), this.y(0));
          c.globalAlpha = fill;
          c.fill();
          c.restore();
        }
        c.setLineDash(dash);
        c.lineWidth = 1.6;
        c.stroke();
        c.setLineDash([]);
      }
    });
  }

  hit(x) {
    const s = Math.floor(this.time(x) / 1e6);
    if (s < 0 || s >= this.seconds.ok.length) return null;
    return { title: `second ${s}`, rows: ["ok", "fail", "info"].map((name) =>
      [name, `${this.seconds[name][s]}/s`]) };
  }
}
