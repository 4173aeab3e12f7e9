// Lines per day or night instead of bars: seconds with service, and latency on a log scale.
const LINES = {
  service: {
    of: (run) => run.service, sum: mean, title: "Seconds with service",
    text: (value) => `${(100 * value).toFixed(1)} %`,
    say: "mean share of seconds in which an operation succeeded",
    range: () => [0, 1],
    at: (value, [low, high]) => (value - low) / (high - low),
  },
  latency: {
    of: (run) => run.p99, sum: median, title: "99th percentile of latency",
    text: spanText,
    say: "median of the runs' 99th percentiles of latency",
    range: (values) => {
      const low = Math.min(...values), high = Math.max(...values);
      return values.length
        ? [10 ** Math.floor(Math.log10(low)), 10 ** Math.max(Math.ceil(Math.log10(high)), Math.floor(Math.log10(low)) + 1)]
        : [1, 10];
    },
    at: (value, [low, high]) => Math.log(value / low) / Math.log(high / low),
  },
};
const SMALLEST_MS = 0.001;

function mean(values) {
  return values.length ? values.reduce((a, b) => a + b, 0) / values.length : null;
}

function spanText(ms) {
  const micro = ms * 1000;
  if (micro < 1000) return `${micro.toFixed(0)} µs`;
  if (micro < 1e6) return `${Number((micro / 1000).toPrecision(3))} ms`;
  return `${Number((micro / 1e6).toPrecision(3))} s`;
}

// The values of each group per bucket; `bars` of a group hold the values of its runs.
function linePoints(group, buckets, show) {
  const { sum } = LINES[show];
  return buckets.map((name) => {
    const bar = group.bars.get(name);
    const value = bar ? sum(bar[show]) : null;
    return value === null ? null : { name, value, runs: bar[show].length };
  });
}

// One scale for all groups, so that rows can be compared.
function lineRange(groups, buckets, show) {
  const values = groups.flatMap((group) => linePoints(group, buckets, show))
    .filter((point) => point !== null).map((point) => Math.max(point.value, SMALLEST_MS));
  return LINES[show].range(values);
}

function lineChart(group, buckets, per, show, range) {
  const { at, text, say } = LINES[show];
  const width = Math.max(buckets.length * BAR, BAR);
  const points = linePoints(group, buckets, show);
  const known = points.filter((point) => point !== null);
  const svg = shape("svg", {
    class: "bars", width, height: HEIGHT, role: "img",
    "aria-label": known.length
      ? `${group.label}: ${say}, per ${per}, from ${text(known[0].value)} to ${text(known[known.length - 1].value)}`
      : `${group.label}: not known for any run`,
  });
  svg.append(shape("line", { x1: 0, x2: width, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5, class: "ground" }),
    shape("line", { x1: 0, x2: width, y1: 0.5, y2: 0.5, class: "ground" }));
  const x = (i) => i * BAR + BAR / 2;
  const y = (value) => 3 + (HEIGHT - 6) * (1 - Math.min(Math.max(at(Math.max(value, SMALLEST_MS), range), 0), 1));
  const corners = points.flatMap((point, i) => (point === null ? [] : [`${x(i)},${y(point.value).toFixed(1)}`]));
  if (corners.length > 1) svg.append(shape("polyline", { points: corners.join(" "), class: "line" }));
  points.forEach((point, i) => {
    if (point === null) return;
    const column = shape("g", {});
    const title = shape("title", {});
    title.textContent = `${point.name}: ${text(point.value)}, ${say} of ${point.runs} run${point.runs === 1 ? "" : "s"}`;
    column.append(title, shape("rect", { x: i * BAR, y: 0, width: BAR, height: HEIGHT, class: "hit" }),
      shape("circle", { cx: x(i), cy: y(point.value).toFixed(1), r: 2.2, class: "dot" }));
    svg.append(column);
  });
  return svg;
}

function scaleText(show, range) {
  const { text, title } = LINES[show];
  return `${title}, ${text(range[0])} to ${text(range[1])}${show === "latency" ? ", logarithmic" : ""}. `;
}
