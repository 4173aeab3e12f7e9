// One lane per client. If few operations are visible, each is drawn with its values. If many are,
// the fill level of each pixel column is drawn; failed and unknown ones are at least half visible.

const EXACT = 5000;
const FEW = 400; // up to so many, values are written into the bars
const LEAST = 0.12; // the least part of a column that an operation fills

class OperationChart extends Chart {
  constructor(view, ops, data, redraw) {
    const lanes = Math.max(data.lanes.length, 1);
    const lane = Math.max(5, Math.min(20, Math.floor(360 / lanes)));
    super("operations-chart", lanes * lane + 4, view);
    Object.assign(this, { ops, lanes: data.lanes, names: data.fs, anomalies: data.anomalies });
    Object.assign(this, { lane, redraw });
  }

  draw(shared) {
    this.background(shared);
    const every = Math.ceil(12 / this.lane);
    this.lanes.forEach((name, i) => {
      if (i % every === 0) this.name(name, i * this.lane + this.lane / 2 + 2);
    });
    const proof = shared.selected >= 0 ? this.anomalies[shared.selected].rows : [];
    const [low, high] = candidates(this.ops, this.view.from, this.view.to);
    this.clipped((c) => {
      c.globalAlpha = proof.length ? 0.35 : 1;
      if (high - low > EXACT) this.columns(c, low, high, proof.length ? 0.4 : 1);
      else this.bars(c, low, high, proof.length > 0);
      c.globalAlpha = 1;
      proof.forEach((row) => this.mark(c, row));
    });
  }

  // Another filter: the totals are no longer valid.
  forget() { this.coverage = null; }

  bars(c, low, high, faded) {
    const seen = [];
    for (let i = low; i < high; i++)
      if (finish(this.ops, i) >= this.view.from && !hidden(this.ops, i)) seen.push(i);
    const label = seen.length <= FEW && this.lane >= 12;
    if (label && !this.ops.details && seen.length) loadDetails(this.ops).then(this.redraw);
    for (const i of seen) this.bar(c, i, label && !faded);
  }

  bar(c, i, label) {
    const { ops, lane } = this;
    const x0 = this.x(ops.start[i]), x1 = this.x(finish(ops, i));
    const w = Math.max(x1 - x0, 1.5), y = ops.lane[i] * lane + 3, h = lane - 3;
    const type = ops.type[i], alpha = c.globalAlpha;
    c.fillStyle = c.strokeStyle = colours.types[type];
    c.lineWidth = 1.2;
    if (type === OK) {
      c.globalAlpha = alpha * 0.75;
      c.fillRect(x0, y, w, h);
      c.globalAlpha = alpha;
      c.fillRect(x0, y, 1, h);
    } else if (type === FAIL) {
      c.globalAlpha = alpha * 0.16;
      c.fillRect(x0, y, w, h);
      c.globalAlpha = alpha;
      c.strokeRect(x0 + 0.6, y + 0.6, Math.max(w - 1.2, 0.4), h - 1.2);
      if (w > h) {
        const m = x0 + w / 2, r = h / 2 - 3;
        c.beginPath();
        c.moveTo(m - r, y + h / 2 - r); c.lineTo(m + r, y + h / 2 + r);
        c.moveTo(m - r, y + h / 2 + r); c.lineTo(m + r, y + h / 2 - r);
        c.stroke();
      }
    } else {
      // Its end is unknown: open to the right.
      c.globalAlpha = alpha * 0.2;
      c.fillRect(x0, y, w, h);
      c.globalAlpha = alpha;
      c.beginPath();
      c.moveTo(x1, y + 0.6); c.lineTo(x0 + 0.6, y + 0.6);
      c.lineTo(x0 + 0.6, y + h - 0.6); c.lineTo(x1, y + h - 0.6);
      c.stroke();
      if (w > 4) hatch(c, Math.max(x0, LEFT), y, Math.min(x1, LEFT + this.plot) - Math.max(x0, LEFT), h, colours.types[type], 6);
    }
    if (label) this.label(c, i, x0, x1, y, h);
  }

  label(c, i, x0, x1, y, h) {
    const left = Math.max(x0, LEFT) + 3, room = Math.min(x1, LEFT + this.plot) - left - 2;
    if (room < 14) return;
    c.font = MONO;
    c.textBaseline = "middle";
    haloText(c, describe(this.ops, i, this.names), left, y + h / 2 + 0.5, room);
  }

  // How full each pixel column of each lane is with ok, fail and info.
  columns(c, low, high, strength) {
    const { ops, lane, lanes } = this;
    const width = Math.ceil(this.plot), cells = width * lanes.length;
    if (this.full?.[0].length !== cells)
      this.full = [0, 1, 2].map(() => new Float32Array(cells));
    const full = this.full;
    if (high - low > MANY) this.summed(full, width);
    else this.counted(full, width, low, high);
    // Two rows of pixels per lane: failed ones in the upper, unknown ones in the lower, so that
    // they differ in position as well as in colour.
    this.bitmap ??= new Bitmap();
    const pixels = this.bitmap.resize(width, lanes.length * 2);
    const rgb = colours.types.map(rgbOf);
    for (let p = 0; p < cells; p++) {
      const ok = full[OK][p];
      const row = Math.floor(p / width), x = p - row * width;
      for (const [half, type] of [[0, FAIL], [1, INFO]]) {
        const other = full[type][p];
        if (ok + other === 0) continue;
        const at = ((row * 2 + half) * width + x) * 4, from = rgb[other > 0 ? type : OK];
        pixels[at] = from[0];
        pixels[at + 1] = from[1];
        pixels[at + 2] = from[2];
        pixels[at + 3] = 255 * strength *
          (other > 0 ? Math.max(0.5, Math.min(other, 1)) : 0.1 + 0.65 * Math.min(ok, 1));
      }
    }
    this.bitmap.finish();
    for (let l = 0; l < lanes.length; l++)
      this.bitmap.show(c, l * 2, 2, LEFT, l * lane + 3, width, lane - 3);
  }

  counted(full, width, low, high) {
    const { ops } = this, { from } = this.view, scale = width / this.view.span;
    for (const part of full) part.fill(0);
    for (let i = low; i < high; i++) {
      if (hidden(ops, i)) continue;
      const x0 = (ops.start[i] - from) * scale, x1 = (finish(ops, i) - from) * scale;
      if (x1 < 0 || x0 >= width) continue;
      const into = full[Math.min(ops.type[i], INFO)], base = ops.lane[i] * width;
      const a = Math.max(Math.floor(x0), 0), b = Math.min(Math.floor(x1), width - 1);
      if (a === b) into[base + a] += Math.max(x1 - x0, LEAST);
      else {
        into[base + a] += x0 < a ? 1 : a + 1 - x0;
        for (let x = a + 1; x < b; x++) into[base + x] += 1;
        into[base + b] += Math.min(x1 - b, 1);
      }
    }
  }

  // The same, from running totals, whose bins are about as narrow as pixels.
  summed(full, width) {
    this.coverage ??= coverage(this.ops, this.lanes.length);
    const { totals, bins } = this.coverage, at = edges(this.view, width, bins);
    const scale = width / (at[width] - at[0]);
    full.forEach((part, type) => {
      for (let l = 0; l < this.lanes.length; l++) {
        const base = (type * this.lanes.length + l) * (bins + 1);
        let before = -1;
        for (let x = 0; x <= width; x++) {
          const whole = Math.min(Math.floor(at[x]), bins - 1), left = totals[base + whole];
          const now = left + (at[x] - whole) * (totals[base + whole + 1] - left);
          if (x) {
            const share = (now - before) * scale;
            part[l * width + x - 1] = share > 1e-6 ? share : 0;
          }
          before = now;
        }
      }
    });
  }

  // An operation that proves the selected anomaly: full colour, framed, named.
  mark(c, i) {
    const { ops, lane } = this;
    if (!ops.details) loadDetails(ops).then(this.redraw);
    this.bar(c, i, false);
    const x0 = this.x(ops.start[i]), x1 = Math.max(this.x(finish(ops, i)), x0 + 3);
    const y = ops.lane[i] * lane + 3, h = lane - 3;
    c.strokeStyle = colours.mark;
    c.lineWidth = 2;
    c.strokeRect(x0 - 1, y - 1, x1 - x0 + 2, h + 2);
    c.font = "600 " + MONO;
    c.textBaseline = "middle";
    const text = describe(ops, i, this.names), width = c.measureText(text).width;
    let left = Math.max(x0, LEFT) + 3;
    if (left + width > LEFT + this.plot) left = Math.max(LEFT, x0 - width - 5);
    haloText(c, text, width + 6 > x1 - x0 && left > x0 ? x1 + 4 : left, y + h / 2 + 0.5);
  }

  hit(x, y) {
    const { ops } = this, lane = Math.floor((y - 2) / this.lane), t = this.time(x);
    const slack = 3 / this.plot * this.view.span;
    const [low, high] = candidates(ops, t - slack, t + slack);
    let best = -1, distance = Infinity;
    for (let i = low; i < high; i++) {
      if (ops.lane[i] !== lane || hidden(ops, i)) continue;
      const from = ops.start[i], to = finish(ops, i);
      const away = t < from ? from - t : t > to ? t - to : 0;
      if (away <= slack && away <= distance) { best = i; distance = away; }
    }
    return best < 0 ? null : operationHit(this, best);
  }
}

// Return the tooltip of operation `i`; values are added when they are unpacked.
function operationHit(chart, i) {
  const { ops, names, anomalies } = chart;
  const d = ops.details, type = ["ok", "fail", "info", "not ended"][ops.type[i]];
  const rows = [["invoked", timeText(ops.start[i], 1)],
    ["took", ops.latency[i] === NEVER ? "never ended" : spanText(ops.latency[i])]];
  if (d) {
    const text = (column) => d.texts[d[column][i]];
    rows.unshift(["index", d.invoke[i] + (d.completion[i] ? "–" + (d.completion[i] - 1) : "")],
      ["process", d.process[i]]);
    const same = d.sent[i] === d.seen[i];
    for (const [name, column] of [["key", "key"], [same ? "value" : "value sent", "sent"],
      ["value seen", "seen"], ["node", "node"], ["error", "error"]])
      if (d[column][i] && !(same && column === "seen")) rows.push([name, text(column)]);
  } else loadDetails(ops).then(chart.redraw);
  const anomaly = anomalies.findIndex((a) => a.rows.includes(i));
  if (anomaly >= 0) rows.push(["proves", `anomaly ${anomaly + 1} (${anomalies[anomaly].type})`]);
  return { title: `${names[ops.f[i]]} · ${type}`, rows, anomaly, row: i };
}
