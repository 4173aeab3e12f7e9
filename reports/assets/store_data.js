// The runs in the page's data, the filter, and the address that stores it.
const DATA = JSON.parse(document.getElementById("store-data").textContent);
const VERDICTS = [
  { label: "valid", css: "valid", sign: "✓" },
  { label: "INVALID", css: "invalid", sign: "✗" },
  { label: "unknown", css: "unknown", sign: "?" },
  { label: "not checked", css: "unknown", sign: "?" },
];
const COPIED = DATA.copied === null ? null : new Set(DATA.copied);

const RUNS = DATA.rows.map((r) => ({
  group: DATA.group[r[0]], name: r[1], report: r[2] === 1, verdict: r[3],
  system: DATA.system[r[4]] || "unknown", workload: DATA.workload[r[5]] || "unknown",
  faults: DATA.faults[r[6]], cluster: DATA.cluster[r[7]], day: DATA.day[r[8]],
  night: DATA.night[r[9]], seed: r[10], seconds: r[11], recovered: r[12],
  mutant: DATA.mutant[r[13]], red: DATA.red[r[14]], why: DATA.why[r[15]], kind: DATA.kind[r[16]],
  service: r[17], p99: r[18],
}));

const pathOf = (run) => (run.name ? (run.group ? `${run.group}/${run.name}` : run.name) : "");
const isRed = (run) => run.verdict !== 0 || run.red !== "";

const TESTS = {
  system: (run, value) => run.system === value,
  workload: (run, value) => run.workload === value,
  fault: (run, value) =>
    value === "none" ? run.faults.length === 0 : run.faults.includes(value),
  cluster: (run, value) => run.cluster === value,
  verdict: (run, value) =>
    value === "red" ? isRed(run)
      : run.verdict === { valid: 0, invalid: 1, unknown: 2, none: 3 }[value],
  build: (run, value) => (value === "planted") === (run.mutant !== ""),
  text: (run, value) => searchable(run).includes(value.toLowerCase()),
};
const KEYS = [...Object.keys(TESTS), "per", "sort", "show"];

function searchable(run) {
  run.search ??= [
    pathOf(run), run.system, run.workload, run.faults.join(" "), run.cluster, run.day, run.night,
    run.seed, run.mutant, run.red, run.why, run.kind,
  ].join("\n").toLowerCase();
  return run.search;
}

function chosen(state) {
  const active = Object.entries(TESTS).filter(([key]) => state[key]);
  return RUNS.filter((run) => active.every(([key, test]) => test(run, state[key])));
}

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(KEYS.map((key) => [key, (given.get(key) || "").slice(0, 200)]));
}

function writeAddress(state) {
  const kept = new URLSearchParams();
  for (const key of KEYS) if (state[key]) kept.set(key, state[key]);
  const text = kept.toString();
  const here = location.pathname + location.search;
  history.replaceState(null, "", text ? `${here}#${text}` : here);
}

function element(name, options = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(options)) {
    if (key === "class") made.className = value;
    else if (key === "text") made.textContent = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function median(values) {
  if (!values.length) return null;
  const sorted = Float64Array.from(values).sort();
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
