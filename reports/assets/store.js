// The filter's controls, the keyboard, and redrawing when they change.
const form = document.getElementById("filters");
let state = readAddress();

function fill(name, values) {
  const select = form.elements[name];
  const all = [...new Set(values)].filter((value) => value !== "").sort();
  const given = state[name];
  if (given && !all.includes(given)) all.push(given);
  select.replaceChildren(element("option", { value: "", text: "all" }),
    ...all.map((value) => element("option", { value, text: value })));
}

function fillAll() {
  fill("system", RUNS.map((run) => run.system));
  fill("workload", RUNS.map((run) => run.workload));
  fill("fault", [...DATA.faults.flat(), ...(DATA.faults.some((f) => !f.length) ? ["none"] : [])]);
  fill("cluster", DATA.cluster);
}

function showState() {
  for (const key of KEYS) {
    const control = form.elements[key];
    if (!control) continue;
    control.value = state[key];
    if (control.value !== state[key]) state[key] = control.value = "";
  }
  if (!Object.hasOwn(ORDERS, state.sort)) state.sort = "";
  if (!Object.hasOwn(LINES, state.show)) state.show = "";
}

function draw() {
  const runs = chosen(state);
  const reds = runs.filter((run) => run.verdict === 1 && !run.mutant).length;
  document.getElementById("count").textContent =
    `${runs.length.toLocaleString("en")} of ${RUNS.length.toLocaleString("en")} runs, ${reds.toLocaleString("en")} INVALID without a planted bug`;
  drawTrend(runs, state, change);
  drawHeat(state);
  drawRuns(runs, state);
  document.documentElement.dataset.drawn = String(Number(document.documentElement.dataset.drawn || 0) + 1);
}

function change(wanted) {
  Object.assign(state, wanted);
  showState();
  writeAddress(state);
  draw();
}

if (document.getElementById("run-table")) {
  fillAll();
  showState();
  form.hidden = false;
  document.getElementById("sort").hidden = false;
  document.getElementById("show").hidden = false;
  document.getElementById("compare").hidden = !DATA.live;
  draw();
  let waiting = 0;
  form.addEventListener("input", (event) => {
    clearTimeout(waiting);
    const wanted = { [event.target.name]: event.target.value };
    if (event.target.name === "text") waiting = setTimeout(() => change(wanted), 150);
    else change(wanted);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    change(Object.fromEntries(KEYS.map((key) => [key, ""])));
  });
  document.getElementById("sort").addEventListener("click", (event) => {
    const order = event.target.dataset.sort;
    if (order !== undefined) change({ sort: order });
  });
  document.getElementById("show").addEventListener("click", (event) => {
    const wanted = event.target.dataset.show;
    if (wanted !== undefined) change({ show: wanted });
  });
  document.getElementById("more").addEventListener("click", () => {
    const first = showMore(MORE);
    first?.querySelector("a, button, input")?.focus();
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, select, textarea");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      form.elements.text.focus();
    } else if (event.key === "Escape" && event.target === form.elements.text) {
      change({ text: "" });
    }
  });
  addEventListener("hashchange", () => {
    state = readAddress();
    fillAll();
    showState();
    draw();
  });
}
