// Coverage of the tests that pass the filter; verdict and text do not count.
const COVERED = DATA.coverage;
const OF_TESTS = ["system", "workload", "fault", "cluster", "build"];
const LEVELS = 5;

function bytesOf(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

const COVERED_TESTS = COVERED.tests.map((t) => ({
  system: t[0] || "unknown", workload: t[1] || "unknown", faults: t[2], cluster: t[3],
  mutant: t[4] ? "planted" : "", runs: t[5], pairs: bytesOf(t[6]), struck: bytesOf(t[7]),
}));

function familiesOf(classes) {
  const families = new Map();
  classes.forEach((name, i) => {
    const family = name.split("/", 1)[0];
    if (!families.has(family)) families.set(family, []);
    families.get(family).push(i);
  });
  return families;
}

function merged(tests, kind, size) {
  const bits = new Uint8Array(Math.ceil(size / 8));
  for (const test of tests) test[kind].forEach((byte, i) => { bits[i] |= byte; });
  return (number) => (bits[number >> 3] >> (number & 7)) & 1;
}

function fillHeat(id, rows, columns, count, apart) {
  const table = document.getElementById(id);
  if (!table) return;
  const never = [];
  let all = 0, possible = 0;
  rows.forEach(([row, shapes], i) => columns.forEach(([column, others], j) => {
    const cell = table.tBodies[0].rows[i].cells[j + 1];
    const met = count(shapes, others), most = shapes.length * others.length;
    const level = met ? Math.min(Math.ceil((met * LEVELS) / most), LEVELS) : 0;
    cell.className = `h${level}`;
    cell.title = `${row}, ${column}: ${met} of ${most} reached`;
    if (met) cell.replaceChildren(String(met), element("small", { text: `/${most}` }));
    else cell.replaceChildren(element("small", { text: "never" }));
    if (!met) never.push(`${row} ${apart} ${column}`);
    all += met;
    possible += most;
  }));
  table.caption.querySelector(".met").textContent = `${all} of ${possible} reached`;
  const list = document.getElementById(`${id}-never`);
  list.hidden = !never.length;
  list.querySelector("summary").textContent = `Never reached: ${never.length}`;
  list.querySelector("p").textContent = never.join(" · ");
}

let heatFor = "";
const heatText = document.getElementById("heat-runs")?.textContent;

function drawHeat(state) {
  const active = OF_TESTS.filter((key) => state[key]);
  const wanted = active.map((key) => `${key}=${state[key]}`).join("&");
  if (!heatText || wanted === heatFor) return;
  heatFor = wanted;
  const note = document.getElementById("heat-note");
  if (!active.length) {
    for (const [id, before] of HEAT_BEFORE) document.getElementById(id).replaceWith(before.cloneNode(true));
    document.getElementById("heat-runs").textContent = heatText;
    note.hidden = true;
    return;
  }
  const tests = COVERED_TESTS.filter((test) => active.every((key) => TESTS[key](test, state[key])));
  const { classes, states } = COVERED;
  const families = [...familiesOf(classes)];
  const pair = merged(tests, "pairs", classes.length ** 2);
  const struck = merged(tests, "struck", classes.length * states.length);
  const sum = (shapes, others, has) => {
    let met = 0;
    for (const a of shapes) for (const b of others) met += has(a, b);
    return met;
  };
  fillHeat("heat-pairs", families, families,
    (shapes, others) => sum(shapes, others, (a, b) => pair(a * classes.length + b)), "then");
  fillHeat("heat-struck", families, states.map((name, k) => [name, [k]]),
    (shapes, others) => sum(shapes, others, (a, k) => struck(a * states.length + k)), "on");
  const runs = tests.reduce((total, test) => total + test.runs, 0);
  document.getElementById("heat-runs").textContent =
    `Of ${runs.toLocaleString("en")} run${runs === 1 ? "" : "s"} that match the filter by system, workload, fault, cluster and build (verdict and text do not count here).`;
  note.hidden = !COVERED.untold;
  note.textContent = COVERED.untold
    ? `${COVERED.untold.toLocaleString("en")} runs are left out: their coverage is not recorded per test.` : "";
}

// The initial state of the page: all runs, including those of unknown tests.
const HEAT_BEFORE = ["heat-pairs", "heat-struck", "heat-pairs-never", "heat-struck-never"]
  .flatMap((id) => (document.getElementById(id) ? [[id, document.getElementById(id).cloneNode(true)]] : []));
