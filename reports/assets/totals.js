// Running totals of many operations over time. A frame with more than MANY operations is drawn
// from differences of totals, so its cost depends on pixels and not on operations.

const MANY = 40000;
const CELLS = 2 ** 21; // numbers per table at most

const binsFor = (series) =>
  Math.min(16384, 2 ** Math.floor(Math.log2(CELLS / Math.max(series, 1))));

// The share of each bin of time that each lane spent on operations that ended ok, failed, unknown:
// a table (type * lanes + lane) of totals up to the start of each bin, in bins.
function coverage(ops, lanes) {
  const bins = binsFor(lanes * 3), row = bins + 1, scale = bins / ops.end;
  const totals = new Float64Array(3 * lanes * row);
  for (let i = 0; i < ops.rows; i++) {
    if (hidden(ops, i)) continue;
    const x0 = ops.start[i] * scale, x1 = Math.min(finish(ops, i) * scale, bins);
    const a = Math.min(Math.floor(x0), bins - 1), b = Math.min(Math.floor(x1), bins - 1);
    const base = (Math.min(ops.type[i], INFO) * lanes + ops.lane[i]) * row + 1;
    if (a === b) totals[base + a] += Math.max(x1 - x0, LEAST);
    else {
      totals[base + a] += a + 1 - x0;
      for (let x = a + 1; x < b; x++) totals[base + x] += 1;
      totals[base + b] += x1 - b;
    }
  }
  accumulate(totals, row);
  return { totals, bins };
}

// Operations that began in each bin of time, by type and row of the latency chart.
function counts(ops, rows, rowOf) {
  const bins = Math.min(binsFor(rows * 3), 8192), row = bins + 1, scale = bins / ops.end;
  const totals = new Uint32Array(3 * rows * row);
  for (let i = 0; i < ops.rows; i++) {
    if (ops.latency[i] === NEVER || hidden(ops, i)) continue;
    const r = rowOf(ops.latency[i]);
    if (r < 0 || r >= rows) continue;
    const x = Math.min(Math.floor(ops.start[i] * scale), bins - 1);
    totals[(Math.min(ops.type[i], INFO) * rows + r) * row + 1 + x]++;
  }
  accumulate(totals, row);
  return { totals, bins };
}

function accumulate(totals, row) {
  for (let base = 0; base < totals.length; base += row)
    for (let i = base + 1; i < base + row; i++) totals[i] += totals[i - 1];
}

// The left edges of the `width` columns of the visible time, in bins.
function edges(view, width, bins) {
  const result = new Float64Array(width + 1), scale = bins / view.end;
  for (let x = 0; x <= width; x++)
    result[x] = Math.min((view.from + view.span * x / width) * scale, bins);
  return result;
}
